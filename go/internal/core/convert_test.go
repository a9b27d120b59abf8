package core_test

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

// Activation codes: |x - code·d| ≤ d/2, sums, padding, the groups that have no scale; and every row agrees with
// the portable one to the bit, between guard pages and at odd addresses.
func TestQuantizeRows(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	kinds := map[string]func() float32{
		"normal":    func() float32 { return float32(r.NormFloat64()) },
		"ties":      func() float32 { return float32(r.IntN(509)-254) / 2 },
		"any bits":  func() float32 { return math.Float32frombits(r.Uint32()) },
		"subnormal": func() float32 { return math.Float32frombits(r.Uint32() & 0x807fffff) },
		"tiny":      func() float32 { return math.Float32frombits(r.Uint32()&0x807fffff | r.Uint32()%16<<23) },
		"huge":      func() float32 { return math.Float32frombits(r.Uint32()&0x807fffff | (254-r.Uint32()%3)<<23) },
		"zero":      func() float32 { return 0 },
		"infinite": func() float32 {
			if r.IntN(40) == 0 {
				return float32(math.Inf(1 - 2*r.IntN(2)))
			}
			return float32(r.NormFloat64())
		},
	}
	rows := rowsOf("quantize_rows")[tensor.EncF32]
	spec := slices.IndexFunc(rows, func(k kernelRow) bool { return k.ISA == "portable" })
	if spec < 0 {
		t.Fatal("no portable row")
	}
	for kind, value := range kinds {
		for n := 1; n <= 300; n++ {
			in := guarded(t, 4*n+n%2, n%3 == 0)[n%2:] // at the end of its pages, or at an odd address
			for i := range n {
				binary.LittleEndian.PutUint32(in[4*i:], math.Float32bits(value()))
			}
			want := slices.Repeat([]byte{0xaa}, (n+127)/128*160)
			if err := coretest.RunQuantizeRows(rows[spec].row, floats(in), want); err != nil {
				t.Fatal(err)
			}
			checkA8(t, kind, in, want)
			for _, k := range rows {
				got := guarded(t, len(want)+1, n%2 == 0)[n%2 : n%2+len(want)]
				copy(got, slices.Repeat([]byte{0x55}, len(got)))
				if err := coretest.RunQuantizeRows(k.row, floats(in), got); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%s: %s, %d elements: differs from the portable body", k.Name, kind, n)
				}
			}
		}
	}
}

func checkA8(t *testing.T, kind string, in, blocks []byte) {
	t.Helper()
	n, le := len(in)/4, binary.LittleEndian
	for g := range len(blocks) / 160 * 4 {
		block := blocks[g/4*160:]
		d := math.Float32frombits(le.Uint32(block[g%4*4:]))
		codes := block[32+g%4*32:][:32]
		var amax float64
		special := false
		for j := range 32 {
			if i := 32*g + j; i < n {
				x := float64(math.Float32frombits(bitsAt(in, i)))
				amax = max(amax, math.Abs(x))
				special = special || x-x != 0
			}
		}
		if (d != d) != special || d < 0 || math.IsInf(float64(d), 0) {
			t.Fatalf("%s: group %d: scale %g", kind, g, d)
		}
		if !special && amax < 0x1p-119 != (d == 0) {
			t.Fatalf("%s: group %d: scale %g for a maximum of %g", kind, g, d, amax)
		}
		for half := range 2 {
			sum := int16(0)
			for _, c := range codes[16*half : 16*half+16] {
				sum += int16(int8(c))
			}
			if got := int16(le.Uint16(block[16+4*(g%4)+2*half:])); got != sum {
				t.Fatalf("%s: group %d: sum %d of %v, want %d", kind, g, got, codes, sum)
			}
		}
		for j, c := range codes {
			code := int8(c)
			i := 32*g + j
			switch {
			case i >= n || !(d > 0):
				if code != 0 {
					t.Fatalf("%s: element %d of %d has code %d under scale %g", kind, i, n, code, d)
				}
			case code == -128:
				t.Fatalf("%s: element %d has code -128", kind, i)
			default:
				x := float64(math.Float32frombits(bitsAt(in, i)))
				if diff := math.Abs(x - float64(code)*float64(d)); diff > float64(d)/2*(1+0x1p-14) {
					t.Fatalf("%s: element %d: %g is %d x %g", kind, i, x, code, d)
				}
			}
		}
	}
}

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

