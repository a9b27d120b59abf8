package core_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

// A scale that is no number spoils the row it is in and no other; nothing crashes. What a check of a file says of it
// stands in package gguf.
// Case B07.
func TestScaleThatIsNoNumberSpoilsItsRowAlone(t *testing.T) {
	for _, f := range flats {
		n := 3 * info(t, f.encoding).BlockElements
		for _, d := range []uint16{0x7c00, 0x7e00, 0xfc00} {
			sound := f.row(t, 0x3c00, byte(slices.Index(f.values, 1)), n)
			w := bytes.Repeat(sound, 3)
			size := len(sound) / 3
			binary.LittleEndian.PutUint16(w[len(sound)+size+f.d:], d) // the middle block of the middle row
			for _, k := range rowsOf("matmul_t")[f.encoding] {
				x := constantRow(t, k.Activation, n, func(int) int8 { return 1 })
				p := &product{x: &testTensor{bytes: x}, w: &testTensor{bytes: w}, n: n}
				for row, bits := range p.run(t, k, 3, 1, false, false) {
					y := float64(math.Float32frombits(bits))
					if spoilt := math.IsNaN(y) || math.IsInf(y, 0); spoilt != (row == 1) || !spoilt && y != float64(n) {
						t.Fatalf("%s: scale %04x: row %d is %g", k.Name, d, row, y)
					}
				}
			}
		}
	}
}

// Blocks of zeros and of almost nothing are finite and decode to almost nothing.
// Case B08.
func TestEncodedAlmostNothingIsFinite(t *testing.T) {
	for encoding, rows := range rowsOf("encode") {
		e := info(t, encoding)
		for name, value := range map[string]func(i int) float32{
			"zeros":                func(int) float32 { return 0 },
			"negative zeros":       func(int) float32 { return float32(math.Copysign(0, -1)) },
			"1e-40":                func(int) float32 { return 1e-40 },
			"1e-40 of both signs":  func(i int) float32 { return float32(1-2*(i&1)) * 1e-40 },
			"1e-38 among zeros":    func(i int) float32 { return float32(i/37%2*(1-i/38%2)) * 1e-38 },
			"the smallest float":   func(i int) float32 { return float32(i&1) * math.SmallestNonzeroFloat32 },
			"1e-9 in one of three": func(i int) float32 { return float32(i%3/2) * 1e-9 },
		} {
			in, most := make([]float32, 256), 0.0
			for i := range in {
				in[i] = value(i)
				most = max(most, math.Abs(float64(in[i])))
			}
			for _, k := range rows {
				blocks := make([]byte, 256/e.BlockElements*e.BlockBytes)
				if err := coretest.RunEncode(k.row, in, blocks); err != nil {
					t.Fatal(err)
				}
				for i, v := range decoded(t, kernelRow{tensor.KernelInfo{Encoding: encoding, Name: k.Name}, portable(t, "decode", encoding)}, blocks) {
					if !(math.Abs(float64(v)) <= 2*most+0x1p-24) || most == 0 && v != 0 {
						t.Errorf("%s: %s: element %d of %g decodes to %g", k.Name, name, i, in[i], v)
						break
					}
				}
			}
		}
	}
}

// The largest sums of products that a format can make, of one sign, are exact in every row of the table.
// Case B10.
func TestMatMulDoesNotSaturate(t *testing.T) {
	for _, f := range flats {
		n := 3 * info(t, f.encoding).BlockElements
		for _, code := range []int{slices.Index(f.values, slices.Max(f.values)), slices.Index(f.values, slices.Min(f.values))} {
			w := f.row(t, 0x3c00, byte(code), n)
			for _, k := range rowsOf("matmul_t")[f.encoding] {
				for _, activation := range []int8{127, -127} {
					x := constantRow(t, k.Activation, n, func(int) int8 { return activation })
					p := &product{x: &testTensor{bytes: bytes.Repeat(x, 9)}, w: &testTensor{bytes: bytes.Repeat(w, 9)}, n: n}
					want := float32(n * int(activation) * f.values[code])
					for _, size := range [][2]int{{1, 1}, {9, 1}, {9, 9}} {
						for _, bits := range p.run(t, k, size[0], size[1], false, false) {
							if got := math.Float32frombits(bits); got != want {
								t.Fatalf("%s: %d times %d · %d is %g, want %g", k.Name, n, activation, f.values[code], got, want)
							}
						}
					}
				}
			}
		}
	}
}

