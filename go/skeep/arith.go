package skeep

import "github.com/skeep-project/skeep/go/tensor"

// Layout arithmetic on views. It copies no bytes and does not need an open storage. An impossible operation is an error
// that wraps *tensor.LayoutError; the error suggests Materialize if that would help.

func (v View) withLayout(op string, l tensor.Layout, err error) (View, error) {
	if v.IsZero() {
		return View{}, v.absent(op)
	}
	if err != nil {
		return View{}, v.fail(op, err, "")
	}
	v.desc.Layout = l
	return v, nil
}

// Narrow keeps the length indices of axis that begin at start.
func (v View) Narrow(axis int, start, length int64) (View, error) {
	l, err := v.desc.Layout.Narrow(axis, start, length)
	return v.withLayout("narrow", l, err)
}

// Slice keeps the indices start, start+step, … below end of axis.
func (v View) Slice(axis int, start, end, step int64) (View, error) {
	l, err := v.desc.Layout.Slice(axis, start, end, step)
	return v.withLayout("slice", l, err)
}

// Step keeps every k-th index of axis.
func (v View) Step(axis int, k int64) (View, error) {
	l, err := v.desc.Layout.Step(axis, k)
	return v.withLayout("step", l, err)
}

// Transpose exchanges two axes.
func (v View) Transpose(a, b int) (View, error) {
	l, err := v.desc.Layout.Transpose(a, b)
	return v.withLayout("transpose", l, err)
}

// Squeeze drops an axis of extent 1.
func (v View) Squeeze(axis int) (View, error) {
	l, err := v.desc.Layout.Squeeze(axis)
	return v.withLayout("squeeze", l, err)
}

// Unsqueeze inserts an axis of extent 1 before axis.
func (v View) Unsqueeze(axis int) (View, error) {
	l, err := v.desc.Layout.Unsqueeze(axis)
	return v.withLayout("unsqueeze", l, err)
}

// Split turns axis of extent a·b into two axes of extents a and b.
func (v View) Split(axis int, a int64) (View, error) {
	l, err := v.desc.Layout.Split(axis, a)
	return v.withLayout("split", l, err)
}

// Merge joins axis and axis+1 where strides allow.
func (v View) Merge(axis int) (View, error) {
	l, err := v.desc.Layout.Merge(axis)
	return v.withLayout("merge", l, err)
}