// checkConvert compares a conversion with the reference, and a few elements with Get.
func checkConvert(t *testing.T, p *core.Pool, ref *reference, x *testTensor, to tensor.Encoding) {
	t.Helper()
	y := newTensor(t, to, x.Layout.Shape[:x.Layout.Rank]...)
	ok(t, core.Convert(p, nil, &x.View, &y.View))
	ref.reset()
	values := make([]float32, 0, len(y.bytes)/info(t, to).BlockBytes)
	indices(x.Layout, func(index []int64, flat int) {
		v := ref.at(t, x, index)
		values = append(values, v)
		if flat%97 == 0 {
			if g, st := core.Get(&x.View, index); st.Code != core.OK || float32(g) != v && v == v {
				t.Fatalf("%v %v: Get of %v is %g (%v), want %g", x.Format, x.Layout, index, g, st, v)
			}
		}
	})
	want := make([]byte, len(y.bytes))
	if err := coretest.RunEncode(portable(t, "encode", to), values, want); err != nil {
		t.Fatal(err)
	}
	size := info(t, to).BlockBytes
	for i, v := range values {
		if v == v && string(y.bytes[i*size:i*size+size]) != string(want[i*size:i*size+size]) {
			t.Fatalf("%v %v to %v: element %d is not %g", x.Format, x.Layout, to, i, v)
		}
	}
}

// Every encoding in every order, whole, narrowed and transposed, converts to the values that its blocks hold; and
// its blocks go from every order to every other and back, each to its place.
func TestConvertPrepack(t *testing.T) {
	for e := range tensor.Encodings() {
		if e.BlockElements <= 1 || e.Activation {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			p, r, ref := newPool(t, 2), rand.New(rand.NewPCG(7, uint64(e.ID))), newReference(t, e.ID)
			for _, dims := range shapes(int64(e.BlockElements)) {
				x := newTensor(t, e.ID, dims...)
				random(x.bytes, r)
				row, in := len(dims)-2, len(dims)-1
				for _, o := range orders {
					y := ordered(t, o, e.ID, dims...)
					ok(t, core.Prepack(p, nil, &x.View, &y.View))
					checkBlocks(t, x, y)
					for _, back := range orders {
						z := ordered(t, back, e.ID, dims...)
						ok(t, core.Prepack(p, nil, &y.View, &z.View))
						checkBlocks(t, x, z)
					}
					checkConvert(t, p, ref, y, tensor.EncF32)
					checkConvert(t, p, ref, y, tensor.EncBF16)
					turned, err := y.Layout.Transpose(row, in)
					checkConvert(t, p, ref, y.with(t, turned, err), tensor.EncF32)
					checkConvert(t, p, ref, y.with(t, turned, err), tensor.EncF16)
					if first := max(int64(o.Panel), 1); dims[row] > first {
						tail, err := y.Layout.Narrow(row, first, dims[row]-first)
						checkConvert(t, p, ref, y.with(t, tail, err), tensor.EncF32)
					}
				}
			}
		})
	}
}

// checkBlocks compares two tensors block by block, at the places that the layout arithmetic of package tensor gives.
func checkBlocks(t *testing.T, x, y *testTensor) {
	t.Helper()
	size, block := int64(info(t, x.Format.Encoding).BlockBytes), int64(x.Layout.Block)
	indices(x.Layout, func(index []int64, _ int) {
		if index[x.Layout.BlockAxis]%block != 0 {
			return
		}
		a, _, err := x.Layout.Cell(index...)
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := y.Layout.Cell(index...)
		if err != nil {
			t.Fatal(err)
		}
		if string(x.bytes[a*size:a*size+size]) != string(y.bytes[b*size:b*size+size]) {
			t.Fatalf("%v %v: the block of %v is not that of %v", y.Format, y.Layout, index, x.Layout)
		}
	})
}

// A packed tensor whose axes are exchanged is relaid by its labels.
func TestPrepackTransposed(t *testing.T) {
	p, r := newPool(t, 2), rand.New(rand.NewPCG(8, 9))
	x := newTensor(t, tensor.Q4_0, 2, 19, 96)
	random(x.bytes, r)
	for _, o := range orders {
		y := ordered(t, o, tensor.Q4_0, 2, 19, 96)
		xt, err := x.Layout.Transpose(1, 2)
		a := x.with(t, xt, err)
		yt, err := y.Layout.Transpose(1, 2)
		b := y.with(t, yt, err)
		ok(t, core.Prepack(p, nil, &a.View, &b.View))
		checkBlocks(t, x, y)
	}
}

