package core_test

import (
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

// testTensor is a view of an off-heap storage of its own that begins at an odd byte.
type testTensor struct {
	core.View
	bytes []byte
}

func newTensor(t *testing.T, e tensor.Encoding, dims ...int64) *testTensor {
	t.Helper()
	shape := tensor.ShapeOf(dims...)
	n, st := core.BytesOf(e, shape)
	ok(t, st)
	s, st := core.Allocate(n+1, 0)
	ok(t, st)
	t.Cleanup(func() { core.Close(s, nil) })
	v, st := core.ViewOf(s, 1, e, shape)
	ok(t, st)
	return &testTensor{v, core.Memory(v.Data, int(n))}
}

// ordered is a new tensor whose blocks stand in another order.
func ordered(t *testing.T, o tensor.Order, e tensor.Encoding, dims ...int64) *testTensor {
	t.Helper()
	x := newTensor(t, e, dims...)
	l, err := tensor.LayoutOf(tensor.FormatOf(e), tensor.ShapeOf(dims...), o)
	if err != nil {
		t.Fatal(err)
	}
	x.Layout = l
	return x
}

// with is the same bytes in another layout, an argument pair of layout arithmetic.
func (x *testTensor) with(t *testing.T, l tensor.Layout, err error) *testTensor {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	y := *x
	y.Layout = l
	return &y
}

func fails(t *testing.T, st core.Status, code, operand int32) {
	t.Helper()
	if st.Code != code || st.Operand != operand {
		t.Fatalf("status %d at operand %d (%v), want %d at %d", st.Code, st.Operand, st, code, operand)
	}
}

// indices calls f with every index of a shape.
func indices(l tensor.Layout, f func(index []int64, flat int)) {
	index := make([]int64, l.Rank)
	for flat := 0; ; flat++ {
		f(index, flat)
		a := len(index) - 1
		for ; a >= 0; a-- {
			if index[a]++; index[a] < l.Shape[a] {
				break
			}
			index[a] = 0
		}
		if a < 0 {
			return
		}
	}
}

// reference decodes one block at a time, found by the layout arithmetic of package tensor.
type reference struct {
	row  int
	info tensor.EncodingInfo
	seen map[int64][]float32
}

func newReference(t *testing.T, e tensor.Encoding) *reference {
	return &reference{portable(t, "decode", e), info(t, e), nil}
}

func (r *reference) reset() { r.seen = map[int64][]float32{} }

func (r *reference) at(t *testing.T, x *testTensor, index []int64) float32 {
	t.Helper()
	cell, within, err := x.Layout.Cell(index...)
	if err != nil {
		t.Fatal(err)
	}
	block, done := r.seen[cell]
	if !done {
		block = make([]float32, r.info.BlockElements)
		size := int64(r.info.BlockBytes)
		if err := coretest.RunDecode(r.row, x.bytes[cell*size:cell*size+size], block); err != nil {
			t.Fatal(err)
		}
		r.seen[cell] = block
	}
	return block[within]
}

var orders = []tensor.Order{{}, {Family: tensor.InputBlockMajor}, tensor.Panels(4), tensor.Panels(8), tensor.Panels(16)}

// shapes are at least three blocks wide, with row counts that no panel divides, and with leading planes.
func shapes(block int64) [][]int64 {
	return [][]int64{{5, 3 * block}, {19, 4 * block}, {1, 5 * block}, {2, 9, 3 * block}, {2, 2, 3, 3 * block}}
}
