package skeep

import (
	"fmt"
	"runtime"

	"github.com/skeep-project/skeep/go/internal/core"
	"golang.org/x/sys/unix"
)

// Verify returns an error that wraps ErrChanged if a mapped file has changed since it was mapped.
func (s *Storage) Verify() error {
	st := core.Verify(s.owner().handle)
	runtime.KeepAlive(s)
	return s.status("verify", st)
}

// Advice tells the system how a range of a mapped file will be used.
type Advice uint32

// The advice. DontNeed drops clean pages, which come back from the file when they are read again.
const (
	Normal     Advice = 0
	Sequential Advice = 1
	WillNeed   Advice = 2
	DontNeed   Advice = 3
)

// Advise gives advice about a byte range of a mapped storage.
func (s *Storage) Advise(offset, bytes int64, a Advice) error {
	if offset < 0 || bytes < 0 || offset > s.bytes || bytes > s.bytes-offset {
		return s.errorOf("advise", s.tensor, ErrBounds, fmt.Sprintf("%d bytes at offset %d of %d", bytes, offset, s.bytes))
	}
	root := s.root()
	st := core.Advise(s.owner().handle, uint64(offset)+uint64(s.address-root.address), uint64(bytes), uint32(a))
	runtime.KeepAlive(root)
	return s.status("advise", st)
}

// Lock keeps the pages of a mapped file in memory until it is closed. The system limits how much memory a process may
// lock (RLIMIT_MEMLOCK); the error states that limit.
func (s *Storage) Lock() error {
	if err := s.open("lock", s.tensor); err != nil {
		return err
	}
	var err error
	v := s.whole()
	if refused := v.touch("lock", false, func(memory []byte) { err = unix.Mlock(memory) }); refused != nil || err == nil {
		return refused
	}
	var limit unix.Rlimit
	detail := err.Error()
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil {
		detail = fmt.Sprintf("%v: cannot lock %d bytes, the limit is %d (ulimit -l)", err, s.bytes, limit.Cur)
	}
	return s.errorOf("lock", s.tensor, ErrMemory, detail)
}

// Resident is how many bytes of a mapped file (of the whole mapping, for an alias) are in memory now.
func (s *Storage) Resident() (int64, error) {
	n, st := core.Resident(s.owner().handle)
	runtime.KeepAlive(s)
	return int64(n), s.status("resident", st)
}
