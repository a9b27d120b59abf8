package core_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

// Every operation with its operands in layouts of any kind: it is refused, or computes what it computes of gap-free
// row-major copies, and touches no byte beside the elements of its outputs.

// slot is what one operand of an operation is, without its layout.
type slot struct {
	e     tensor.Encoding
	dims  []int64
	below int64 // index data: what they are below; 0 for anything else
	first bool  // index data that count up from a random start, so that no two are equal
	out   bool
}

// call is one operation with the extents and formats of its operands; absent ones have the zero slot.
type call struct {
	op    tensor.Op
	slots []slot
	run   func(p *core.Pool, v []*core.View) core.Status
}

// calls makes one of each operation, of random sizes and formats; its parameters go through odd, if that is not nil.
func calls(r *rand.Rand, odd func(float32) float32) []call {
	if odd == nil {
		odd = func(x float32) float32 { return x }
	}
	pick := func(e ...tensor.Encoding) tensor.Encoding { return e[r.IntN(len(e))] }
	size := func(most int) int64 { return int64(1 + r.IntN(most)*r.IntN(2)) } // often 1
	f := func(dims ...int64) slot { return slot{e: tensor.EncF32, dims: dims} }
	out := func(s slot) slot { s.out = true; return s }
	maybe := func(s slot) slot {
		if r.IntN(2) == 0 {
			return slot{}
		}
		return s
	}
	const blocks = 256
	T, n, o := size(9), size(40), size(40)
	outer := [][]int64{{}, {T}, {size(3), T}, {size(3), size(2), T}}[r.IntN(4)]
	rows := append(slices.Clone(outer), n)
	wide := size(3) * blocks // of packed rows
	packed := append(slices.Clone(outer), wide)
	product := append(slices.Clone(outer), o)
	if len(outer) == 0 {
		outer = []int64{T}
		packed, product = []int64{T, wide}, []int64{T, o}
	}
	weight := pick(tensor.EncF32, tensor.EncF16, tensor.EncBF16, tensor.Q4_0, tensor.Q8_0, tensor.Q4_K, tensor.Q6_K)
	other := pick(tensor.EncF32, tensor.Q5_0, weight)
	x, integer := tensor.EncF32, weight
	if r.IntN(2) == 0 {
		x, integer = tensor.A8, pick(tensor.Q4_0, tensor.Q8_0, tensor.Q4_K, tensor.Q6_K)
	}
	ids := func(n, below int64) slot { return slot{e: tensor.EncI32, dims: []int64{n}, below: below} }
	same := pick(tensor.EncF32, tensor.EncF16, tensor.EncI32, tensor.Q4_0, tensor.Q6_K, tensor.A8)
	to := pick(tensor.EncF32, tensor.EncF16, tensor.EncBF16)
	coded := pick(tensor.EncF16, tensor.EncBF16, tensor.Q4_0, tensor.Q8_0, tensor.Q5_1)
	heads, kv, dim, vDim, sequences, capacity := size(3), size(3), size(20), size(20), size(3), 8+size(40)
	cache := pick(tensor.EncF32, tensor.EncF16, tensor.EncBF16)
	positions := slot{e: tensor.EncI32, dims: []int64{T}, below: 100, first: true}
	rope := tensor.RopeParams{Form: tensor.RopeForm(r.Uint32N(2)), Dims: 2 * uint32(size(8)), Base: odd(1 + 1e4*r.Float32()), Scale: odd(r.Float32()), ExtFactor: odd(float32(r.IntN(2))),
		AttnFactor: odd(1), BetaFast: odd(32), BetaSlow: odd(1), OriginalContext: 4096}
	headDim := int64(rope.Dims) + size(5) - 1
	attend := tensor.AttendParams{Scale: odd(r.Float32()), Softcap: odd(float32(r.IntN(2) * 10)), Window: r.Uint32N(2) * 7}
	scale, form, eps, limit := odd(r.Float32()), tensor.GLUForm(r.Uint32N(4)), odd(r.Float32()), odd(r.Float32()+0.1)
	b := f(rows...)
	if r.IntN(2) == 0 {
		b = f(n)
	}
	return []call{
		{tensor.OpConvert, []slot{{e: pick(same, weight, tensor.EncI64, tensor.EncF64), dims: packed}, out(slot{e: to, dims: packed})}, func(p *core.Pool, v []*core.View) core.Status {
			return core.Convert(p, nil, v[0], v[1])
		}},
		{tensor.OpEncode, []slot{{e: pick(tensor.EncF32, tensor.EncF16, weight), dims: packed}, out(slot{e: coded, dims: packed})}, func(p *core.Pool, v []*core.View) core.Status {
			return core.Encode(p, nil, v[0], v[1])
		}},
		{tensor.OpPrepack, []slot{{e: same, dims: packed}, out(slot{e: same, dims: packed})}, func(p *core.Pool, v []*core.View) core.Status {
			return core.Prepack(p, nil, v[0], v[1])
		}},
		{tensor.OpQuantizeRows, []slot{f(rows...), out(slot{e: tensor.A8, dims: rows})}, func(p *core.Pool, v []*core.View) core.Status {
			return core.QuantizeRows(p, nil, v[0], v[1])
		}},
		{tensor.OpMatMulT, []slot{{e: x, dims: packed}, {e: integer, dims: []int64{o, wide}}, out(f(product...))}, func(p *core.Pool, v []*core.View) core.Status {
			return core.MatMulT(p, nil, v[0], v[1], v[2])
		}},
		{tensor.OpProject, []slot{{e: tensor.EncF32, dims: packed}, {e: weight, dims: []int64{o, wide}}, {e: other, dims: []int64{n, wide}}, maybe(f(o)), maybe(f(n)),
			out(f(product...)), out(f(append(slices.Clone(outer), n)...))}, func(p *core.Pool, v []*core.View) core.Status {
			return core.Project(p, nil, v[0], 2, &[3]*core.View{v[1], v[2]}, &[3]*core.View{v[3], v[4]}, &[3]*core.View{v[5], v[6]})
		}},
		{tensor.OpEmbed, []slot{{e: weight, dims: []int64{o, wide}}, ids(T, o), out(f(T, wide))}, func(p *core.Pool, v []*core.View) core.Status {
			return core.Embed(p, nil, v[0], v[1], scale, v[2])
		}},
		{tensor.OpNorm, []slot{f(rows...), maybe(f(rows...)), f(n), maybe(f(rows...)), maybe(out(f(rows...))), out(f(rows...))}, func(p *core.Pool, v []*core.View) core.Status {
			return core.Norm(p, nil, v[0], v[1], v[2], v[3], eps, v[4], v[5])
		}},
		{tensor.OpRope, []slot{f(T, heads, headDim), positions, maybe(f(int64(rope.Dims / 2))), out(f(T, heads, headDim))}, func(p *core.Pool, v []*core.View) core.Status {
			return core.Rope(p, nil, v[0], v[1], v[2], rope, v[3])
		}},
		{tensor.OpKVStore, []slot{f(T, kv, dim), f(T, kv, vDim), positions, maybe(ids(T, sequences)), out(slot{e: cache, dims: []int64{sequences, kv, capacity, dim}}),
			out(slot{e: cache, dims: []int64{sequences, kv, capacity, vDim}})}, func(p *core.Pool, v []*core.View) core.Status {
			return core.KVStore(p, nil, v[0], v[1], v[2], v[3], v[4], v[5])
		}},
		{tensor.OpAttend, []slot{f(T, kv*heads, dim), {e: cache, dims: []int64{sequences, kv, capacity, dim}}, {e: cache, dims: []int64{sequences, kv, capacity, vDim}},
			{e: tensor.EncI32, dims: []int64{T}, below: capacity, first: capacity > T}, maybe(ids(T, sequences)), out(f(T, kv*heads, vDim))}, func(p *core.Pool, v []*core.View) core.Status {
			return core.Attend(p, nil, v[0], v[1], v[2], v[3], v[4], attend, v[5])
		}},
		{tensor.OpGLU, []slot{f(rows...), f(rows...), out(f(rows...))}, func(p *core.Pool, v []*core.View) core.Status {
			return core.GLU(p, nil, v[0], v[1], form, v[2])
		}},
		{tensor.OpAdd, []slot{f(rows...), b, out(f(rows...))}, func(p *core.Pool, v []*core.View) core.Status {
			return core.Add(p, nil, v[0], v[1], v[2])
		}},
		{tensor.OpMul, []slot{f(rows...), b, out(f(rows...))}, func(p *core.Pool, v []*core.View) core.Status {
			return core.Mul(p, nil, v[0], v[1], v[2])
		}},
		{tensor.OpSoftmax, []slot{f(rows...), out(f(rows...))}, func(p *core.Pool, v []*core.View) core.Status {
			return core.Softmax(p, nil, v[0], scale, v[1])
		}},
		{tensor.OpSoftcap, []slot{f(rows...), out(f(rows...))}, func(p *core.Pool, v []*core.View) core.Status {
			return core.Softcap(p, nil, v[0], limit, v[1])
		}},
	}
}

