package skeep

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// slabAlignment is where each tensor of a slab begins: a cache line, and the widest vector.
const slabAlignment = 64

// ForwardScope is a bump allocator for the tensors of a step: it allocates them one after another from a slab of fixed
// size, which resolver.Place puts outside of the Go heap unless it is small. Reset ends all tensors and makes the whole
// slab available for the next step; Mark and Mark.Release end the most recent ones. To keep a tensor, copy it into
// another scope with Materialize or Retain. In steady state a step allocates no memory.
//
// A tensor that does not fit gets a storage of its own with the same lifetime; Overflow counts such tensors and names
// the first. With OverflowFails it is an error instead.
//
// Tensors are not zeroed. A ForwardScope must be used by one goroutine at a time; its views may be used by several.
type ForwardScope struct {
	storage *Storage
	o       options
	marks   []openMark // the first is the scope's own, renewed by Reset
	next    int64      // where the next tensor begins
	need    int64      // where it would if everything had fitted
	peak    int64      // largest need
	extra   []*Storage // storages of tensors that did not fit
	over    Overflow
	names   slabNames
}

// openMark is a level of a scope: what it was when the level began.
type openMark struct {
	handle core.Storage
	next   int64
	need   int64
	extra  int
	names  int
}

// Overflow counts the tensors that did not fit into a slab since the scope was made. They got memory of their own or,
// with OverflowFails, were refused. Allocations that failed for another reason do not count.
type Overflow struct {
	Count int64
	Bytes int64  // math.MaxInt64 when there are more
	First string // name of the first such tensor
}

// OverflowFails makes a tensor that does not fit into a slab an error that wraps ErrOverflow.
func OverflowFails() Option { return func(o *options) { o.strict = true } }

// NewForwardScope makes a scope whose slab has the given number of bytes. The caller must close it.
func NewForwardScope(name string, bytes int64, opts ...Option) (*ForwardScope, error) {
	s := &ForwardScope{o: collect(opts)}
	s.o.model = nil
	var err error
	if s.storage, err = allocate(name, bytes, &s.o, s.spec(name, bytes)); err != nil {
		return nil, err
	}
	s.storage.names = &s.names
	mark, st := core.MarkOpen(s.storage.r.handle)
	if st.Code != core.OK {
		return nil, errors.Join(s.storage.status("mark", st), s.storage.Close())
	}
	s.marks = append(s.marks, openMark{handle: mark})
	return s, nil
}

// slab is the storage; that of the zero ForwardScope is the zero Storage, so the scope is closed.
func (s *ForwardScope) slab() *Storage {
	if s.storage == nil {
		return new(Storage)
	}
	return s.storage
}

// spec places the slab, or a tensor that did not fit.
func (s *ForwardScope) spec(name string, bytes int64) tensor.AllocationSpec {
	spec := s.o.place(name, bytes, tensor.Forward)
	spec.Scope = tensor.Forward
	if a := spec.Alignment; a >= 0 && a&(a-1) == 0 { // others are refused where memory is allocated
		spec.Alignment = max(a, slabAlignment)
	}
	return spec
}

// Kind is tensor.Forward.
func (s *ForwardScope) Kind() tensor.ScopeKind { return tensor.Forward }

// Storage is the slab.
func (s *ForwardScope) Storage() *Storage { return s.storage }

// Size is the bytes of the slab.
func (s *ForwardScope) Size() int64 { return s.slab().bytes }

// Used is the number of slab bytes that are allocated now.
func (s *ForwardScope) Used() int64 { return s.next }

// Peak is the maximum number of bytes that were needed at the same time: a slab of this size would have held
// everything.
func (s *ForwardScope) Peak() int64 { return s.peak }

// Overflow counts what did not fit.
func (s *ForwardScope) Overflow() Overflow { return s.over }

// Holds reports whether v reads bytes of the slab that are allocated now. Until the tensor ends, such bytes change only
// by writes through a view or storage, which View.Writes counts. Holds is false for tensors that did not fit.
func (s *ForwardScope) Holds(v View) bool {
	return v.storage != nil && v.storage.r == s.slab().r && v.desc.Data+uintptr(v.desc.Bytes) <= s.slab().address+uintptr(s.next)
}

