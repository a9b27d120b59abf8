package core_test

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

// relativeError is the root mean square of the errors over that of the values.
func relativeError(want, got []float32) float64 {
	var e, x float64
	for i := range want {
		d := float64(want[i]) - float64(got[i])
		e += d * d
		x += float64(want[i]) * float64(want[i])
	}
	return math.Sqrt(e / x)
}

// encodeDecode encodes with a row and decodes with the readable body.
func encodeDecode(t *testing.T, k kernelRow, in []float32) (blocks []byte, out []float32) {
	t.Helper()
	i := info(t, k.Encoding)
	blocks, out = make([]byte, len(in)/i.BlockElements*i.BlockBytes), make([]float32, len(in))
	if err := coretest.RunEncode(k.row, in, blocks); err != nil {
		t.Fatal(err)
	}
	if err := coretest.RunDecode(portable(t, "decode", k.Encoding), blocks, out); err != nil {
		t.Fatal(err)
	}
	return blocks, out
}

// No row of the published inputs is kept worse than the formats' reference quantizers keep it.
func TestEncodeKeepsNoRowWorseThanTheReference(t *testing.T) {
	var sets []struct {
		Name  string
		Rows  int
		Cols  int
		Error []float64 `json:"row_rms_error_over_rms"`
	}
	if err := json.Unmarshal(read(t, "golden", "index.json"), &sets); err != nil {
		t.Fatal(err)
	}
	rows, n := rowsOf("encode"), 0
	for _, s := range sets {
		e, err := tensor.ParseEncoding(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Error) == 0 || len(rows[e]) == 0 {
			continue
		}
		in := floats(read(t, "golden", s.Name+".quant.f32"))
		for _, k := range rows[e] {
			n++
			_, out := encodeDecode(t, k, in)
			for r := range s.Rows {
				got := relativeError(in[r*s.Cols:(r+1)*s.Cols], out[r*s.Cols:(r+1)*s.Cols])
				if !(got <= s.Error[r]+1e-6) { // the figures have six decimals
					t.Errorf("%s: row %d: error %.6f, the reference's is %.6f", k.Name, r, got, s.Error[r])
				}
				t.Logf("%s row %d: %.6f of %.6f", k.Name, r, got, s.Error[r])
			}
		}
	}
	if n < 18 {
		t.Fatalf("%d rows and sets met", n)
	}
}

// kinds of inputs that encoders meet, a value at a time.
func encodeInputs(r *rand.Rand) map[string]func(i int) float32 {
	scale := func(bits uint32) func(int) float32 {
		return func(int) float32 { return math.Float32frombits(r.Uint32()&0x807fffff | (bits+r.Uint32()%3)<<23) }
	}
	return map[string]func(i int) float32{
		"normal":    func(int) float32 { return float32(r.NormFloat64()) },
		"weights":   func(int) float32 { return float32(r.NormFloat64() * 0.02) },
		"positive":  func(int) float32 { return 5 + r.Float32() },
		"negative":  func(int) float32 { return -5 - r.Float32() },
		"zero":      func(int) float32 { return 0 },
		"constant":  func(i int) float32 { return float32(i/256) - 1.7 },
		"sparse":    func(i int) float32 { return float32(r.IntN(30) / 29 * (r.IntN(9) - 4)) },
		"ternary":   func(int) float32 { return 0.37 * float32(r.IntN(3)-1) },
		"outlier":   func(i int) float32 { return float32(r.NormFloat64()) * float32(1+i%301/300*2000) },
		"codes":     func(int) float32 { return float32(r.IntN(16)-8) / 8 },
		"subnormal": func(int) float32 { return math.Float32frombits(r.Uint32() & 0x807fffff) },
		"tiny half": scale(127 - 24),
		"huge":      scale(252),
		"any bits":  func(int) float32 { return math.Float32frombits(r.Uint32()) },
	}
}

// Every row of an encoding makes the blocks of the readable one, to the bit, between guard pages, at odd
// addresses.
func TestEncodeRowsAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for kind, value := range encodeInputs(r) {
		for e, rows := range rowsOf("encode") {
			i := info(t, e)
			n := i.BlockElements * max(1, 1024/i.BlockElements)
			in := guarded(t, 4*n+1, true)[1:]
			for j := range n {
				binary.LittleEndian.PutUint32(in[4*j:], math.Float32bits(value(j)))
			}
			want := make([]byte, n/i.BlockElements*i.BlockBytes)
			if err := coretest.RunEncode(portable(t, "encode", e), floats(in), want); err != nil {
				t.Fatal(err)
			}
			for _, k := range rows {
				for front := range 2 {
					got := guarded(t, len(want)+front, front == 1)[front:]
					copy(got, slices.Repeat([]byte{0x55}, len(got)))
					if err := coretest.RunEncode(k.row, floats(in), got); err != nil {
						t.Fatal(err)
					}
					differs := func(wrong coretest.Wrong) {
						if !slices.Equal(got, want) {
							wrong("%s: %s: differs from the portable body", k.Name, kind)
						}
					}
					if k.ISA == "portable" {
						differs(t.Fatalf) // from itself: no comparison with what is right
						continue
					}
					coretest.Compare(t, k.row, coretest.Samples(got, 1), differs)
				}
			}
		}
	}
}