// laid is an operand in memory of its own, between guard pages.
type laid struct {
	core.View
	storage core.Storage
	mem     []byte // all of the storage; the view begins at byte at
	at      int
	blocks  map[int64]bool // cells of its elements
}

// grid is the layout of so many elements in the order of the axes given, outermost first, with gaps between rows.
func grid(e tensor.EncodingInfo, dims []int64, blockAxis int, axes []int, gap func() int64) tensor.Layout {
	l := tensor.Layout{Shape: [4]int64{1, 1, 1, 1}, Rank: uint8(len(dims)), Block: uint32(e.BlockElements), BlockAxis: -1, RowAxis: -1}
	if e.BlockElements > 1 {
		l.BlockAxis = int8(blockAxis)
	}
	step := int64(1)
	for i := len(axes) - 1; i >= 0; i-- {
		a := axes[i]
		l.Shape[a], l.Stride[a] = dims[a], step
		n := dims[a]
		if a == int(l.BlockAxis) {
			n = (n-1)/int64(e.BlockElements) + 1
		}
		step = step*n + gap()
	}
	return l
}

func none() int64 { return 0 }

// natural is 0, 1, …, n-1.
func natural(n int) []int {
	axes := make([]int, n)
	for i := range axes {
		axes[i] = i
	}
	return axes
}