// More than one task, and lines longer than one chunk.
func TestConvertPrepackLarge(t *testing.T) {
	p, r, ref := newPool(t, 2), rand.New(rand.NewPCG(10, 11)), newReference(t, tensor.Q8_0)
	x := newTensor(t, tensor.Q8_0, 67, 5120)
	random(x.bytes, r)
	for _, o := range orders {
		y, z := ordered(t, o, tensor.Q8_0, 67, 5120), newTensor(t, tensor.Q8_0, 67, 5120)
		ok(t, core.Prepack(p, nil, &x.View, &y.View))
		checkConvert(t, p, ref, y, tensor.EncF32)
		ok(t, core.Prepack(p, nil, &y.View, &z.View))
		if !slices.Equal(z.bytes, x.bytes) {
			t.Fatalf("%v and back: other bytes", o)
		}
	}
	l, err := x.Layout.Transpose(0, 1)
	checkConvert(t, p, ref, x.with(t, l, err), tensor.EncF16)
}

// Dense tensors in any layout convert between types, each value rounded once.
func TestConvertDense(t *testing.T) {
	p, r := newPool(t, 2), rand.New(rand.NewPCG(12, 13))
	for e := range tensor.Encodings() {
		if e.BlockElements != 1 {
			continue
		}
		x := newTensor(t, e.ID, 9, 40, 35)
		random(x.bytes, r)
		layouts := []tensor.Layout{x.Layout}
		add := func(l tensor.Layout, err error) {
			if err != nil {
				t.Fatal(err)
			}
			layouts = append(layouts, l)
		}
		add(x.Layout.Transpose(1, 2))
		add(x.Layout.Transpose(0, 2))
		add(x.Layout.Step(2, 3))
		add(x.Layout.Narrow(1, 3, 30))
		for _, l := range layouts {
			v := x.with(t, l, nil)
			for _, to := range []tensor.Encoding{tensor.EncF32, tensor.EncF16, tensor.EncBF16, e.ID} {
				y := newTensor(t, to, l.Shape[:l.Rank]...)
				ok(t, core.Convert(p, nil, &v.View, &y.View))
				size := info(t, to).BlockBytes
				indices(l, func(index []int64, flat int) {
					cell, _, err := l.Cell(index...)
					if err != nil {
						t.Fatal(err)
					}
					from, got := x.bytes[cell*int64(e.BlockBytes):][:e.BlockBytes], y.bytes[flat*size:flat*size+size]
					if to == e.ID {
						if string(got) != string(from) {
							t.Fatalf("%s: copy of %v: %x, want %x", e.Name, index, got, from)
						}
					} else if want, nan := exact(e.ID, from); !nan {
						g, _ := exact(to, got)
						w := floatTypes[to].nearest(want)
						if f, _ := g.Float64(); math.Float64bits(f) != math.Float64bits(w) {
							t.Fatalf("%s to %v: %v: %v became %g, want %g", e.Name, to, index, want, f, w)
						}
					} else if _, nan := exact(to, got); !nan {
						t.Fatalf("%s to %v: %v: a NaN became a number", e.Name, to, index)
					}
				})
			}
		}
	}
}

// float is what a dense type can hold: precision in bits, the exponent of the smallest normal value as
// math/big counts it (mantissas in [1/2, 1)), the largest value.
type float struct {
	precision uint
	smallest  int
	largest   float64
}

var floatTypes = map[tensor.Encoding]float{
	tensor.EncF32:  {24, -125, math.MaxFloat32},
	tensor.EncBF16: {8, -125, 0x1.fep127},
	tensor.EncF16:  {11, -13, 65504},
}

// nearest rounds to nearest, ties to even, as IEEE 754 says.
func (f float) nearest(x *big.Float) float64 {
	sign := 1.0
	if x.Signbit() {
		sign = -1
	}
	if x.Sign() == 0 || x.IsInf() {
		v, _ := x.Float64()
		return v
	}
	y := new(big.Float).Abs(x)
	lost := max(0, f.smallest-y.MantExp(nil)) // bits that a subnormal has less
	if lost >= int(f.precision) {             // below the smallest value: half of it is a tie
		half := new(big.Float).SetMantExp(big.NewFloat(0.5), f.smallest-int(f.precision))
		if y.Cmp(half) <= 0 {
			return math.Copysign(0, sign)
		}
		v, _ := new(big.Float).SetMantExp(half, 1).Float64()
		return sign * v
	}
	v, _ := y.SetPrec(f.precision - uint(lost)).Float64()
	if v > f.largest {
		v = math.Inf(1)
	}
	return sign * v
}