// encodeBounds is how far an element moves at most in a block of magnitude 1: a level, and what the scale of
// scales adds. Forms of fewer levels are not bounded so.
var encodeBounds = map[tensor.Encoding]float64{
	tensor.EncF32: 0, tensor.EncF16: 1. / 2048, tensor.EncBF16: 1. / 256,
	tensor.Q8_0: 1. / 200, tensor.Q6_K: 1. / 25, tensor.Q5_K: 1. / 14, tensor.Q5_1: 1. / 15, tensor.Q5_0: 1. / 15,
	tensor.Q4_0: 1. / 7, tensor.Q4_1: 1. / 7, tensor.Q4_K: 1. / 6, tensor.IQ4_NL: 1. / 6, tensor.IQ4_XS: 1. / 6,
	tensor.MXFP4: 1. / 3, tensor.NVFP4: 1. / 4,
}

// Zeros stay zeros, constants stay what they are up to the rounding of a half, and elements move by no more than
// their form's levels are apart.
func TestEncodeKeepsWhatTheFormatHolds(t *testing.T) {
	for e, rows := range rowsOf("encode") {
		for _, k := range rows {
			i := info(t, e)
			n := i.BlockElements * max(1, 1024/i.BlockElements)
			in := make([]float32, n)
			_, out := encodeDecode(t, k, in)
			for j, v := range out {
				if v != 0 {
					t.Fatalf("%s: zero at %d became %g", k.Name, j, v)
				}
			}
			bound := 1. / 1024
			if e == tensor.EncBF16 {
				bound = 1. / 256
			}
			if e == tensor.MXFP4 || e == tensor.NVFP4 { // of a constant that is a code
				bound = 0
			}
			for _, c := range []float32{1.5, -1.5, 3} {
				for j := range in {
					in[j] = c
				}
				_, out = encodeDecode(t, k, in)
				coretest.Compare(t, k.row, coretest.Samples(bytesOf(out), 4), func(wrong coretest.Wrong) {
					for j, v := range out {
						if !(math.Abs(float64(v-c)) <= bound*math.Abs(float64(c))) {
							wrong("%s: constant %g became %g at %d", k.Name, c, v, j)
						}
					}
				})
			}
			if k.ISA != "portable" {
				continue // the same blocks
			}
			r := rand.New(rand.NewPCG(1, uint64(e)))
			low := -10
			if e == tensor.NVFP4 {
				low = -4 // its scales are no smaller than 2⁻⁹
			}
			for exponent := low; exponent <= 10; exponent++ {
				for j := range in {
					in[j] = float32(math.Ldexp(2*r.Float64()-1, exponent))
				}
				_, out = encodeDecode(t, k, in)
				if got := relativeError(in, out); !(got < 0.7) {
					t.Errorf("%s: error %g at 2^%d", k.Name, got, exponent)
				}
				b, ok := encodeBounds[e]
				if !ok || exponent < -4 { // scales below 2⁻¹⁴ lose digits as halves
					continue
				}
				for j, v := range out {
					if d := math.Abs(float64(v - in[j])); !(d <= math.Ldexp(b, exponent)) {
						t.Fatalf("%s: %g became %g at 2^%d", k.Name, in[j], v, exponent)
					}
				}
			}
		}
	}
}

// What is ternary already comes back as it was, but for the rounding of its scale.
func TestEncodeTernaryKeepsItsThreeValues(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, e := range []tensor.Encoding{tensor.TQ1_0, tensor.TQ2_0, tensor.Q2_0, tensor.Q3_K, tensor.Q2_K} {
		for _, k := range rowsOf("encode")[e] {
			for range 20 {
				in := make([]float32, 512)
				for j := range in {
					in[j] = 0.25 * float32(r.IntN(3)-1)
				}
				if _, out := encodeDecode(t, k, in); relativeError(in, out) > 1e-3 {
					t.Fatalf("%s: error %g", k.Name, relativeError(in, out))
				}
			}
		}
	}
}