// cells calls f with the first index of every cell of l, which must be a right layout.
func cells(l tensor.Layout, f func(index []int64, cell int64)) {
	var index [4]int64
	n := int(l.Rank)
	for {
		cell, _, err := l.Cell(index[:n]...)
		if err != nil {
			panic(err)
		}
		f(index[:n], cell)
		a := n - 1
		for ; a >= 0; a-- {
			step := int64(1)
			if a == int(l.BlockAxis) {
				step = int64(l.Block)
			}
			if index[a] += step; index[a] < l.Shape[a] {
				break
			}
			index[a] = 0
		}
		if a < 0 {
			return
		}
	}
}

// blocksOf are a few blocks of an encoding, of finite values.
func blocksOf(t *testing.T, r *rand.Rand, e tensor.EncodingInfo) [][]byte {
	out := make([][]byte, 5)
	for i := range out {
		out[i] = make([]byte, e.BlockBytes)
		switch {
		case e.ID == tensor.A8:
			a8Block(out[i], func(int) float32 { return r.Float32() }, func(int) int8 { return int8(r.IntN(255) - 127) })
		case e.BlockElements > 1:
			in := make([]float32, e.BlockElements)
			for j := range in {
				in[j] = float32(r.NormFloat64())
			}
			if err := coretest.RunEncode(portable(t, "encode", e.ID), in, out[i]); err != nil {
				t.Fatal(err)
			}
		case e.ID == tensor.EncF64:
			binary.LittleEndian.PutUint64(out[i], math.Float64bits(r.NormFloat64()))
		case e.ID == tensor.EncI64 || e.ID == tensor.EncI32:
			copy(out[i], binary.LittleEndian.AppendUint64(nil, uint64(r.Uint32())))
		default:
			putDense(out[i], e.ID, 0, float32(r.NormFloat64()))
		}
	}
	return out
}