// Alloc allocates a gap-free row-major tensor from the slab. name should be a constant: it is kept for error messages
// until the second Reset from now, or until a few hundred more tensors have ended.
func (s *ForwardScope) Alloc(name string, f tensor.Format, shape tensor.Shape) (View, error) {
	l, err := tensor.LayoutOf(f, shape, tensor.Order{})
	if err != nil {
		return View{}, s.slab().errorOf("allocate", name, err, "")
	}
	bytes, err := l.Bytes(f)
	if err != nil {
		return View{}, s.slab().errorOf("allocate", name, err, "")
	}
	return s.cut(name, bytes, f, l)
}

// AllocLayout is Alloc for any layout.
func (s *ForwardScope) AllocLayout(name string, f tensor.Format, l tensor.Layout) (View, error) {
	if err := l.Check(f); err != nil {
		return View{}, s.slab().errorOf("allocate", name, err, "")
	}
	bytes, err := l.Bytes(f)
	if err != nil {
		return View{}, s.slab().errorOf("allocate", name, err, "")
	}
	return s.cut(name, bytes, f, l)
}

func (s *ForwardScope) cut(name string, bytes int64, f tensor.Format, l tensor.Layout) (View, error) {
	if err := s.slab().open("allocate", name); err != nil {
		return View{}, err
	}
	at := s.next
	if bytes > s.slab().bytes-at {
		return s.overflow(name, bytes, f, l)
	}
	s.next = min(s.slab().bytes, at+padded(bytes))
	s.need += padded(bytes)
	s.peak = max(s.peak, s.need)
	mark := s.marks[len(s.marks)-1].handle
	s.names.add(mark, s.slab().address+uintptr(at), name)
	return s.slab().viewAt(at, bytes, mark, f, l), nil
}

// padded is the distance to the next tensor.
func padded(bytes int64) int64 { return (bytes + slabAlignment - 1) &^ (slabAlignment - 1) }

// overflow makes a storage for a tensor that does not fit.
func (s *ForwardScope) overflow(name string, bytes int64, f tensor.Format, l tensor.Layout) (View, error) {
	if s.o.strict {
		s.overflowed(name, bytes)
		return View{}, s.slab().errorOf("allocate", name, ErrOverflow,
			fmt.Sprintf("%d bytes needed, %d of %d are free", bytes, s.slab().bytes-s.next, s.slab().bytes))
	}
	spec := s.spec(name, bytes)
	spec.Reason = "it did not fit into the slab; " + spec.Reason
	extra, err := allocate(s.slab().r.name, bytes, &s.o, spec)
	if err != nil {
		return View{}, err
	}
	s.overflowed(name, bytes)
	extra.tensor = name
	s.need += padded(bytes)
	s.peak = max(s.peak, s.need)
	s.extra = append(s.extra, extra)
	return extra.viewAt(0, bytes, extra.r.handle, f, l), nil
}

// overflowed counts a tensor that did not fit, once it has memory of its own or was refused for that.
func (s *ForwardScope) overflowed(name string, bytes int64) {
	if s.over.Count == 0 {
		s.over.First = name
	}
	s.over.Count++
	s.over.Bytes += min(bytes, math.MaxInt64-s.over.Bytes)
	s.o.trace.Emit(trace.Event{Kind: trace.Overflow, Name: s.slab().r.name, Tensor: name, Layer: -1, Bytes: bytes})
}

// discard rewinds to the beginning of v, which is the latest tensor.
func (s *ForwardScope) discard(v View) {
	s.need -= padded(int64(v.desc.Bytes))
	if v.storage != s.storage {
		last := len(s.extra) - 1
		_ = s.extra[last].Close()
		s.extra = s.extra[:last]
		return
	}
	s.next = int64(v.desc.Data - s.slab().address)
}

func (s *ForwardScope) recorder() *trace.Recorder { return s.o.trace }

// Reset ends all tensors and marks of the scope and makes the whole slab available again. It waits for the pins of
// others on these tensors, but not for pins on other bytes of the slab's Storage. step is the caller's running step, or
// nil; Reset releases the pins of that step itself.
func (s *ForwardScope) Reset(step *Step) error {
	if len(s.marks) == 0 {
		return s.slab().errorOf("reset", "", ErrClosed, "")
	}
	outer := &s.marks[0]
	if err := s.closeExtra(0, step); err != nil {
		return err
	}
	if st := core.MarkRenew(&outer.handle, step.inside()); st.Code != core.OK {
		return s.slab().status("reset", st)
	}
	if memoryDebug {
		s.poison()
	}
	s.marks = s.marks[:1]
	s.next, s.need = 0, 0
	s.names.end(0, true)
	return nil
}