// All pairs of 8-bit codes, -128 on either side: activations made here never hold it, others may.
// Case B12.
func TestMatMulOfCodesOfMinus128IsExact(t *testing.T) {
	var q8 flat
	for _, f := range flats {
		if f.encoding == tensor.Q8_0 {
			q8 = f
		}
	}
	const n = 96
	var w []byte
	for code := range 256 {
		w = append(w, q8.row(t, 0x3c00, byte(code), n)...)
	}
	for _, k := range rowsOf("matmul_t")[tensor.Q8_0] {
		var x []byte
		for code := range 256 {
			x = append(x, constantRow(t, k.Activation, n, func(int) int8 { return int8(code) })...)
		}
		p := &product{x: &testTensor{bytes: x}, w: &testTensor{bytes: w}, n: n}
		for i, bits := range p.run(t, k, 256, 256, false, false) {
			a, b := int(int8(i/256)), int(int8(i%256))
			if got := math.Float32frombits(bits); got != float32(n*a*b) {
				t.Fatalf("%s: %d · %d summed %d times is %g", k.Name, a, b, n, got)
			}
		}
	}
}

// Signed codes on both sides, negatives in every lane of either.
// Case B13.
func TestMatMulOfSignedBySignedIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 13))
	for _, n := range []int{32, 96, 128, 544, 1024} {
		codes, w := make([]int8, 9*n), make([]byte, 0, 9*n/32*34)
		for i := range codes {
			codes[i] = int8(r.IntN(256) - 128)
			if i%32 == 0 {
				w = append(w, 0, 0x3c)
			}
			w = append(w, byte(codes[i]))
		}
		acts := make([]int8, n)
		for i := range acts {
			acts[i] = int8(r.IntN(255) - 127)
		}
		for _, k := range rowsOf("matmul_t")[tensor.Q8_0] {
			p := &product{x: &testTensor{bytes: constantRow(t, k.Activation, n, func(i int) int8 { return acts[i] })}, w: &testTensor{bytes: w}, n: n}
			for row, bits := range p.run(t, k, 9, 1, false, false) {
				sum := 0
				for i, a := range acts {
					sum += int(a) * int(codes[row*n+i])
				}
				if got := math.Float32frombits(bits); got != float32(sum) {
					t.Fatalf("%s: n %d: row %d is %g, want %d", k.Name, n, row, got, sum)
				}
			}
		}
	}
}