// A value that is no number, or too large for the scale's half, spoils its block visibly and no other. The two
// formats whose scales cannot say so are refused by the operation.
func TestEncodeSpoilsNoOtherBlock(t *testing.T) {
	for e, rows := range rowsOf("encode") {
		i := info(t, e)
		if i.BlockElements == 1 || e == tensor.MXFP4 || e == tensor.NVFP4 {
			continue
		}
		for _, k := range rows {
			for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, -1e30} {
				for at := 0; at < i.BlockElements; at += 13 {
					in := make([]float32, 3*i.BlockElements)
					for j := range in {
						in[j] = float32(j%7) - 3
					}
					in[i.BlockElements+at] = bad
					_, out := encodeDecode(t, k, in)
					for b := range 3 {
						finite := true
						for _, v := range out[b*i.BlockElements : (b+1)*i.BlockElements] {
							finite = finite && v-v == 0
						}
						if finite != (b != 1) {
							t.Fatalf("%s: %g at %d: block %d is finite: %v", k.Name, bad, at, b-1, finite)
						}
					}
				}
			}
		}
	}
}

// valued fills a tensor of floats with values.
func valued(t *testing.T, x *testTensor, value func(i int) float32) *testTensor {
	t.Helper()
	n := len(x.bytes) / info(t, x.Format.Encoding).BlockBytes
	in := make([]float32, n)
	for i := range in {
		in[i] = value(i)
	}
	if err := coretest.RunEncode(portable(t, "encode", x.Format.Encoding), in, x.bytes); err != nil {
		t.Fatal(err)
	}
	return x
}

// The operation makes the blocks of the readable body, of x in any format and layout, into any order, on any
// number of threads.
func TestEncodeOperationEncodesEveryView(t *testing.T) {
	pools := make([]*core.Pool, 3)
	for i := range pools {
		p, st := core.NewPool(i+1, 0)
		ok(t, st)
		t.Cleanup(p.Close)
		pools[i] = p
	}
	r := rand.New(rand.NewPCG(11, 12))
	normal := func(int) float32 { return float32(r.NormFloat64()) }
	check := func(x *testTensor, e tensor.Encoding) {
		t.Helper()
		dims := x.Layout.Shape[:x.Layout.Rank]
		ref := newReference(t, x.Format.Encoding)
		ref.reset()
		var values []float32
		indices(x.Layout, func(index []int64, _ int) { values = append(values, ref.at(t, x, index)) })
		want := newTensor(t, e, dims...)
		if err := coretest.RunEncode(portable(t, "encode", e), values, want.bytes); err != nil {
			t.Fatal(err)
		}
		for _, p := range pools {
			y := newTensor(t, e, dims...)
			ok(t, core.Encode(p, nil, &x.View, &y.View))
			if !slices.Equal(want.bytes, y.bytes) {
				t.Fatalf("%v %v to %v: differs", x.Format, x.Layout, e)
			}
		}
		for _, o := range orders[1:] {
			if info(t, e).BlockElements == 1 || len(dims) < 2 {
				continue
			}
			y := ordered(t, o, e, dims...)
			ok(t, core.Encode(pools[1], nil, &x.View, &y.View))
			checkBlocks(t, want, y)
		}
	}
	for e := range rowsOf("encode") {
		block := max(int64(info(t, e).BlockElements), 32)
		for _, dims := range [][]int64{{3 * block}, {7, 3 * block}, {2, 5, 2 * block}} {
			check(valued(t, newTensor(t, tensor.EncF32, dims...), normal), e)
			check(valued(t, newTensor(t, tensor.EncF16, dims...), normal), e)
		}
		// Rows with gaps, and rows that run across.
		wide := valued(t, newTensor(t, tensor.EncF32, 5, 5*block), normal)
		part, err := wide.Layout.Narrow(1, block, 3*block)
		check(wide.with(t, part, err), e)
		tall := valued(t, newTensor(t, tensor.EncF32, 3*block, 5), normal)
		turned, err := tall.Layout.Transpose(0, 1)
		check(tall.with(t, turned, err), e)
		// Packed again, in rows that are longer than what is encoded at a time.
		x := newTensor(t, tensor.Q8_0, 3, 256*11)
		in := valued(t, newTensor(t, tensor.EncF32, 3, 256*11), normal)
		ok(t, core.Encode(pools[1], nil, &in.View, &x.View))
		check(x, e)
		panel := ordered(t, tensor.Panels(4), tensor.Q8_0, 9, 768)
		in = valued(t, newTensor(t, tensor.EncF32, 9, 768), normal)
		ok(t, core.Encode(pools[1], nil, &in.View, &panel.View))
		check(panel, e)
	}
}

