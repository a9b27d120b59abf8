package skeep

import (
	"fmt"
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// View is one logical tensor in one physical form: Shape and Layout, Format, and the Storage whose
// bytes it reads. It is a plain value (fixed arrays, no pointer but the Storage, which it keeps
// reachable), owns no memory, and is copied freely. It stays valid until its storage, mark or scope
// ends; afterwards every access is ErrClosed. The zero View means "absent".
//
// Methods are safe for concurrent use; writes to the same elements are the caller's to order.
type View struct {
	desc    core.View // first: see door.Descriptor
	storage *Storage
}

// A descriptor elsewhere does not compile.
var _ = [1]struct{}{}[unsafe.Offsetof(View{}.desc)]

// IsZero reports whether the view is absent.
func (v View) IsZero() bool { return v.desc.Layout.Block == 0 }

// Shape is the logical extents.
func (v View) Shape() tensor.Shape { return v.desc.Layout.Dims() }

// Format is what the elements are.
func (v View) Format() tensor.Format { return v.desc.Format }

// Layout is how an index reaches its cell, counted from the tensor's first byte.
func (v View) Layout() tensor.Layout { return v.desc.Layout }

// Storage is whose bytes the view reads; nil for an absent view.
func (v View) Storage() *Storage { return v.storage }

// Domain is where the bytes live; Heap for a view without a storage.
func (v View) Domain() tensor.Domain {
	if v.storage == nil {
		return tensor.Heap
	}
	return v.storage.Domain()
}

// Bytes is how many bytes the view spans from the tensor's first one on, gaps included.
func (v View) Bytes() int64 {
	n, err := v.desc.Layout.Bytes(v.desc.Format)
	if err != nil {
		return 0 // layouts of views have been checked
	}
	return n
}

// Position is where the tensor's first byte stands in the storage that owns it: in a mapped file, counted from where the
// mapping begins.
func (v View) Position() int64 {
	if v.storage == nil {
		return 0
	}
	return int64(v.desc.Data - v.storage.root().address)
}

// Value is the number of the value that the view stands for, which tapes and traces tell values apart by; its two top
// bits say of what kind it is: ValueResult, ValueWeight, ….
func (v View) Value() uint32 { return v.desc.Value }

// WithValue is the same view under another value number.
func (v View) WithValue(n uint32) View {
	v.desc.Value = n
	return v
}

// Writes counts what was written to the bytes of the view's storage, through whichever view or alias of it, since it was
// made. An op of package exec that fills an output of its own does not count. What the owner of borrowed bytes, or of a
// mapped file, writes is not known. For package exec.
func (v View) Writes() uint64 {
	if v.storage == nil {
		return 0
	}
	return v.storage.r.writes.Load()
}

// MarkWritten counts a write through the view. For package exec, whose ops write past this package.
func (v View) MarkWritten() {
	if v.storage != nil {
		v.storage.r.writes.Add(1)
	}
}

// Live reports whether accesses are still possible.
func (v View) Live() bool { return v.storage != nil && core.Live(v.desc.Cell, v.desc.Generation) }

// Name is the tensor's name, or empty.
func (v View) Name() string {
	if v.storage == nil {
		return ""
	}
	if v.storage.names != nil {
		return v.storage.names.find(&v.desc)
	}
	return v.storage.tensor
}

// String describes the view for people: name, format, shape, order.
func (v View) String() string {
	if v.IsZero() {
		return "absent"
	}
	s := fmt.Sprintf("%s %s", v.desc.Format, v.Shape())
	if o := v.desc.Layout.Order; o != (tensor.Order{}) {
		s += " " + o.String()
	}
	if name := v.Name(); name != "" {
		s = name + " " + s
	}
	return s
}

// wrap is the error of an operation on v for what the core answered, nil when it was OK.
func (v View) wrap(op string, st core.Status) error {
	if st.Code == core.OK {
		return nil
	}
	if v.storage == nil {
		return statusError(op, "", "", st, nil)
	}
	err := statusError(op, v.storage.r.name, v.Name(), st, v.storage.r)
	if v.holds(st) {
		err.Detail = fmt.Sprintf("at byte %d of it", uintptr(st.Detail)-v.desc.Data)
	}
	return err
}

// holds reports whether a fault happened at one of v's bytes.
func (v *View) holds(st core.Status) bool {
	return st.Code == core.ErrFault && uintptr(st.Detail)-v.desc.Data < uintptr(v.desc.Bytes)
}

func (v *View) fail(op string, err error, detail string) error {
	if v.storage == nil {
		return &Error{Op: op, Err: err, Detail: detail}
	}
	return v.storage.errorOf(op, v.Name(), err, detail)
}

func (v *View) absent(op string) error { return v.fail(op, ErrAbsent, "") }

// The kinds of values, in the two top bits of View.Value: results of ops are numbered within a step,
// weights by their place in the file, inputs and caches by their binding.
const (
	ValueResult uint32 = 0 << 30
	ValueWeight uint32 = 1 << 30
	ValueInput  uint32 = 2 << 30
	ValueCache  uint32 = 3 << 30
)
