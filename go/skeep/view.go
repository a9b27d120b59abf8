package skeep

import (
	"fmt"
	"runtime"
	"runtime/debug"
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

// Get returns the decoded logical value at an index (one number per axis), in any format and layout. Of a mapped
// file it costs a system call, which asks whether the file is still what it was; CopyTo asks once for all elements.
func (v View) Get(index ...int64) (float64, error) {
	if err := v.indexed("get", index); err != nil {
		return 0, err
	}
	value, st := core.Get(&v.desc, index)
	runtime.KeepAlive(v.storage)
	return value, v.wrap("get", st)
}

// GetInt is Get for integer formats, exact for all of int64.
func (v View) GetInt(index ...int64) (int64, error) {
	if err := v.indexed("get", index); err != nil {
		return 0, err
	}
	value, st := core.GetInt64(&v.desc, index)
	runtime.KeepAlive(v.storage)
	return value, v.wrap("get", st)
}

func (v *View) indexed(op string, index []int64) error {
	if v.storage == nil {
		return v.absent(op)
	}
	if len(index) != int(v.desc.Layout.Rank) {
		return v.fail(op, ErrIndex, fmt.Sprintf("%d indices for %d axes", len(index), v.desc.Layout.Rank))
	}
	return nil
}

// touch runs do on the bytes from the tensor's first one on, which stay under a pin meanwhile. A page of
// a mapped file that is gone becomes an error, and so do bytes that a changed file no longer stands for.
func (v *View) touch(op string, write bool, do func(memory []byte)) (err error) {
	if v.storage == nil {
		return v.absent(op)
	}
	if write && v.storage.r.readonly {
		return v.fail(op, ErrReadOnly, "")
	}
	pin, st := core.Pin(core.Storage{Cell: v.desc.Cell, Generation: v.desc.Generation})
	if st.Code != core.OK {
		return v.wrap(op, st)
	}
	if write {
		v.MarkWritten()
	}
	memory := core.Memory(v.desc.Data, int(v.desc.Bytes))
	if v.storage.Domain() == tensor.Mapped || v.storage.r.foreign {
		if err = v.faultable(op, memory, do); err == nil {
			err = v.wrap(op, core.Verify(v.storage.r.handle))
		}
	} else {
		do(memory)
	}
	core.Unpin(pin)
	runtime.KeepAlive(v.storage)
	return err
}

func (v *View) faultable(op string, memory []byte, do func([]byte)) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			at, ok := p.(interface{ Addr() uintptr })
			if !ok {
				panic(p)
			}
			err = v.wrap(op, core.Status{Code: core.ErrFault, Operand: -1, Detail: uint64(at.Addr())})
		}
	}()
	do(memory)
	return nil
}

// CopyTo copies the decoded elements in logical order into dst, which has room for exactly all of them.
// F32 is copied in runs; other formats are read element by element (Materialize first when there are many).
func (v View) CopyTo(dst []float32) error {
	const op = "copy"
	if v.desc.Format == tensor.Dense(tensor.F32) {
		return transfer(&v, op, dst, tensor.F32, false)
	}
	if err := v.sized(op, len(dst)); err != nil {
		return err
	}
	st := core.GetAll(&v.desc, dst)
	runtime.KeepAlive(v.storage)
	return v.wrap(op, st)
}

// CopyInt32s copies the elements of an I32 view in logical order into dst, which has room for exactly all
// of them.
//
//go:noinline
func (v View) CopyInt32s(dst []int32) error { return transfer(&v, "copy", dst, tensor.I32, false) }

// WriteFloat32s sets all elements of an F32 view in logical order.
//
//go:noinline
func (v View) WriteFloat32s(src []float32) error { return transfer(&v, "write", src, tensor.F32, true) }

// WriteInt32s sets all elements of an I32 view in logical order.
//
//go:noinline
func (v View) WriteInt32s(src []int32) error { return transfer(&v, "write", src, tensor.I32, true) }

// sized checks the length of a slice for all elements.
func (v *View) sized(op string, n int) error {
	if v.storage == nil {
		return v.absent(op)
	}
	if want, err := v.Shape().Elements(); err != nil {
		return v.fail(op, err, "")
	} else if int64(n) != want {
		return v.fail(op, ErrShape, fmt.Sprintf("%d values for %s", n, v.Shape()))
	}
	return nil
}

