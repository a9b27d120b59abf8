package skeep

import (
	"errors"
	"sync"

	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// Scope decides how long allocations live. It is a *ModelScope, a *ForwardScope or Ambient().
type Scope interface {
	// Kind says which of the three it is.
	Kind() tensor.ScopeKind
	// Alloc makes a gap-free row-major tensor; its contents are unspecified.
	Alloc(name string, f tensor.Format, shape tensor.Shape) (View, error)
	// AllocLayout is Alloc for any layout.
	AllocLayout(name string, f tensor.Format, l tensor.Layout) (View, error)

	// discard gives back the latest allocation, whose filling failed.
	discard(v View)
	recorder() *trace.Recorder
}

// Ambient returns the scope whose storages are freed by garbage collection when no view or storage refers to them any
// more. Each allocation is a storage of its own. The options apply to these storages.
func Ambient(opts ...Option) Scope { return &ambientScope{collect(opts)} }

type ambientScope struct{ o options }

func (s *ambientScope) Kind() tensor.ScopeKind    { return tensor.Ambient }
func (s *ambientScope) recorder() *trace.Recorder { return s.o.trace }
func (s *ambientScope) discard(v View)            { _ = v.storage.root().Close() } // nobody else has seen it

func (s *ambientScope) Alloc(name string, f tensor.Format, shape tensor.Shape) (View, error) {
	return allocShape(s, name, f, shape)
}

func (s *ambientScope) AllocLayout(name string, f tensor.Format, l tensor.Layout) (View, error) {
	return allocLayout(name, f, l, s.o, tensor.Ambient)
}

// allocShape is Alloc in terms of AllocLayout.
func allocShape(s Scope, name string, f tensor.Format, shape tensor.Shape) (View, error) {
	l, err := tensor.LayoutOf(f, shape, tensor.Order{})
	if err != nil {
		return View{}, &Error{Op: "allocate", Storage: name, Err: err}
	}
	return s.AllocLayout(name, f, l)
}

// allocLayout makes a storage for one tensor.
func allocLayout(name string, f tensor.Format, l tensor.Layout, o options, scope tensor.ScopeKind) (View, error) {
	if err := l.Check(f); err != nil {
		return View{}, &Error{Op: "allocate", Storage: name, Err: err}
	}
	bytes, err := l.Bytes(f)
	if err != nil {
		return View{}, &Error{Op: "allocate", Storage: name, Err: err}
	}
	s, err := allocate(name, bytes, &o, o.place(name, bytes, scope))
	if err != nil {
		return View{}, err
	}
	return s.ViewLayout("", 0, f, l)
}

// ModelScope owns storages and closes them, in the reverse order of their creation, when it is closed. It is safe for
// concurrent use.
type ModelScope struct {
	name string
	o    options

	mu       sync.Mutex
	storages []*Storage
	closed   bool
}

// NewModelScope makes an empty scope. The options apply to the storages that Alloc makes.
func NewModelScope(name string, opts ...Option) *ModelScope {
	return &ModelScope{name: name, o: collect(opts)}
}

// Kind is tensor.Model.
func (s *ModelScope) Kind() tensor.ScopeKind { return tensor.Model }

// Alloc makes a tensor in a new storage of the same name.
func (s *ModelScope) Alloc(name string, f tensor.Format, shape tensor.Shape) (View, error) {
	return allocShape(s, name, f, shape)
}

// AllocLayout is Alloc for any layout.
func (s *ModelScope) AllocLayout(name string, f tensor.Format, l tensor.Layout) (View, error) {
	o := s.o
	o.model = s
	return allocLayout(name, f, l, o, tensor.Model)
}

// Placing returns a view of the same scope whose Alloc places storages as spec says.
func (s *ModelScope) Placing(spec tensor.AllocationSpec) Scope { return placing{s, spec} }

type placing struct {
	*ModelScope
	spec tensor.AllocationSpec
}

func (p placing) Alloc(name string, f tensor.Format, shape tensor.Shape) (View, error) {
	return allocShape(p, name, f, shape)
}

func (p placing) AllocLayout(name string, f tensor.Format, l tensor.Layout) (View, error) {
	o := p.o
	o.model, o.spec = p.ModelScope, &p.spec
	return allocLayout(name, f, l, o, tensor.Model)
}

// Storages lists what the scope owns, oldest first.
func (s *ModelScope) Storages() []*Storage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Storage(nil), s.storages...)
}

func (s *ModelScope) adopt(st *Storage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &Error{Op: "allocate", Storage: st.r.name, Err: ErrClosed, Detail: "scope " + shown.Name(s.name)}
	}
	s.storages = append(s.storages, st)
	return nil
}

func (s *ModelScope) discard(v View) {
	root := v.storage.root()
	s.mu.Lock()
	for i := len(s.storages) - 1; i >= 0; i-- {
		if s.storages[i] == root {
			s.storages = append(s.storages[:i], s.storages[i+1:]...)
			break
		}
	}
	s.mu.Unlock()
	_ = root.Close() // nobody else has seen it
}

func (s *ModelScope) recorder() *trace.Recorder { return s.o.trace }

// Close closes all storages, the latest first, and joins their errors. Storages that were closed before
// are fine. A second Close is ErrClosed.
func (s *ModelScope) Close() error {
	s.mu.Lock()
	storages, closed := s.storages, s.closed
	s.storages, s.closed = nil, true
	s.mu.Unlock()
	if closed {
		return &Error{Op: "close", Storage: s.name, Err: ErrClosed, Detail: "model scope"}
	}
	var errs []error
	for i := len(storages) - 1; i >= 0; i-- {
		if err := storages[i].Close(); err != nil && !errors.Is(err, ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
