package skeep

import (
	"fmt"
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// View describes a tensor: its shape and Layout, its Format, and the Storage that holds its bytes. It is a plain value
// that may be copied freely; it owns no memory and keeps the Storage reachable. It is valid until its storage, mark or
// scope ends; after that every access is ErrClosed. The zero View means "absent".
//
// Methods are safe for concurrent use. The caller must synchronize writes to the same elements.
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

// Format is the element type and its encoding.
func (v View) Format() tensor.Format { return v.desc.Format }

// Layout maps a logical index to a cell, counted from the tensor's first byte.
func (v View) Layout() tensor.Layout { return v.desc.Layout }

// Storage holds the bytes of the view; nil for an absent view.
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

// Position is the offset of the tensor's first byte within the storage that owns the bytes; in a mapped file it counts
// from the start of the mapping.
func (v View) Position() int64 {
	if v.storage == nil {
		return 0
	}
	return int64(v.desc.Data - v.storage.root().address)
}

// Value is the number by which tapes and traces identify the value of the view. Its top two bits are its kind:
// ValueResult, ValueWeight, ….
func (v View) Value() uint32 { return v.desc.Value }

// WithValue returns the view with another value number.
func (v View) WithValue(n uint32) View {
	v.desc.Value = n
	return v
}

// Writes counts the writes to the view's storage, through any view or alias, since the storage was made. Package exec
// uses it. Ops of package exec that fill their own results do not count. Writes by the owner of borrowed bytes or of a
// mapped file are unknown here.
func (v View) Writes() uint64 {
	if v.storage == nil {
		return 0
	}
	return v.storage.r.writes.Load()
}

// MarkWritten counts a write through the view. Package exec calls it, since its ops write without the methods of this
// package.
func (v View) MarkWritten() {
	if v.storage != nil {
		v.storage.r.writes.Add(1)
	}
}

// Live reports whether the bytes can still be accessed.
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

// String describes the view in readable form: name, format, shape and order.
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
		err.Detail = fmt.Sprintf("at byte %d of the tensor", uintptr(st.Detail)-v.desc.Data)
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

// The kinds of values, stored in the top two bits of View.Value. Results of ops are numbered within a step, weights by
// their index in the file, inputs and caches by their binding.
const (
	ValueResult uint32 = 0 << 30
	ValueWeight uint32 = 1 << 30
	ValueInput  uint32 = 2 << 30
	ValueCache  uint32 = 3 << 30
)