// exact is an element without any rounding; nan when it is not a number.
func exact(e tensor.Encoding, b []byte) (x *big.Float, nan bool) {
	le, v := binary.LittleEndian, 0.0
	switch e {
	case tensor.EncI64:
		return new(big.Float).SetInt64(int64(le.Uint64(b))), false
	case tensor.EncF64:
		v = math.Float64frombits(le.Uint64(b))
	case tensor.EncF32:
		v = float64(math.Float32frombits(le.Uint32(b)))
	case tensor.EncBF16:
		v = float64(math.Float32frombits(uint32(le.Uint16(b)) << 16))
	case tensor.EncF16:
		h := le.Uint16(b)
		exponent, mantissa := int(h>>10&31), float64(h&1023)
		switch exponent {
		case 0:
			v = math.Ldexp(mantissa, -24)
		case 31:
			v = math.Inf(1)
			if mantissa != 0 {
				v = math.NaN()
			}
		default:
			v = math.Ldexp(mantissa+1024, exponent-25)
		}
		if h>>15 == 1 {
			v = -v
		}
	case tensor.EncI8:
		v = float64(int8(b[0]))
	case tensor.EncI16:
		v = float64(int16(le.Uint16(b)))
	case tensor.EncI32:
		v = float64(int32(le.Uint32(b)))
	}
	if v != v {
		return nil, true
	}
	return big.NewFloat(v), false
}

// Values between two halves that a detour through float would round twice.
func TestConvertRoundsOnce(t *testing.T) {
	p := newPool(t, 2)
	x := newTensor(t, tensor.EncF64, 6)
	for i, v := range []float64{1 + 0x1p-11 + 0x1p-40, -1 - 0x1p-11 - 0x1p-40, 1 + 0x3p-11 - 0x1p-40, 65520 - 0x1p-30,
		0x1p-25 + 0x1p-60, 0x1p-1074} {
		binary.LittleEndian.PutUint64(x.bytes[8*i:], math.Float64bits(v))
	}
	y := newTensor(t, tensor.EncF16, 6)
	ok(t, core.Convert(p, nil, &x.View, &y.View))
	for i, want := range []uint16{0x3c01, 0xbc01, 0x3c01, 0x7bff, 1, 0} {
		if got := binary.LittleEndian.Uint16(y.bytes[2*i:]); got != want {
			t.Errorf("value %d became %x, want %x", i, got, want)
		}
	}
}

// The same through an I64, where float64 would round already.
func TestConvertIntegersRoundOnce(t *testing.T) {
	p := newPool(t, 2)
	x, y := newTensor(t, tensor.EncI64, 4), newTensor(t, tensor.EncBF16, 4)
	for i, v := range []int64{1<<62 | 1<<54 | 1, -(1<<62 | 1<<54 | 1), 1<<62 | 1<<54, math.MinInt64} {
		binary.LittleEndian.PutUint64(x.bytes[8*i:], uint64(v))
	}
	ok(t, core.Convert(p, nil, &x.View, &y.View))
	for i, want := range []uint16{0x5e81, 0xde81, 0x5e80, 0xdf00} {
		if got := binary.LittleEndian.Uint16(y.bytes[2*i:]); got != want {
			t.Errorf("value %d became %x, want %x", i, got, want)
		}
	}
}