// next counts an index up, in logical order, along axis and those before it.
func (v *View) next(index *[tensor.MaxRank]int64, axis int) {
	for ; axis >= 0; axis-- {
		if index[axis]++; index[axis] < v.desc.Layout.Shape[axis] {
			return
		}
		index[axis] = 0
	}
}

// transfer moves all elements between a slice and a dense view of four-byte elements, in runs where the
// last axis is contiguous.
//
// Its callers are not inlined: escape analysis does not see through a generic function of another package,
// and every transfer there would put its View on the heap.
func transfer[T float32 | int32](v *View, op string, slice []T, d tensor.DType, write bool) error {
	if err := v.sized(op, len(slice)); err != nil {
		return err
	}
	if v.desc.Format != tensor.Dense(d) {
		return v.fail(op, ErrFormat, fmt.Sprintf("%s, want %s", v.desc.Format, d))
	}
	const size = 4
	l := &v.desc.Layout
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(slice))), size*len(slice))
	last := int(l.Rank) - 1
	run := int64(1)
	if last >= 0 && l.Stride[last] == 1 {
		run = l.Shape[last]
		last--
	}
	return v.touch(op, write, func(memory []byte) {
		var index [tensor.MaxRank]int64
		for len(bytes) > 0 {
			at := l.Offset
			for axis := range last + 1 {
				at += index[axis] * l.Stride[axis]
			}
			if cells := memory[size*at:][:size*run]; write {
				copy(cells, bytes)
			} else {
				copy(bytes, cells)
			}
			bytes = bytes[size*run:]
			v.next(&index, last)
		}
	})
}

// The arithmetic of tensor.Layout: none copies a byte, none needs the storage to be open. What a layout
// cannot do is an error that wraps *tensor.LayoutError and suggests Materialize where that helps.

func (v View) relaid(op string, l tensor.Layout, err error) (View, error) {
	if v.IsZero() {
		return View{}, v.absent(op)
	}
	if err != nil {
		return View{}, v.fail(op, err, "")
	}
	v.desc.Layout = l
	return v, nil
}

// Narrow keeps length indices of axis from start on.
func (v View) Narrow(axis int, start, length int64) (View, error) {
	l, err := v.desc.Layout.Narrow(axis, start, length)
	return v.relaid("narrow", l, err)
}

// Slice keeps the indices start, start+step, … below end of axis.
func (v View) Slice(axis int, start, end, step int64) (View, error) {
	l, err := v.desc.Layout.Slice(axis, start, end, step)
	return v.relaid("slice", l, err)
}

// Step keeps every k-th index of axis.
func (v View) Step(axis int, k int64) (View, error) {
	l, err := v.desc.Layout.Step(axis, k)
	return v.relaid("step", l, err)
}

// Transpose exchanges two axes.
func (v View) Transpose(a, b int) (View, error) {
	l, err := v.desc.Layout.Transpose(a, b)
	return v.relaid("transpose", l, err)
}

// Squeeze drops an axis of extent 1.
func (v View) Squeeze(axis int) (View, error) {
	l, err := v.desc.Layout.Squeeze(axis)
	return v.relaid("squeeze", l, err)
}

// Unsqueeze inserts an axis of extent 1 before axis.
func (v View) Unsqueeze(axis int) (View, error) {
	l, err := v.desc.Layout.Unsqueeze(axis)
	return v.relaid("unsqueeze", l, err)
}

// Split turns axis of extent a·b into two axes of extents a and b.
func (v View) Split(axis int, a int64) (View, error) {
	l, err := v.desc.Layout.Split(axis, a)
	return v.relaid("split", l, err)
}

// Merge joins axis and axis+1 where strides allow.
func (v View) Merge(axis int) (View, error) {
	l, err := v.desc.Layout.Merge(axis)
	return v.relaid("merge", l, err)
}

// The kinds of values, in the two top bits of View.Value: results of ops are numbered within a step,
// weights by their place in the file, inputs and caches by their binding.
const (
	ValueResult uint32 = 0 << 30
	ValueWeight uint32 = 1 << 30
	ValueInput  uint32 = 2 << 30
	ValueCache  uint32 = 3 << 30
)
