package core_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

// Whatever bytes a weight's blocks hold: all decoders make the same numbers of them, all products come to what the
// reference says within their bounds, and nothing beyond the blocks is read.
func FuzzBlocks(f *testing.F) {
	var encodings []tensor.EncodingInfo
	for e := range tensor.Encodings() {
		if e.BlockElements > 0 && len(rowsOf("matmul_t")[e.ID]) > 0 {
			encodings = append(encodings, e)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range encodings {
		data := make([]byte, 64)
		random(data, r)
		f.Add(uint8(i), uint8(9), uint8(3), uint8(4), data)
	}
	f.Fuzz(func(t *testing.T, which, rows, blocks, tokens uint8, data []byte) {
		if len(data) == 0 {
			return
		}
		e := encodings[int(which)%len(encodings)]
		out, few := int(rows)%40+1, int(tokens)%20+1
		n := (int(blocks)%5 + 1) * max(e.BlockElements, 7)
		w := newTensor(t, e.ID, int64(out), int64(n))
		for at := 0; at < len(w.bytes); at += copy(w.bytes[at:], data) {
		}
		checkDecoders(t, e, w.bytes, len(data)%2 == 0)
		nan := make([]bool, out) // rows with an element that is none
		row := make([]float32, n)
		for o := range nan {
			bytes := n / e.BlockElements * e.BlockBytes
			if err := coretest.RunDecode(portable(t, "decode", e.ID), w.bytes[o*bytes:][:bytes], row); err != nil {
				t.Fatal(err)
			}
			for _, v := range row {
				nan[o] = nan[o] || v != v
			}
		}
		references := map[tensor.Encoding]*product{}
		for _, k := range rowsOf("matmul_t")[e.ID] {
			p := references[k.Activation]
			if p == nil {
				r := rand.New(rand.NewPCG(uint64(data[0]), uint64(which)))
				p = referenceOf(t, activationsOf(t, r, k.Activation, few, n), w, few, out, n)
				references[k.Activation] = p
			}
			got := p.run(t, k, out, few, len(data)%2 == 0, len(data)%3 == 0)
			for i, bits := range got {
				y, want, terms := float64(math.Float32frombits(bits)), float64(p.value[i]), float64(p.terms[i])
				const huge, tiny = 0x1p100, 0x1p-126 // partial sums may overflow beyond, and are subnormal below
				switch {
				case terms < huge:
					if bound := p.bound(i/out, i%out, k.Activation == tensor.A8) + float64(n)*tiny; !(math.Abs(y-want) <= bound) {
						t.Fatalf("%s, n %d: y[%d,%d] is %g, want %g ± %g", k.Name, n, i/out, i%out, y, want, bound)
					}
				case nan[i%out]:
					if y-y == 0 {
						t.Fatalf("%s, n %d: y[%d,%d] is %g, of a row with a NaN", k.Name, n, i/out, i%out, y)
					}
				}
			}
		}
	})
}

// checkDecoders compares all decoders of blocks with the readable one, bit for bit; any NaN equals any.
func checkDecoders(t *testing.T, e tensor.EncodingInfo, data []byte, front bool) {
	t.Helper()
	blocks := guarded(t, len(data), front)
	copy(blocks, data)
	bytes := len(data) / e.BlockBytes * e.BlockElements * 4
	want := make([]byte, bytes)
	if err := coretest.RunDecode(portable(t, "decode", e.ID), blocks, floats(want)); err != nil {
		t.Fatal(err)
	}
	for _, k := range rowsOf("decode")[e.ID] {
		got := guarded(t, bytes+1, front)[len(data)&1:][:bytes]
		if err := coretest.RunDecode(k.row, blocks, floats(got)); err != nil {
			t.Fatal(err)
		}
		for i := range bytes / 4 {
			g, w := math.Float32frombits(bitsAt(got, i)), math.Float32frombits(bitsAt(want, i))
			if bitsAt(got, i) != bitsAt(want, i) && (g == g || w == w) {
				t.Fatalf("%s: element %d of %d blocks is %x, want %x", k.Name, i, len(data)/e.BlockBytes, bitsAt(got, i), bitsAt(want, i))
			}
		}
	}
}

// layoutFor is a layout that an operand of a slot could have: mostly gap-free rows or rows with gaps, else axes in
// another order, blocks along another axis, or blocks in another order.
func layoutFor(t *testing.T, r *rand.Rand, s slot) tensor.Layout {
	e := info(t, s.e)
	axes, blockAxis := natural(len(s.dims)), len(s.dims)-1
	gap := none
	if r.IntN(2) == 0 {
		gap = func() int64 { return r.Int64N(3) }
	}
	if r.IntN(3) == 0 {
		r.Shuffle(len(axes), func(i, j int) { axes[i], axes[j] = axes[j], axes[i] })
	}
	if r.IntN(8) == 0 {
		if a := r.IntN(len(axes)); s.dims[a]%int64(e.BlockElements) == 0 {
			blockAxis = a
		}
	}
	l := grid(e, s.dims, blockAxis, axes, gap)
	if e.BlockElements > 1 && len(axes) > 1 && r.IntN(3) == 0 {
		o := tensor.Order{Family: tensor.InputBlockMajor}
		if r.IntN(2) == 0 {
			o = tensor.Panels([]int{1, 2, 4, 8, 16}[r.IntN(5)])
		}
		ordered, err := tensor.LayoutOf(tensor.FormatOf(s.e), tensor.ShapeOf(s.dims...), o)
		if err != nil {
			t.Fatal(err)
		}
		l = ordered
	}
	for a := range axes {
		one := a == int(l.BlockAxis) && l.Shape[a] <= int64(l.Block) || l.Shape[a] == 1
		switch {
		case one && l.Order.Family != tensor.RowPanel && r.IntN(2) == 0:
			l.Stride[a] = []int64{0, 1 << 58, math.MaxInt64, r.Int64()}[r.IntN(4)]
		case !s.out && !s.first && l.Order.Family == tensor.RowMajor && r.IntN(16) == 0:
			l.Stride[a] = 0 // broadcast
		}
	}
	l.Offset = r.Int64N(2) * r.Int64N(7)
	return l
}

// oddNumbers are those at which arithmetic goes wrong.
var oddNumbers = []int64{-1, 0, 1, 2, 3, 4, 5, 7, 8, 31, 32, 128, 255, 256, 1 << 15, 1 << 31, 1 << 32, 1 << 40, 1 << 56, 1 << 58, 1<<61 + 1, math.MaxInt64, math.MinInt64}

var oddParameters = []float32{0, -1, 1e-45, 1e-38, 1e-9, -1e-9, 0.5, 3, 1e5, 1e20, -1e20, math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}

// spoil changes one field of a descriptor to an odd number.
func spoil(r *rand.Rand, v *core.View) {
	l, n, axis := &v.Layout, oddNumbers[r.IntN(len(oddNumbers))], r.IntN(4)
	switch r.IntN(15) {
	case 0, 1:
		l.Shape[axis] = n
	case 2, 3:
		l.Stride[axis] = n
	case 4:
		l.Offset = n
	case 5:
		l.Block = uint32(n)
	case 6:
		l.Rank = uint8(n)
	case 7:
		l.BlockAxis = int8(n)
	case 8:
		l.RowAxis = int8(n)
	case 9:
		l.Order.Family = tensor.Family(n)
	case 10:
		l.Order.Panel = uint8(n)
	case 11:
		l.Order.Interleave = uint8(n)
	case 12:
		l.Order.Version = uint8(n)
	case 13:
		v.Format = tensor.FormatOf(tensor.Encoding(n))
	case 14:
		l.Shape[axis], l.Shape[(axis+1)%4] = l.Shape[(axis+1)%4], l.Shape[axis]
	}
}

// still reports whether a descriptor says what it said before it was spoilt, to whoever goes by package tensor.
func still(v *core.View, was tensor.Layout, format tensor.Format) bool {
	return v.Layout == was && v.Format == format
}

// countable reports whether a layout has no more elements than a test can look at.
func countable(l tensor.Layout) bool {
	n := int64(1)
	for _, d := range l.Shape {
		if n *= min(d, 1<<20+1); n > 1<<20 {
			return false
		}
	}
	return true
}

// FuzzOps gives an operation operands of any layout, right or spoilt: it is refused, or computes what it computes of
// plain copies. Operands lie at guard pages, and nothing but elements of outputs is written.
func FuzzOps(f *testing.F) {
	for which := range uint8(16) {
		for seed := range uint64(4) {
			f.Add(which, seed, seed%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, seed uint64, spoilt bool) {
		r := rand.New(rand.NewPCG(seed, uint64(which)))
		all := calls(r, func(x float32) float32 {
			if r.IntN(12) == 0 {
				x = oddParameters[r.IntN(len(oddParameters))]
			}
			return x
		})
		c := all[int(which)%len(all)]
		v := operandsOf(t, r, c, func(_ int, s slot) tensor.Layout {
			if r.IntN(3) == 0 {
				return plainLayout(t, s)
			}
			return layoutFor(t, r, s)
		})
		p := densePool(t, 2)
		if !spoilt {
			c.check(t, r, p, v)
			return
		}
		i := r.IntN(len(v))
		for v[i] == nil {
			i = r.IntN(len(v))
		}
		layout, format := v[i].Layout, v[i].Format
		for range 1 + r.IntN(3) {
			spoil(r, &v[i].View)
		}
		if r.IntN(8) == 0 {
			v[i].Bytes = uint64(oddNumbers[r.IntN(len(oddNumbers))])
		}
		if still(&v[i].View, layout, format) {
			c.check(t, r, p, v)
			return
		}
		// What the change means is for the check of views to say: a view that it accepts reaches its own bytes and no
		// others, and is an operand like any other.
		if core.Check(&v[i].View).Code != core.OK {
			before := bytes.Clone(v[i].mem)
			if st := c.run(p, views(v)); st.Code == core.OK {
				t.Fatalf("%v takes operand %d, which is no view\n%s", c.op, i, describe(v))
			}
			if !bytes.Equal(before, v[i].mem) {
				t.Fatalf("%v wrote to operand %d, which is no view\n%s", c.op, i, describe(v))
			}
			return
		}
		if err := v[i].Layout.Check(v[i].Format); err != nil {
			t.Fatalf("%v: a layout that only C accepts: %v\n%s", c.op, err, describe(v))
		}
		if !countable(v[i].Layout) { // one cell over and over: no copy would hold it
			c.run(p, views(v))
			return
		}
		v[i].blocks = map[int64]bool{}
		cells(v[i].Layout, func(_ []int64, cell int64) { v[i].blocks[cell] = true })
		c.check(t, r, p, v)
	})
}

// FuzzViews reads through descriptors of any kind: what the check of views accepts is read element by element as
// package tensor says where it lies, and nothing else is read.
func FuzzViews(f *testing.F) {
	for seed := range uint64(16) {
		f.Add(seed, uint8(seed), seed%2 == 0)
	}
	encodings := []tensor.Encoding{tensor.EncF32, tensor.EncF16, tensor.EncI32, tensor.EncI64, tensor.Q4_0, tensor.Q6_K, tensor.A8, tensor.TQ1_0}
	f.Fuzz(func(t *testing.T, seed uint64, which uint8, spoilt bool) {
		r := rand.New(rand.NewPCG(seed, uint64(which)))
		e := info(t, encodings[int(which)%len(encodings)])
		var dims []int64
		for range 1 + r.IntN(4) {
			dims = append(dims, 1+r.Int64N(5))
		}
		dims[len(dims)-1] *= int64(e.BlockElements)
		s := slot{e: e.ID, dims: dims}
		x := place(t, r, s, layoutFor(t, r, s))
		if spoilt {
			spoil(r, &x.View)
		}
		if core.Check(&x.View).Code != core.OK {
			if _, st := core.Get(&x.View, make([]int64, min(x.Layout.Rank, 4))); st.Code == core.OK {
				t.Fatalf("an element of no view: %v %+v", x.Format, x.Layout)
			}
			return
		}
		if err := x.Layout.Check(x.Format); err != nil {
			t.Fatalf("a layout that only C accepts: %v\n%v %+v", err, x.Format, x.Layout)
		}
		e = info(t, x.Format.Encoding)
		if !countable(x.Layout) {
			var last [4]int64
			for a := range last {
				last[a] = x.Layout.Shape[a] - 1
			}
			_, st := core.Get(&x.View, last[:x.Layout.Rank])
			ok(t, st)
			return
		}
		y := x.plain(t, r)
		n := 0
		cells(y.Layout, func(index []int64, _ int64) {
			if n++; n > 2000 {
				return
			}
			a, st := core.Get(&x.View, index)
			ok(t, st)
			b, st := core.Get(&y.View, index)
			ok(t, st)
			if a != b && (a == a || b == b) {
				t.Fatalf("%v is %g, in a plain copy %g\n%v %+v", index, a, b, x.Format, x.Layout)
			}
		})
	})
}