// What convert, prepack and quantize_rows refuse, and that nothing is written then.
func TestMoveErrors(t *testing.T) {
	p := newPool(t, 2)
	q4, q4b := newTensor(t, tensor.Q4_0, 6, 96), newTensor(t, tensor.Q4_0, 6, 96)
	q8, f32, f64 := newTensor(t, tensor.Q8_0, 6, 96), newTensor(t, tensor.EncF32, 6, 96), newTensor(t, tensor.EncF64, 6, 96)
	i32, a8 := newTensor(t, tensor.EncI32, 6, 96), newTensor(t, tensor.A8, 6, 96)
	small, square := newTensor(t, tensor.EncF32, 6, 95), newTensor(t, tensor.Q4_0, 96, 96)
	for _, y := range []*testTensor{q4b, q8, f32, f64, i32, a8, small} {
		copy(y.bytes, slices.Repeat([]byte{0x5a}, len(y.bytes)))
	}

	fails(t, core.Convert(p, nil, &q4.View, &small.View), core.ErrShape, 1)
	fails(t, core.Convert(p, nil, &q4.View, &q8.View), core.ErrFormat, 1)
	fails(t, core.Convert(p, nil, &q4.View, &f64.View), core.ErrFormat, 1)
	fails(t, core.Convert(p, nil, &f32.View, &i32.View), core.ErrFormat, 1)
	fails(t, core.Convert(p, nil, &f32.View, &f32.View), core.ErrOverlap, 1)
	fails(t, core.Convert(nil, nil, &q4.View, &f32.View), core.ErrArgument, -1)
	fails(t, core.Convert(p, nil, &q4.View, nil), core.ErrArgument, 1)
	fails(t, core.Convert(p, nil, nil, &f32.View), core.ErrArgument, 0)

	fails(t, core.Prepack(p, nil, &q4.View, &q8.View), core.ErrFormat, 1)
	fails(t, core.Prepack(p, nil, &q4.View, &square.View), core.ErrShape, 1)
	fails(t, core.Prepack(p, nil, nil, &q4.View), core.ErrArgument, 0)
	fails(t, core.Prepack(p, nil, &q4.View, nil), core.ErrArgument, 1)
	turned, err := square.Layout.Transpose(0, 1)
	other := newTensor(t, tensor.Q4_0, 96, 96)
	fails(t, core.Prepack(p, nil, &square.with(t, turned, err).View, &other.View), core.ErrLayout, 1)
	// Rows along another axis than the other side's.
	planes, rows := ordered(t, tensor.Order{Family: tensor.InputBlockMajor}, tensor.Q4_0, 4, 4, 96), newTensor(t, tensor.Q4_0, 4, 4, 96)
	rows.Layout.Order, rows.Layout.RowAxis = tensor.Order{Family: tensor.InputBlockMajor}, 0
	rows.Layout.Stride = [4]int64{1, 12, 4}
	fails(t, core.Prepack(p, nil, &planes.View, &rows.View), core.ErrLayout, 1)

	fails(t, core.QuantizeRows(p, nil, &f64.View, &a8.View), core.ErrFormat, 0)
	fails(t, core.QuantizeRows(p, nil, &f32.View, &q8.View), core.ErrFormat, 1)
	fails(t, core.QuantizeRows(p, nil, &small.View, &a8.View), core.ErrShape, 1)
	step := newTensor(t, tensor.EncF32, 6, 192)
	strided, err := step.Layout.Step(1, 2)
	fails(t, core.QuantizeRows(p, nil, &step.with(t, strided, err).View, &a8.View), core.ErrLayout, 0)

	for _, y := range []*testTensor{q4b, q8, f32, f64, i32, a8, small} {
		if i := slices.IndexFunc(y.bytes, func(b byte) bool { return b != 0x5a }); i >= 0 {
			t.Errorf("%v: byte %d was written", y.Format, i)
		}
	}
}

// Rows of any rank and stride become activation rows, each as its own call would make it.
func TestQuantizeRowsViews(t *testing.T) {
	p, r := newPool(t, 2), rand.New(rand.NewPCG(14, 15))
	body := portable(t, "quantize_rows", tensor.EncF32)
	x := newTensor(t, tensor.EncF32, 3, 41, 300)
	for i := range len(x.bytes) / 4 {
		binary.LittleEndian.PutUint32(x.bytes[4*i:], math.Float32bits(float32(r.NormFloat64())))
	}
	turned, err := x.Layout.Transpose(0, 1)
	for _, v := range []*testTensor{x, x.with(t, turned, err)} {
		y := newTensor(t, tensor.A8, v.Layout.Shape[:3]...)
		ok(t, core.QuantizeRows(p, nil, &v.View, &y.View))
		want := make([]byte, 3*160)
		for row := range 3 * 41 {
			a, b := int64(row)/v.Layout.Shape[1], int64(row)%v.Layout.Shape[1]
			at := 4 * (a*v.Layout.Stride[0] + b*v.Layout.Stride[1])
			if err := coretest.RunQuantizeRows(body, floats(x.bytes[at:at+1200]), want); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(y.bytes[row*480:row*480+480], want) {
				t.Fatalf("row %d of %v differs", row, v.Layout)
			}
		}
		checkConvert(t, p, newReference(t, tensor.A8), y, tensor.EncF32) // a partial last block
	}
}

// Rows of a table in every order and encoding, scaled by one more multiplication.
func TestEmbed(t *testing.T) {
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
func TestEmbedTransposed(t *testing.T) {
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
func TestEmbedErrors(t *testing.T) {
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
