package load

import (
	"fmt"
	"io"
	"os"
	"unsafe"

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

// openDirect opens a file for reading past the page cache; the error says why the file system cannot.
func openDirect(path string) (*directFile, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_DIRECT, 0)
	if err != nil {
		return nil, fmt.Errorf("load: %s past the page cache: %w", path, err)
	}
	room := make([]byte, directBuffer+directAlign)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(room))) & (directAlign - 1)
	return &directFile{os.NewFile(uintptr(fd), path), room[skip:][:directBuffer]}, nil
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
