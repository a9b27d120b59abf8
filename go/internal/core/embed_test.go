package core_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// Rows of a table in every order and encoding, scaled by one more multiplication.
func TestEmbedLooksRowsUp(t *testing.T) {
	p, r := newPool(t, 2), rand.New(rand.NewPCG(16, 17))
	for e := range tensor.Encodings() {
		if e.BlockElements == 0 || e.Activation {
			continue
		}
		ref, n := newReference(t, e.ID), 3*int64(e.BlockElements)
		if e.BlockElements == 1 {
			n = 2100 // more than one chunk
		}
		x := newTensor(t, e.ID, 21, n)
		random(x.bytes, r)
		for i, o := range orders {
			if e.BlockElements == 1 && i > 0 {
				break
			}
			table := ordered(t, o, e.ID, 21, n)
			ok(t, core.Prepack(p, nil, &x.View, &table.View))
			ref.reset()
			checkEmbed(t, p, ref, table, []int32{20, 0, 7, 7, 16, 19, 3}, []float32{1, 3.3}[i%2])
		}
	}
}

// A dense table whose columns are apart.
func TestEmbedOfATransposedTable(t *testing.T) {
	p, r, ref := newPool(t, 2), rand.New(rand.NewPCG(18, 19)), newReference(t, tensor.EncF16)
	x := newTensor(t, tensor.EncF16, 100, 9)
	random(x.bytes, r)
	l, err := x.Layout.Transpose(0, 1)
	ref.reset()
	checkEmbed(t, p, ref, x.with(t, l, err), []int32{8, 0, 3}, 0.5)
}

func putIDs(x *testTensor, ids []int32) {
	for i, id := range ids {
		binary.LittleEndian.PutUint32(x.bytes[4*i:], uint32(id))
	}
}

func checkEmbed(t *testing.T, p *core.Pool, ref *reference, table *testTensor, ids []int32, scale float32) {
	t.Helper()
	tokens, n := newTensor(t, tensor.EncI32, int64(len(ids))), table.Layout.Shape[1]
	putIDs(tokens, ids)
	y := newTensor(t, tensor.EncF32, int64(len(ids)), n)
	ok(t, core.Embed(p, nil, &table.View, &tokens.View, scale, &y.View))
	for i, id := range ids {
		for j := range n {
			want := ref.at(t, table, []int64{int64(id), j}) * scale
			if got := math.Float32frombits(bitsAt(y.bytes, i*int(n)+int(j))); got != want && want == want {
				t.Fatalf("%v %v: row %d, element %d is %g, want %g", table.Format, table.Layout, id, j, got, want)
			}
		}
	}
}

// A bad id is named by its position, before a byte of y is written.
func TestEmbedRefusesByName(t *testing.T) {
	p := newPool(t, 2)
	table, ids, y := newTensor(t, tensor.Q4_0, 5, 96), newTensor(t, tensor.EncI32, 4), newTensor(t, tensor.EncF32, 4, 96)
	copy(y.bytes, slices.Repeat([]byte{0x5a}, len(y.bytes)))
	for _, bad := range []int32{5, -1, math.MaxInt32, math.MinInt32} {
		for at := range 4 {
			list := []int32{4, 0, 1, 2}
			list[at] = bad
			putIDs(ids, list)
			st := core.Embed(p, nil, &table.View, &ids.View, 1, &y.View)
			fails(t, st, core.ErrIndex, 1)
			if st.Detail != uint64(at) {
				t.Fatalf("position %d, want %d", st.Detail, at)
			}
		}
	}
	putIDs(ids, []int32{4, 0, 1, 2})
	floatIDs, narrow := newTensor(t, tensor.EncF32, 4), newTensor(t, tensor.EncF32, 4, 64)
	half, long := newTensor(t, tensor.EncF16, 4, 96), newTensor(t, tensor.EncF32, 5, 96)
	fails(t, core.Embed(p, nil, &table.View, &floatIDs.View, 1, &y.View), core.ErrFormat, 1)
	fails(t, core.Embed(p, nil, &table.View, &ids.View, 1, &half.View), core.ErrFormat, 2)
	fails(t, core.Embed(p, nil, &table.View, &ids.View, 1, &narrow.View), core.ErrShape, 2)
	fails(t, core.Embed(p, nil, &table.View, &ids.View, 1, &long.View), core.ErrShape, 2)
	fails(t, core.Embed(p, nil, &table.View, nil, 1, &y.View), core.ErrArgument, 1)
	square, wide := newTensor(t, tensor.Q4_0, 96, 96), newTensor(t, tensor.EncF32, 4, 96)
	turned, err := square.Layout.Transpose(0, 1)
	fails(t, core.Embed(p, nil, &square.with(t, turned, err).View, &ids.View, 1, &wide.View), core.ErrLayout, 0)
	step := newTensor(t, tensor.EncF32, 4, 192)
	strided, err := step.Layout.Step(1, 2)
	fails(t, core.Embed(p, nil, &table.View, &ids.View, 1, &step.with(t, strided, err).View), core.ErrLayout, 2)
	if i := slices.IndexFunc(y.bytes, func(b byte) bool { return b != 0x5a }); i >= 0 {
		t.Errorf("byte %d was written", i)
	}
}