// place makes an operand of a slot in layout l: random bytes everywhere, right values in its cells. A view that does
// not fit the storage is still made.
func place(t *testing.T, r *rand.Rand, s slot, l tensor.Layout) *laid {
	e := info(t, s.e)
	x := &laid{blocks: map[int64]bool{}, at: r.IntN(9)}
	top := int64(0)
	cells(l, func(_ []int64, cell int64) { x.blocks[cell] = true; top = max(top, cell) })
	need := int(top+1) * e.BlockBytes
	x.mem = guarded(t, x.at+need+r.IntN(2)*7, r.IntN(2) == 0)
	random(x.mem, r)
	blocks, start, n := blocksOf(t, r, e), r.Int32N(5), int32(0)
	if s.first {
		start = r.Int32N(int32(max(1, s.below-s.dims[0])))
	}
	cells(l, func(_ []int64, cell int64) {
		b := x.mem[x.at+int(cell)*e.BlockBytes:][:e.BlockBytes]
		switch {
		case s.first:
			binary.LittleEndian.PutUint32(b, uint32(start+n))
			n++
		case s.below > 0:
			binary.LittleEndian.PutUint32(b, uint32(r.Int64N(s.below)))
		default:
			copy(b, blocks[r.IntN(len(blocks))])
		}
	})
	var st core.Status
	x.storage, st = core.Borrow(x.mem, uint32(tensor.OffHeap), false)
	ok(t, st)
	t.Cleanup(func() { core.Close(x.storage, nil) })
	x.View, st = core.ViewOf(x.storage, 0, tensor.EncI8, tensor.ShapeOf(1))
	ok(t, st)
	x.Data, x.Bytes, x.Format, x.Layout = x.Data+uintptr(x.at), uint64(need), tensor.FormatOf(s.e), l
	return x
}

// plain is a gap-free row-major copy, cell by cell, with blocks along the same axis.
func (x *laid) plain(t *testing.T, r *rand.Rand) *laid {
	e := info(t, x.Format.Encoding)
	l := x.Layout
	y := place(t, r, slot{e: e.ID, dims: l.Shape[:l.Rank]}, grid(e, l.Shape[:l.Rank], int(l.BlockAxis), natural(int(l.Rank)), none))
	y.copyFrom(x, e.BlockBytes)
	return y
}

func (y *laid) copyFrom(x *laid, size int) {
	cells(y.Layout, func(index []int64, to int64) { copy(y.cell(to, size), x.cellAt(index, size)) })
}

func (x *laid) cell(cell int64, size int) []byte { return x.mem[x.at+int(cell)*size:][:size] }
func (x *laid) cellAt(index []int64, size int) []byte {
	cell, _, err := x.Layout.Cell(index...)
	if err != nil {
		panic(err)
	}
	return x.cell(cell, size)
}

// operandsOf makes the operands of a call; layout gives that of each, nil for gap-free rows.
func operandsOf(t *testing.T, r *rand.Rand, c call, layout func(i int, s slot) tensor.Layout) []*laid {
	v := make([]*laid, len(c.slots))
	for i, s := range c.slots {
		if s.dims != nil {
			v[i] = place(t, r, s, layout(i, s))
		}
	}
	return v
}

func plainLayout(t *testing.T, s slot) tensor.Layout {
	return grid(info(t, s.e), s.dims, len(s.dims)-1, natural(len(s.dims)), none)
}

func views(v []*laid) []*core.View {
	out := make([]*core.View, len(v))
	for i := range v {
		if v[i] != nil {
			out[i] = &v[i].View
		}
	}
	return out
}

