package load

import (
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"github.com/skeep-project/skeep/go/gguf"
	"golang.org/x/sys/unix"
)

const (
	directAlign  = 4096    // what O_DIRECT wants of offsets, lengths and addresses on every common file system
	directBuffer = 1 << 20 // bytes of one read
)

// directFile reads a file past the page cache. It is not safe for concurrent use.
type directFile struct {
	f      *os.File
	buffer []byte // aligned
}

// openDirect opens the file at path, which must still be the one that is open as f, for reading past the page cache;
// the error says why the file system cannot, or wraps gguf.ErrChanged.
func openDirect(path string, f *os.File) (*directFile, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_DIRECT, 0)
	if err != nil {
		return nil, fmt.Errorf("load: read %s without the page cache: %w", path, err)
	}
	d := os.NewFile(uintptr(fd), path)
	own, err := f.Stat()
	other, otherErr := d.Stat()
	if err = errors.Join(err, otherErr); err == nil && !os.SameFile(own, other) {
		err = fmt.Errorf("load: %s was replaced by another file: %w", path, gguf.ErrChanged)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	room := make([]byte, directBuffer+directAlign)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(room))) & (directAlign - 1)
	return &directFile{d, room[skip:][:directBuffer]}, nil
}

// ReadAt implements io.ReaderAt for any offset and length, by whole aligned pieces.
func (d *directFile) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		at := offset + int64(n)
		from := at &^ (directAlign - 1)
		got, err := d.f.ReadAt(d.buffer, from)
		if int64(got) <= at-from { // nothing behind at
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return n, err
		}
		n += copy(p[n:], d.buffer[at-from:got])
		if err != nil && err != io.EOF {
			return n, err
		}
	}
	return n, nil
}
