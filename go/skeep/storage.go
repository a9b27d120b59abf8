package skeep

import (
	"fmt"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// Storage is a range of bytes in one memory domain. The owner of the bytes is the Storage itself (Allocate, Map), the
// caller (Borrow), or another Storage (Alias, View). All methods are safe for concurrent use.
//
// After Close, using a view of the storage, its aliases or its marks is an error that wraps ErrClosed. Close does not
// wait: whoever is reading the bytes keeps them until the read ends. CloseContext waits for that. The scope decides
// which storages are closed automatically; see the package comment. The zero Storage has no bytes and is closed.
type Storage struct {
	r       *record
	parent  *Storage // kept reachable by an alias; nil for the owner
	tensor  string   // name of an alias
	address uintptr
	bytes   int64
	closed  atomic.Bool // an alias that was closed by itself
	names   *slabNames  // of the tensors in a forward slab
	cleanup runtime.Cleanup
}

// unmade is the owner of the bytes of a zero Storage.
var unmade = func() *record {
	r := &record{readonly: true, gone: make(chan struct{})}
	r.closed.Store(true)
	close(r.gone)
	return r
}()

func (s *Storage) owner() *record {
	if s.r == nil {
		return unmade
	}
	return s.r
}

var (
	_ io.ReaderAt = (*Storage)(nil)
	_ io.WriterAt = (*Storage)(nil)
	_ io.Closer   = (*Storage)(nil)
)

// Alias makes a storage that is a part of s. It owns no bytes. It keeps s reachable but not open: closing s ends the
// alias too. Closing only the alias refuses new views of it and frees nothing.
func (s *Storage) Alias(name string, offset, bytes int64) (*Storage, error) {
	return s.alias("alias", name, offset, bytes)
}

func (s *Storage) alias(op, name string, offset, bytes int64) (*Storage, error) {
	if err := s.open(op, name); err != nil {
		return nil, err
	}
	if offset < 0 || bytes <= 0 || offset > s.bytes || bytes > s.bytes-offset {
		return nil, s.errorOf(op, name, ErrBounds, fmt.Sprintf("%d bytes at offset %d of %d", bytes, offset, s.bytes))
	}
	return &Storage{r: s.r, parent: s, tensor: name, address: s.address + uintptr(offset), bytes: bytes}, nil
}

// Name is the name of the owner of the bytes.
func (s *Storage) Name() string { return s.owner().name }

// Tensor is the name of an alias; it is empty for a storage that is not an alias.
func (s *Storage) Tensor() string { return s.tensor }

// ID is the owner's number, never reused in a process.
func (s *Storage) ID() uint64 { return s.owner().id }

// Domain is where the bytes live.
func (s *Storage) Domain() tensor.Domain { return s.owner().spec.Domain }

// Spec is how the bytes were placed, with the reason.
func (s *Storage) Spec() tensor.AllocationSpec { return s.owner().spec }

// Size is the number of bytes.
func (s *Storage) Size() int64 { return s.bytes }

// Writable reports whether the bytes may be written to.
func (s *Storage) Writable() bool { return !s.owner().readonly }

// Closed reports whether the storage, or the owner of its bytes, has been closed. After it returns false, another
// goroutine may close the storage at any time.
func (s *Storage) Closed() bool { return s.closed.Load() || s.owner().closed.Load() }

func (s *Storage) open(op, tensor string) error {
	if s.Closed() {
		return s.errorOf(op, tensor, ErrClosed, "")
	}
	return nil
}

func (s *Storage) root() *Storage {
	for s.parent != nil {
		s = s.parent
	}
	return s
}

// ReadAt implements io.ReaderAt.
func (s *Storage) ReadAt(p []byte, offset int64) (int, error) {
	n, err := s.at("read", p, offset, false)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// WriteAt implements io.WriterAt. If p does not fit, nothing is written and the error wraps ErrBounds.
func (s *Storage) WriteAt(p []byte, offset int64) (int, error) { return s.at("write", p, offset, true) }

func (s *Storage) at(op string, p []byte, offset int64, write bool) (int, error) {
	if err := s.open(op, s.tensor); err != nil {
		return 0, err
	}
	if offset < 0 || write && (offset > s.bytes || int64(len(p)) > s.bytes-offset) {
		return 0, s.errorOf(op, s.tensor, ErrBounds, fmt.Sprintf("%d bytes at offset %d of %d", len(p), offset, s.bytes))
	}
	if offset >= s.bytes {
		return 0, nil
	}
	n := min(int64(len(p)), s.bytes-offset)
	if n == 0 {
		return 0, nil
	}
	v := s.whole()
	err := v.touch(op, write, func(memory []byte) {
		if write {
			copy(memory[offset:], p)
		} else {
			copy(p[:n], memory[offset:])
		}
	})
	if err != nil {
		return 0, err
	}
	return int(n), nil
}

// whole is all bytes of s as something to touch.
func (s *Storage) whole() View {
	return s.viewAt(0, s.bytes, s.owner().handle, tensor.Format{}, tensor.Layout{})
}

// View makes a view of a tensor whose bytes begin at offset, gap-free and row-major. name is the tensor's name in
// errors and traces; with an empty name the view has no name and makes no alias.
func (s *Storage) View(name string, offset int64, f tensor.Format, shape tensor.Shape) (View, error) {
	l, err := tensor.LayoutOf(f, shape, tensor.Order{})
	if err != nil {
		return View{}, s.errorOf("view", name, err, "")
	}
	return s.ViewLayout(name, offset, f, l)
}

// ViewLayout is View for any layout. Errors wrap ErrClosed, ErrBounds or an error of package tensor.
func (s *Storage) ViewLayout(name string, offset int64, f tensor.Format, l tensor.Layout) (View, error) {
	if err := l.Check(f); err != nil {
		return View{}, s.errorOf("view", name, err, "")
	}
	bytes, err := l.Bytes(f)
	if err != nil {
		return View{}, s.errorOf("view", name, err, "")
	}
	if name != "" {
		if s, err = s.alias("view", name, offset, bytes); err != nil {
			return View{}, err
		}
		offset = 0
	} else if err := s.open("view", name); err != nil {
		return View{}, err
	}
	if offset < 0 || offset > s.bytes || bytes > s.bytes-offset {
		return View{}, s.errorOf("view", name, ErrBounds, fmt.Sprintf("%d bytes at offset %d of %d", bytes, offset, s.bytes))
	}
	return s.viewAt(offset, bytes, s.owner().handle, f, l), nil
}

// viewAt joins checked parts; cell is the owner's slot or that of a mark.
func (s *Storage) viewAt(offset, bytes int64, cell core.Storage, f tensor.Format, l tensor.Layout) View {
	return View{
		desc: core.View{
			Data: s.address + uintptr(offset), Bytes: uint64(bytes),
			Cell: cell.Cell, Generation: cell.Generation, Storage: s.owner().id,
			Format: f, Layout: l,
		},
		storage: s,
	}
}