// poison makes what a late read would see NaN.
func (s *ForwardScope) poison() {
	memory := core.Memory(s.slab().address, int(s.next))
	for i := range memory {
		memory[i] = 0xff
	}
}

// closeExtra closes overflow storages down to a level. One that was closed by hand has ended as it should.
func (s *ForwardScope) closeExtra(level int, step *Step) error {
	var errs []error
	for last := len(s.extra) - 1; last >= level; last-- {
		if err := s.extra[last].CloseIn(step); !errors.Is(err, ErrClosed) {
			errs = append(errs, err)
		}
		s.extra[last] = nil
		s.extra = s.extra[:last]
	}
	return errors.Join(errs...)
}

// Mark is a position in a ForwardScope to which Release goes back.
type Mark struct {
	scope *ForwardScope
	depth int
	cell  core.Storage
}

// Mark opens a nested level: Release of the mark ends the tensors that are made from now on.
func (s *ForwardScope) Mark() (Mark, error) {
	if err := s.slab().open("mark", ""); err != nil {
		return Mark{}, err
	}
	handle, st := core.MarkOpen(s.slab().owner().handle)
	if st.Code != core.OK {
		return Mark{}, s.slab().status("mark", st)
	}
	s.marks = append(s.marks, openMark{handle: handle, next: s.next, need: s.need, extra: len(s.extra), names: s.names.count()})
	return Mark{s, len(s.marks) - 1, handle}, nil
}

// Release ends the tensors and marks that were made since this mark and makes their bytes available again. It waits for
// the pins of others on them; step is as in ForwardScope.Reset. Releasing a mark twice is ErrClosed.
func (m Mark) Release(step *Step) error {
	s := m.scope
	if s == nil {
		return &Error{Op: "release", Err: ErrArgument, Detail: "no mark"}
	}
	if m.depth >= len(s.marks) || s.marks[m.depth].handle != m.cell {
		return s.slab().errorOf("release", "", ErrClosed, "mark")
	}
	at := s.marks[m.depth]
	if err := s.closeExtra(at.extra, step); err != nil {
		return err
	}
	if st := core.MarkRelease(m.cell, step.inside()); st.Code != core.OK {
		return s.slab().status("release", st)
	}
	s.marks = s.marks[:m.depth]
	s.next, s.need = at.next, at.need
	s.names.end(at.names, false)
	return nil
}

// Close ends the scope and its slab, without waiting. The slab is freed when its last pin is released.
func (s *ForwardScope) Close() error {
	return errors.Join(s.closeExtra(0, nil), s.slab().Close())
}

// slabNames remembers the names of a slab's tensors, of those that ended too: an error about a stale view comes
// after the reset. Views themselves have no room for a name.
type slabNames struct {
	mu    sync.Mutex
	open  []slabName    // of tensors that have not ended, oldest first
	ended [2][]slabName // of this turn, and of the one before
}

// endedNames is how many tensors end before a turn ends that no reset ended.
const endedNames = 256

type slabName struct {
	mark core.Storage
	data uintptr
	name string
}

func (n *slabNames) add(mark core.Storage, data uintptr, name string) {
	n.mu.Lock()
	n.open = append(n.open, slabName{mark, data, name})
	n.mu.Unlock()
}

func (n *slabNames) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.open)
}

// end keeps the oldest tensors; the others have ended. A turn forgets those that ended in the turn before.
func (n *slabNames) end(keep int, turn bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended[0] = append(n.ended[0], n.open[keep:]...)
	n.open = n.open[:keep]
	if turn || len(n.ended[0]) > endedNames {
		n.ended[0], n.ended[1] = n.ended[1][:0], n.ended[0]
	}
}

func (n *slabNames) find(v *core.View) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, names := range [...][]slabName{n.open, n.ended[0], n.ended[1]} {
		for i := len(names) - 1; i >= 0; i-- {
			if s := &names[i]; s.data == v.Data && s.mark.Cell == v.Cell && s.mark.Generation == v.Generation {
				return s.name
			}
		}
	}
	return fmt.Sprintf("value %d", v.Value)
}