// check runs a call on operands whose layouts are right or wrong in the places of the call, and on plain copies. It
// returns the status of the first.
func (c call) check(t *testing.T, r *rand.Rand, p *core.Pool, v []*laid) core.Status {
	t.Helper()
	before := make([][]byte, len(v))
	for i, x := range v {
		if x != nil {
			before[i] = slices.Clone(x.mem)
		}
	}
	st := c.run(p, views(v))
	for i, x := range v {
		switch {
		case x == nil:
		case !c.slots[i].out || st.Code != core.OK && st.Code != core.ErrValue:
			if !bytes.Equal(before[i], x.mem) {
				t.Fatalf("%v: operand %d was written (%v)\n%s", c.op, i, st, describe(v))
			}
		default:
			size := info(t, x.Format.Encoding).BlockBytes
			for at := range x.mem {
				if before[i][at] != x.mem[at] && (at < x.at || !x.blocks[int64((at-x.at)/size)]) {
					t.Fatalf("%v: byte %d of operand %d, which is none of its elements, was written\n%s", c.op, at-x.at, i, describe(v))
				}
			}
		}
	}
	if st.Code != core.OK {
		return st
	}
	plain := make([]*laid, len(v))
	for i, x := range v {
		if x == nil {
			continue
		}
		now := x.mem
		x.mem = before[i] // outputs as they were: a cache keeps what is not stored
		plain[i] = x.plain(t, r)
		x.mem = now
	}
	if again := c.run(p, views(plain)); again.Code != core.OK {
		t.Fatalf("%v: %v on plain copies of operands that it takes\n%s", c.op, again, describe(v))
	}
	for i, x := range v {
		if x != nil && c.slots[i].out {
			c.compare(t, i, x, plain[i], v)
		}
	}
	return st
}

// compare looks at an output: the same bits, but for products of weights in another order, whose sums may be taken
// in another one.
func (c call) compare(t *testing.T, i int, got, want *laid, v []*laid) {
	t.Helper()
	e := info(t, got.Format.Encoding)
	product := c.op == tensor.OpMatMulT || c.op == tensor.OpProject
	cells(want.Layout, func(index []int64, cell int64) {
		g, w := got.cellAt(index, e.BlockBytes), want.cell(cell, e.BlockBytes)
		if bytes.Equal(g, w) {
			return
		}
		if e.ID == tensor.EncF32 {
			a, b := floats(g)[0], floats(w)[0]
			if a != a && b != b || product && math.Abs(float64(a-b)) <= 1e-3*(1+math.Abs(float64(b))) {
				return
			}
		}
		t.Fatalf("%v: output %d at %v is %x, of plain copies %x\n%s", c.op, i, index, g, w, describe(v))
	})
	index := make([]int64, want.Layout.Rank)
	for a := range index {
		index[a] = want.Layout.Shape[a] - 1
	}
	a, st := core.Get(&got.View, index)
	ok(t, st)
	b, st := core.Get(&want.View, index)
	ok(t, st)
	if a != b && (a == a || b == b) && !product {
		t.Fatalf("%v: the last element of output %d is %g, of plain copies %g\n%s", c.op, i, a, b, describe(v))
	}
}

func describe(v []*laid) (s string) {
	for i, x := range v {
		if x != nil {
			s += fmt.Sprintf("  %d: %v %+v\n", i, x.Format, x.Layout)
		}
	}
	return s
}

// inOrder gives operand i encoding e and order o, and reports whether the operation took it.
func (c call) inOrder(t *testing.T, r *rand.Rand, p *core.Pool, i int, e tensor.Encoding, o tensor.Order) bool {
	s := c.slots[i]
	if e != s.e {
		s.e, s.below, s.first, s.dims = e, 0, false, slices.Clone(s.dims)
		s.dims[len(s.dims)-1] *= 32
	}
	v := operandsOf(t, r, c, func(j int, s slot) tensor.Layout { return plainLayout(t, s) })
	l, err := tensor.LayoutOf(tensor.FormatOf(e), tensor.ShapeOf(s.dims...), tensor.Order{Family: o.Family, Panel: o.Panel})
	if err != nil {
		l = plainLayout(t, s)
	}
	v[i] = place(t, r, s, l)
	v[i].Layout.Order = o
	st := c.check(t, r, p, v)
	if st.Code == core.OK && o != (tensor.Order{}) && (err != nil || o.Interleave+o.Version > 0) {
		t.Fatalf("%v takes operand %d in an order that does not exist: %+v", c.op, i, o)
	}
	if st.Code != core.OK && e == c.slots[i].e && o != (tensor.Order{}) && st.Operand != int32(i) {
		t.Fatalf("%v refuses operand %d, the odd one is %d: %v", c.op, st.Operand, i, st)
	}
	return st.Code == core.OK
}