// An element that no block can hold is named: the first one, wherever the others are and whoever met them first.
func TestEncodeRefusesValuesThatNoBlockHolds(t *testing.T) {
	p, r := newPool(t, 2), rand.New(rand.NewPCG(13, 14))
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for e := range rowsOf("encode") {
		x := newTensor(t, tensor.EncF32, 40, 4096)
		valued(t, x, func(int) float32 { return float32(r.NormFloat64()) })
		y := newTensor(t, e, 40, 4096)
		ok(t, core.Encode(p, nil, &x.View, &y.View))
		at := []int{40*4096 - 1, 20*4096 + 77, 3*4096 + 4095, 2*4096 + 2049, 5}
		for i, bad := range []float32{nan, inf, -inf, nan, inf} {
			binary.LittleEndian.PutUint32(x.bytes[4*at[i]:], math.Float32bits(bad))
			st := core.Encode(p, nil, &x.View, &y.View)
			fails(t, st, core.ErrValue, 0)
			if st.Detail != uint64(at[i]) {
				t.Fatalf("%v: %v, want element %d", e, st, at[i])
			}
		}
	}
	// Too large for the format: the largest element of the block.
	for e, largest := range map[tensor.Encoding]float32{
		tensor.EncF16: 65504, tensor.Q8_0: 65504 * 127, tensor.Q4_0: 65504 * 8, tensor.Q4_1: 65504 * 15, tensor.NVFP4: 2688,
		tensor.Q6_K: 65504 * 128 * 30, tensor.Q4_K: 65504 * 63 * 15, tensor.TQ2_0: 65504, tensor.IQ4_NL: 65504 * 113,
	} {
		x, y := newTensor(t, tensor.EncF32, 2, 512), newTensor(t, e, 2, 512)
		valued(t, x, func(i int) float32 { return float32(i % 3) })
		binary.LittleEndian.PutUint32(x.bytes[4*700:], math.Float32bits(largest))
		if st := core.Encode(p, nil, &x.View, &y.View); st.Code != core.OK {
			t.Fatalf("%v: %v", e, st)
		}
		binary.LittleEndian.PutUint32(x.bytes[4*700:], math.Float32bits(largest*1.2))
		if st := core.Encode(p, nil, &x.View, &y.View); st.Code != core.ErrValue || st.Operand != 0 || st.Detail != 700 {
			t.Fatalf("%v: %v", e, st)
		}
	}
}

func TestEncodeRefusesByName(t *testing.T) {
	p := newPool(t, 2)
	x := valued(t, newTensor(t, tensor.EncF32, 4, 512), func(i int) float32 { return float32(i) })
	lattice := newTensor(t, tensor.IQ2_XXS, 4, 512)
	st := core.Encode(p, nil, &x.View, &lattice.View)
	fails(t, st, core.ErrNoKernel, 1)
	if want := "operand 1: no kernel for operation encode on encoding IQ2_XXS"; st.String() != want {
		t.Fatalf("%q", st)
	}
	fails(t, core.Encode(p, nil, &newTensor(t, tensor.EncI32, 4, 512).View, &newTensor(t, tensor.Q8_0, 4, 512).View), core.ErrFormat, 0)
	fails(t, core.Encode(p, nil, &x.View, &newTensor(t, tensor.Q8_0, 4, 256).View), core.ErrShape, 1)
	fails(t, core.Encode(p, nil, &x.View, nil), core.ErrArgument, 1)
	fails(t, core.Encode(p, nil, &x.View, &x.View), core.ErrOverlap, 1)
	fails(t, core.Encode(nil, nil, &x.View, &newTensor(t, tensor.Q8_0, 4, 512).View), core.ErrArgument, -1)
	// Blocks of the two along different axes.
	across := newTensor(t, tensor.Q4_0, 64, 64)
	turned, err := across.Layout.Transpose(0, 1)
	fails(t, core.Encode(p, nil, &across.with(t, turned, err).View, &newTensor(t, tensor.Q8_0, 64, 64).View), core.ErrLayout, 0)

	y := newTensor(t, tensor.Q4_K, 4, 512)
	row, st := core.Select(tensor.OpEncode, []*core.View{&x.View, &y.View})
	ok(t, st)
	if k := core.Kernels()[row]; k.Op != tensor.OpEncode || k.Encoding != tensor.Q4_K {
		t.Fatal(k)
	}
	_, st = core.Select(tensor.OpEncode, []*core.View{&x.View, &lattice.View})
	fails(t, st, core.ErrNoKernel, 1)
}

// Elements per second of every encoder.
func BenchmarkEncode(b *testing.B) {
	in := make([]float32, 1<<14)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range in {
		in[i] = float32(r.NormFloat64())
	}
	for _, e := range slices.Sorted(maps.Keys(rowsOf("encode"))) {
		for _, k := range rowsOf("encode")[e] {
			b.Run(strings.TrimPrefix(k.Name, "skeep_encode_"), func(b *testing.B) {
				i, _ := e.Info()
				out := make([]byte, len(in)/i.BlockElements*i.BlockBytes)
				b.SetBytes(int64(4 * len(in)))
				for b.Loop() {
					if err := coretest.RunEncode(k.row, in, out); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(in)), "ns/element")
			})
		}
	}
}