// A tensor of 300 million blocks in a sparse file: offsets past 2³¹ elements and 4 GiB.
// Case A36.
func TestBlocksPastFourGiBAreFound(t *testing.T) {
	const rows, n, rowBytes = 300_000, 32_000, 1000 * 18
	f, err := os.Create(filepath.Join(t.TempDir(), "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(rows * rowBytes); err != nil {
		t.Skip("no sparse file of 5.4 GB: ", err)
	}
	block := make([]byte, 18)
	binary.LittleEndian.PutUint16(block, 0x3c00)
	for i := range 16 {
		block[2+i] = byte(i | (15-i)<<4)
	}
	if _, err := f.WriteAt(block, rows*rowBytes-18); err != nil {
		t.Fatal(err)
	}
	s, st := core.Map(int(f.Fd()), 0, rows*rowBytes)
	ok(t, st)
	defer core.Close(s, nil)
	w, st := core.ViewOf(s, 0, tensor.Q4_0, tensor.ShapeOf(rows, n))
	ok(t, st)
	if w.Bytes != rows*rowBytes {
		t.Fatalf("%d bytes", w.Bytes)
	}
	want := func(i int) float64 { // of the last 32 elements
		if i < 16 {
			return float64(i - 8)
		}
		return float64(15 - (i - 16) - 8)
	}
	p := newPool(t, 2)
	last := w
	last.Layout = must(t, w.Layout, func(l tensor.Layout) (tensor.Layout, error) { return l.Narrow(0, rows-1, 1) })
	y, z := newTensor(t, tensor.EncF32, 1, n), newTensor(t, tensor.EncF32, 1, n)
	ok(t, core.Convert(p, nil, &last, &y.View))
	ids := newTensor(t, tensor.EncI32, 1)
	putIDs(ids, []int32{rows - 1})
	ok(t, core.Embed(p, nil, &w, &ids.View, 1, &z.View))
	for i := range 32 {
		got, st := core.Get(&w, []int64{rows - 1, n - 32 + int64(i)})
		ok(t, st)
		a, b := math.Float32frombits(bitsAt(y.bytes, n-32+i)), math.Float32frombits(bitsAt(z.bytes, n-32+i))
		if got != want(i) || float64(a) != want(i) || float64(b) != want(i) {
			t.Fatalf("element %d from the end: get %g, convert %g, embed %g, want %g", 32-i, got, a, b, want(i))
		}
	}
	x, m := newTensor(t, tensor.EncF32, 1, n), newTensor(t, tensor.EncF32, 1, 1)
	putDense(x.bytes, tensor.EncF32, n-1, 2)
	ok(t, core.MatMulT(p, nil, &x.View, &last, &m.View))
	if got := math.Float32frombits(bitsAt(m.bytes, 0)); got != float32(2*want(31)) {
		t.Fatalf("product %g, want %g", got, 2*want(31))
	}
}

// No read past the end: weights, activations and results end at a page that must not be touched, and so does the last
// tensor of a mapped file.
// Case B14.
func TestNothingBehindTheEndIsRead(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 14))
	eachKernel(t, func(t *testing.T, e tensor.EncodingInfo, k kernelRow) {
		for _, n := range []int{32, 64, 96, 256} {
			if n%e.BlockElements != 0 {
				continue
			}
			p := &product{x: activationsOf(t, r, k.Activation, 3, n), w: weightsOf(t, r, k.Encoding, 9, n), n: n}
			for rows := 1; rows <= 9; rows++ {
				for tokens := 1; tokens <= 3; tokens += 2 {
					p.run(t, k, rows, tokens, false, false)
				}
			}
		}
	})
	for _, e := range []tensor.Encoding{tensor.EncF32, tensor.EncF16, tensor.Q4_0, tensor.Q8_0, tensor.Q4_K, tensor.Q6_K} {
		const rows, n = 7, 256
		w := weightsOf(t, r, e, rows, n)
		page := os.Getpagesize()
		size := (len(w.bytes) + page - 1) / page * page
		path := filepath.Join(t.TempDir(), "pages")
		if err := os.WriteFile(path, append(make([]byte, size-len(w.bytes)), w.bytes...), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s, st := core.Map(int(f.Fd()), 0, uint64(size))
		ok(t, st)
		defer core.Close(s, nil)
		v, st := core.ViewOf(s, uint64(size-len(w.bytes)), e, tensor.ShapeOf(rows, n))
		ok(t, st)
		x, y, z := activationsOf(t, r, tensor.EncF32, 2, n), newTensor(t, tensor.EncF32, 2, rows), newTensor(t, tensor.EncF32, 2, rows)
		pool := newPool(t, 2)
		ok(t, core.MatMulT(pool, nil, &x.View, &v, &y.View))
		ok(t, core.MatMulT(pool, nil, &x.View, &w.View, &z.View))
		if !bytes.Equal(y.bytes, z.bytes) {
			t.Fatalf("%v: the mapped tensor gives another product", e)
		}
	}
}