// TestEveryOperandInEveryOrder gives each operand of each operation in each order that there is, and in two that there
// are not: right, or refused by name.
func TestEveryOperandInEveryOrder(t *testing.T) {
	p := newPool(t, 2)
	tried := map[tensor.Op]bool{}
	for _, c := range calls(rand.New(rand.NewPCG(1, 1)), nil) {
		tried[c.op] = true
	}
	for op := range tensor.Ops() {
		if len(op.Operands) > 0 && !tried[op.ID] {
			t.Errorf("no call of %v is tried", op.Name)
		}
	}
	odd := []tensor.Order{{}, {Family: tensor.InputBlockMajor}, tensor.Panels(4), tensor.Panels(8), {Family: tensor.RowPanel, Panel: 4, Interleave: 4},
		{Family: tensor.RowPanel, Panel: 4, Version: 1}, {Interleave: 2}, {Version: 3}, {Panel: 4}, {Family: 3, Panel: 4}}
	accepted := map[tensor.Op]map[int]map[tensor.Order]bool{}
	for round := range uint64(12) {
		r := rand.New(rand.NewPCG(round, 8))
		for _, c := range calls(r, nil) {
			t.Run(fmt.Sprintf("%v/%d", c.op, round), func(t *testing.T) { // which frees the operands
				for i, s := range c.slots {
					for _, o := range odd {
						if s.dims == nil {
							continue
						}
						for _, e := range []tensor.Encoding{s.e, tensor.Q4_0, tensor.A8} {
							if e != s.e && o.Panel != 4 { // other formats are refused, in any order
								continue
							}
							if c.inOrder(t, r, p, i, e, o) {
								if accepted[c.op] == nil {
									accepted[c.op] = map[int]map[tensor.Order]bool{}
								}
								if accepted[c.op][i] == nil {
									accepted[c.op][i] = map[tensor.Order]bool{}
								}
								accepted[c.op][i][o] = true
							}
						}
					}
				}
			})
		}
	}
	for _, c := range calls(rand.New(rand.NewPCG(1, 1)), nil) {
		for i := range c.slots {
			if !accepted[c.op][i][tensor.Order{}] {
				t.Errorf("%v was never right with operand %d as a file holds it", c.op, i)
			}
		}
	}
	for op, i := range map[tensor.Op]int{tensor.OpConvert: 0, tensor.OpEncode: 1, tensor.OpPrepack: 1, tensor.OpEmbed: 0, tensor.OpMatMulT: 1} {
		if !accepted[op][i][tensor.Panels(8)] && op != tensor.OpMatMulT {
			t.Errorf("%v was never right with operand %d in panels", op, i)
		}
	}
	if len(accepted[tensor.OpMatMulT][0]) != 1 {
		t.Errorf("a product takes activations in orders that no kernel has: %v", accepted[tensor.OpMatMulT][0])
	}
}

// TestStridesOfOneCellAreNotLookedAt gives the axes of one cell strides that overflow any product.
func TestStridesOfOneCellAreNotLookedAt(t *testing.T) {
	p := newPool(t, 2)
	seen := map[tensor.Op]bool{}
	for round := range uint64(30) {
		r := rand.New(rand.NewPCG(round, 9))
		for _, c := range calls(r, nil) {
			v := operandsOf(t, r, c, func(_ int, s slot) tensor.Layout { return plainLayout(t, s) })
			for _, x := range v {
				for a := range 4 {
					if x == nil || a >= int(x.Layout.Rank) {
						continue
					}
					one := int64(1)
					if a == int(x.Layout.BlockAxis) {
						one = int64(x.Layout.Block)
					}
					if x.Layout.Shape[a] <= one {
						x.Layout.Stride[a] = []int64{0, 1 << 58, 1<<61 + 3, math.MaxInt64}[r.IntN(4)]
						seen[c.op] = true
					}
				}
			}
			if st := c.check(t, r, p, v); st.Code != core.OK && st.Code != core.ErrIndex {
				t.Fatalf("%v: %v\n%s", c.op, st, describe(v))
			}
		}
	}
	for _, c := range calls(rand.New(rand.NewPCG(1, 1)), nil) {
		if !seen[c.op] {
			t.Errorf("%v had no axis of one cell", c.op)
		}
	}
}
