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
func TestConvertAndPrepackKeepValues(t *testing.T) {
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
func TestPrepackOfATransposedView(t *testing.T) {
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
func TestConvertAndPrepackOfManyTasks(t *testing.T) {
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
func TestConvertBetweenDenseFormats(t *testing.T) {
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
func TestConvertAndPrepackRefuseByName(t *testing.T) {
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
