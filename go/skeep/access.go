package skeep

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// Get returns the decoded value at an index (one number per axis), in any format and layout. For a mapped file it makes
// one system call to check that the file has not changed; CopyTo makes one for all elements.
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

// CopyTo copies the decoded elements in logical order into dst, whose length must be the number of elements. F32 is
// copied in runs; other formats are decoded element by element, which is slow for large tensors: Materialize those
// first.
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

// CopyInt32s copies the elements of an I32 view in logical order into dst, whose length must be the number of elements.
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
