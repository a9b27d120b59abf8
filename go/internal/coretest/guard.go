package coretest

import (
	"fmt"
	"syscall"
)

// GuardedBuffer is memory between two inaccessible pages, so that a test sees every access outside:
// the process stops at it. Not safe for concurrent Close.
type GuardedBuffer struct{ mapping, data []byte }

// NewGuardedBuffer maps at least size zeroed bytes between guard pages; Close unmaps them.
func NewGuardedBuffer(size int) (*GuardedBuffer, error) {
	page := syscall.Getpagesize()
	inner := (size + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, inner+2*page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("coretest: guarded buffer of %d bytes: %w", size, err)
	}
	for _, guard := range [][]byte{m[:page], m[page+inner:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			_ = syscall.Munmap(m)
			return nil, fmt.Errorf("coretest: guard page: %w", err)
		}
	}
	return &GuardedBuffer{m, m[page : page+inner : page+inner]}, nil
}

// Front is the n bytes right behind the front guard: reading one byte before them faults. Its address is
// a multiple of the page size.
func (b *GuardedBuffer) Front(n int) []byte { return b.data[:n:n] }

// Back is the n bytes right before the rear guard: reading one byte behind them faults. Its address is odd
// when n is.
func (b *GuardedBuffer) Back(n int) []byte {
	return b.data[len(b.data)-n:]
}

// Close unmaps the buffer; slices of it must not be used afterwards.
func (b *GuardedBuffer) Close() error { return syscall.Munmap(b.mapping) }
