package core_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

// Tests named after the rows of testdata/cases.tsv: failures of other programs with numbers and text, each with the
// behaviour that is right.

// TestEveryCaseHasATest finds a test for each row, here or in the package that the case belongs to.
func TestEveryCaseHasATest(t *testing.T) {
	tests := map[string]bool{}
	for _, dir := range []string{".", "../../arch", "../../exec", "../../gguf", "../../load", "../../tokenizer"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			tree, err := goparser.ParseFile(token.NewFileSet(), file, nil, goparser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range tree.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
					if name, ok := strings.CutPrefix(f.Name.Name, "Test"); ok {
						id, _, _ := strings.Cut(name, "_")
						tests[id] = true
					}
				}
			}
		}
	}
	rows := strings.Split(strings.TrimSpace(string(read(t, "cases.tsv"))), "\n")[1:]
	if len(rows) != 24 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		if id, _, _ := strings.Cut(row, "\t"); !tests[id] {
			t.Errorf("no Test%s_…", id)
		}
	}
}

// f16 is the value of an IEEE half.
func f16(h uint16) float64 {
	e, m, sign := int(h>>10&31), float64(h&1023), 1-2*float64(h>>15)
	switch {
	case e == 0:
		return sign * m * 0x1p-24
	case e == 31 && m != 0:
		return math.NaN()
	case e == 31:
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+m, e-25)
}

// flat is an encoding whose blocks can be made of one code under one half scale: element = d·value[code].
type flat struct {
	encoding tensor.Encoding
	d        int                       // where the scale is
	values   []int                     // of the codes
	put      func(b []byte, code byte) // fills all but the scale, other scales 1, offsets 0
}

func from(lo, hi int) (v []int) {
	for i := lo; i <= hi; i++ {
		v = append(v, i)
	}
	return v
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

// spread is the n bits of code from bit i on, repeated over a byte.
func spread(code byte, i, n int) byte {
	c := code >> i & (1<<n - 1)
	for ; n < 8; n *= 2 {
		c |= c << n
	}
	return c
}

// Values of IQ4 codes, as the list of codebooks has them.
var iq4 = []int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

var flats = []flat{
	{tensor.Q4_0, 0, from(-8, 7), func(b []byte, c byte) { fill(b[2:], spread(c, 0, 4)) }},
	{tensor.Q4_1, 0, from(0, 15), func(b []byte, c byte) { fill(b[4:], spread(c, 0, 4)) }},
	{tensor.Q5_0, 0, from(-16, 15), func(b []byte, c byte) { fill(b[2:6], spread(c, 4, 1)); fill(b[6:], spread(c, 0, 4)) }},
	{tensor.Q5_1, 0, from(0, 31), func(b []byte, c byte) { fill(b[4:8], spread(c, 4, 1)); fill(b[8:], spread(c, 0, 4)) }},
	{tensor.Q8_0, 0, append(from(0, 127), from(-128, -1)...), func(b []byte, c byte) { fill(b[2:], c) }},
	{tensor.Q2_K, 80, from(0, 3), func(b []byte, c byte) { fill(b[:16], 1); fill(b[16:80], spread(c, 0, 2)) }},
	{tensor.Q3_K, 108, from(-4, 3), func(b []byte, c byte) { // scales are 33 - 32
		fill(b[:32], spread(c, 2, 1))
		fill(b[32:96], spread(c, 0, 2))
		fill(b[96:104], 0x11)
		fill(b[104:108], 0xaa)
	}},
	{tensor.Q4_K, 0, from(0, 15), func(b []byte, c byte) { fill(b[4:8], 1); fill(b[12:16], 1); fill(b[16:], spread(c, 0, 4)) }},
	{tensor.Q5_K, 0, from(0, 31), func(b []byte, c byte) {
		fill(b[4:8], 1)
		fill(b[12:16], 1)
		fill(b[16:48], spread(c, 4, 1))
		fill(b[48:], spread(c, 0, 4))
	}},
	{tensor.Q6_K, 208, from(-32, 31), func(b []byte, c byte) {
		fill(b[:128], spread(c, 0, 4))
		fill(b[128:192], spread(c, 4, 2))
		fill(b[192:208], 1)
	}},
	{tensor.IQ4_NL, 0, iq4, func(b []byte, c byte) { fill(b[2:], spread(c, 0, 4)) }},
	{tensor.IQ4_XS, 0, iq4, func(b []byte, c byte) { fill(b[2:4], 0xaa); fill(b[4:8], 0x11); fill(b[8:], spread(c, 0, 4)) }},
	{tensor.TQ2_0, 64, from(-1, 1), func(b []byte, c byte) { fill(b[:64], spread(c, 0, 2)) }},
}

// row is n elements of one code.
func (f flat) row(t *testing.T, d uint16, code byte, n int) []byte {
	e := info(t, f.encoding)
	b := make([]byte, e.BlockBytes)
	f.put(b, code)
	binary.LittleEndian.PutUint16(b[f.d:], d)
	return bytes.Repeat(b, n/e.BlockElements)
}

// decoded is the values of blocks by a row of the table, over poison.
func decoded(t *testing.T, k kernelRow, blocks []byte) []float32 {
	t.Helper()
	e := info(t, k.Encoding)
	out := make([]float32, len(blocks)/e.BlockBytes*e.BlockElements)
	for i := range out {
		out[i] = math.Float32frombits(untouched)
	}
	if err := coretest.RunDecode(k.row, blocks, out); err != nil {
		t.Fatal(err)
	}
	for i, v := range out {
		if math.Float32bits(v) == untouched {
			t.Fatalf("%s: element %d of %d was not written", k.Name, i, len(out))
		}
	}
	return out
}

// constantRow is n activations of one code under scale 1, or of its value.
func constantRow(t *testing.T, e tensor.Encoding, n int, code func(i int) int8) []byte {
	if e == tensor.EncF32 {
		b := make([]byte, 4*n)
		for i := range n {
			putDense(b, e, i, float32(code(i)))
		}
		return b
	}
	b := make([]byte, (n+127)/128*160)
	for at := 0; at < len(b); at += 160 {
		a8Block(b[at:at+160], func(int) float32 { return 1 }, func(i int) int8 {
			if i += at / 160 * 128; i < n {
				return code(i)
			}
			return 0
		})
	}
	return b
}

// A tensor of 300 million blocks in a sparse file: offsets past 2³¹ elements and 4 GiB.
func TestA36_pastFourGiB(t *testing.T) {
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

// MXFP4: the scale 2^(e-127) comes first, codes are doubled under half of it.
func TestA49_mxfp4ScaleFirst(t *testing.T) {
	doubled := []float64{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
	for _, scale := range []byte{0, 1, 2, 127, 128, 254, 255} {
		b := make([]byte, 17)
		b[0] = scale
		for i := range 16 {
			b[1+i] = byte(i | (i+5)%16<<4)
		}
		half := math.Ldexp(1, int(scale)-128)
		for _, k := range rowsOf("decode")[tensor.MXFP4] {
			for i, v := range decoded(t, k, b) {
				code := i
				if i >= 16 {
					code = (i - 16 + 5) % 16
				}
				if v != float32(doubled[code]*half) {
					t.Fatalf("%s: scale %d: element %d is %g, want %g", k.Name, scale, i, v, float32(doubled[code]*half))
				}
			}
		}
	}
}

// Q4_1: both halves of the header count.
func TestB01_q4_1HasAnOffset(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 41))
	for range 500 {
		b := make([]byte, 20)
		random(b, r)
		b[1], b[3] = b[1]&0xbf, b[3]&0xbf|0x20 // finite, and an offset that is not zero
		d, m := f16(binary.LittleEndian.Uint16(b)), f16(binary.LittleEndian.Uint16(b[2:]))
		for _, k := range rowsOf("decode")[tensor.Q4_1] {
			for i, v := range decoded(t, k, b) {
				q := b[4+i%16] >> (i / 16 * 4) & 15
				if m == 0 || v != float32(d*float64(q)+m) {
					t.Fatalf("%s: lane %d of %x is %g, want %g", k.Name, i, b, v, d*float64(q)+m)
				}
			}
		}
	}
}

// Q4_K: eight scales and eight offsets of 6 bits, the upper ones in pieces.
func TestB03_q4KSubBlocks(t *testing.T) {
	scale, offset := [8]byte{1, 9, 17, 31, 33, 47, 62, 63}, [8]byte{60, 63, 32, 5, 48, 16, 15, 2}
	b := make([]byte, 144)
	binary.LittleEndian.PutUint16(b, 0x3800)     // 1/2
	binary.LittleEndian.PutUint16(b[2:], 0x3400) // 1/4
	for j := range 4 {
		b[4+j] = scale[j] | scale[j+4]>>4<<6
		b[8+j] = offset[j] | offset[j+4]>>4<<6
		b[12+j] = scale[j+4]&15 | offset[j+4]<<4
	}
	for i := range 128 {
		b[16+i] = byte(i*7 ^ i>>3)
	}
	want := func(i int) float64 {
		q := b[16+i/64*32+i%32] >> (i / 32 % 2 * 4) & 15
		return float64(scale[i/32])*float64(q)/2 - float64(offset[i/32])/4
	}
	for _, k := range rowsOf("decode")[tensor.Q4_K] {
		for i, v := range decoded(t, k, b) {
			if float64(v) != want(i) {
				t.Fatalf("%s: element %d (sub-block %d) is %g, want %g", k.Name, i, i/32, v, want(i))
			}
		}
	}
	// Each sub-block alone in a product.
	for _, k := range rowsOf("matmul_t")[tensor.Q4_K] {
		for sub := range 8 {
			x := constantRow(t, k.Activation, 256, func(i int) int8 {
				if i/32 == sub {
					return 1
				}
				return 0
			})
			p := &product{x: &testTensor{bytes: x}, w: &testTensor{bytes: b}, n: 256}
			sum := 0.0
			for i := range 32 {
				sum += want(32*sub + i)
			}
			if got := math.Float32frombits(p.run(t, k, 1, 1, false, false)[0]); float64(got) != sum {
				t.Fatalf("%s: sub-block %d sums to %g, want %g", k.Name, sub, got, sum)
			}
		}
	}
}

// All super-blocks of a row are decoded, not only the first, and have their published sizes.
func TestB04_everySuperBlock(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for e, size := range map[tensor.Encoding]int{tensor.Q2_K: 84, tensor.Q3_K: 110, tensor.Q4_K: 144, tensor.Q5_K: 176, tensor.Q6_K: 210, tensor.Q8_K: 292} {
		i := info(t, e)
		if i.BlockBytes != size || i.BlockElements != 256 {
			t.Fatalf("%s: %d elements in %d bytes", i.Name, i.BlockElements, i.BlockBytes)
		}
		for _, blocks := range []int{2, 3, 7} {
			x := newTensor(t, e, 3, int64(256*blocks))
			for at := 0; at < len(x.bytes); at += size {
				randomBlock(t, r, i, portable(t, "decode", e), x.bytes[at:at+size])
			}
			y := newTensor(t, tensor.EncF32, 3, int64(256*blocks))
			fill(y.bytes, 0xff)
			ok(t, core.Convert(newPool(t, 2), nil, &x.View, &y.View))
			for _, k := range rowsOf("decode")[e] {
				all := decoded(t, k, x.bytes)
				for b := range 3 * blocks {
					for j, v := range decoded(t, k, x.bytes[b*size:(b+1)*size]) {
						at := 256*b + j
						if all[at] != v || math.Float32frombits(bitsAt(y.bytes, at)) != v {
							t.Fatalf("%s: element %d of block %d of %d is %g, of the operation %g, alone %g", k.Name, j, b, blocks,
								all[at], math.Float32frombits(bitsAt(y.bytes, at)), v)
						}
					}
				}
			}
		}
	}
}

// Block scales are halves, also below the smallest normal one; seen in decoding and in products.
func TestB05_halfScales(t *testing.T) {
	for _, d := range []uint16{0x3c00, 0x3e00, 0xbc00, 0x0001} {
		for _, f := range flats {
			e := info(t, f.encoding)
			code := byte(slices.Index(f.values, 1))
			n := max(e.BlockElements, 64)
			w := f.row(t, d, code, n)
			for _, k := range rowsOf("decode")[f.encoding] {
				for i, v := range decoded(t, k, w) {
					if float64(v) != f16(d) {
						t.Fatalf("%s: scale %04x: element %d is %g, want %g", k.Name, d, i, v, f16(d))
					}
				}
			}
			for _, k := range rowsOf("matmul_t")[f.encoding] {
				x := constantRow(t, k.Activation, n, func(i int) int8 { return int8(i % 3) })
				sum := 0.0
				for i := range n {
					sum += float64(i % 3)
				}
				p := &product{x: &testTensor{bytes: x}, w: &testTensor{bytes: w}, n: n}
				if got := math.Float32frombits(p.run(t, k, 1, 1, false, false)[0]); float64(got) != sum*f16(d) {
					t.Fatalf("%s: scale %04x: product %g, want %g", k.Name, d, got, sum*f16(d))
				}
			}
		}
	}
}

// A scale that is no number spoils the row it is in and no other; nothing crashes. What a check of a file says of it
// stands in package gguf.
func TestB07_scalesThatAreNoNumbers(t *testing.T) {
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
func TestB08_encodeAlmostNothing(t *testing.T) {
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
func TestB10_noSaturation(t *testing.T) {
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
func TestB12_codesOf128(t *testing.T) {
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
func TestB13_signedBySigned(t *testing.T) {
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

// No read past the end: weights, activations and results end at a page that must not be touched, and so does the last
// tensor of a mapped file.
func TestB14_nothingBehindTheEnd(t *testing.T) {
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

// Subnormal numbers: what they cost, and that nobody's control register is changed for their sake.
func TestB16_subnormals(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pool := newPool(t, 2)
	before, st := coretest.FloatControl(pool)
	ok(t, st)
	if len(before) != 3 {
		t.Fatalf("%d threads", len(before))
	}
	const rows, n, tokens = 64, 1024, 2
	filled := func(e tensor.Encoding, v float32, dims ...int64) *testTensor {
		x := newTensor(t, e, dims...)
		if e == tensor.EncF16 && v != 1 {
			fill(x.bytes, 0)
			for i := 0; i < len(x.bytes); i += 2 {
				x.bytes[i] = 5 // a subnormal half
			}
			return x
		}
		for i := range len(x.bytes) / info(t, e).BlockBytes {
			putDense(x.bytes, e, i, v)
		}
		return x
	}
	for _, e := range []tensor.Encoding{tensor.EncF32, tensor.EncBF16, tensor.EncF16, tensor.Q8_0} {
		type pair struct{ x, w *testTensor }
		operands := func(w, x float32) pair {
			if e != tensor.Q8_0 {
				return pair{filled(tensor.EncF32, x, tokens, n), filled(e, w, rows, n)}
			}
			q, a := newTensor(t, e, rows, n), newTensor(t, tensor.A8, tokens, n)
			for at := 0; at < len(q.bytes); at += 34 {
				binary.LittleEndian.PutUint16(q.bytes[at:], map[bool]uint16{true: 0x3c00, false: 1}[w == 1])
				fill(q.bytes[at+2:at+34], 1)
			}
			for at := 0; at < len(a.bytes); at += 160 {
				a8Block(a.bytes[at:at+160], func(int) float32 { return x }, func(int) int8 { return 1 })
			}
			return pair{a, q}
		}
		y := newTensor(t, tensor.EncF32, tokens, rows)
		elapsed := func(p pair) time.Duration {
			begin := time.Now()
			for range 20 {
				ok(t, core.MatMulT(pool, nil, &p.x.View, &p.w.View, &y.View))
			}
			return time.Since(begin)
		}
		ones := operands(1, 1)
		for name, p := range map[string]pair{"weights": operands(1e-40, 1), "activations": operands(1, 1e-40), "both": operands(1e-40, 1e-40)} {
			var ratios []float64
			for range 21 {
				a, b := elapsed(ones), elapsed(p)
				ratios = append(ratios, float64(b)/float64(a))
			}
			slices.Sort(ratios)
			t.Logf("%v, subnormal %s: %.2f times the time of ones", e, name, ratios[10])
			if ratios[10] >= 4 {
				t.Errorf("%v, subnormal %s: %.2f times the time of ones", e, name, ratios[10])
			}
		}
	}
	x, a := filled(tensor.EncF32, 1e-40, tokens, n), newTensor(t, tensor.A8, tokens, n)
	ok(t, core.QuantizeRows(pool, nil, &x.View, &a.View))
	after, st := coretest.FloatControl(pool)
	ok(t, st)
	slices.Sort(before[1:])
	slices.Sort(after[1:])
	if !slices.Equal(before, after) {
		t.Errorf("control registers were %x and are %x", before, after)
	}
}

// wide reports whether the bytes of an amd64 instruction begin with a VEX or EVEX prefix, behind a segment or address
// size prefix at most: in 64-bit mode these bytes begin nothing else.
func wide(b []byte) bool {
	for len(b) > 0 && slices.Contains([]byte{0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x67}, b[0]) {
		b = b[1:]
	}
	return len(b) > 1 && (b[0] == 0xc4 || b[0] == 0xc5 || b[0] == 0x62)
}

// Only the units that are reached behind a check hold wide instructions, in the very objects that go build linked; and
// this test's products run on an emulated processor without them.
func TestF04_baselineProcessors(t *testing.T) {
	const child = "SKEEP_CASE_F04"
	if os.Getenv(child) != "" {
		t.Log("in force: " + core.ISA())
		return
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("instructions of amd64")
	}
	for _, tool := range []string{"go", "ar", "nm", "objdump"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("objects are not disassembled: ", err)
		}
	}
	archive, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", "github.com/skeep-project/skeep/csrc").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	extract := exec.Command("ar", "x", strings.TrimSpace(string(archive)))
	extract.Dir = dir
	if out, err := extract.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	objects, err := filepath.Glob(filepath.Join(dir, "*.o")) // named by number: their symbols tell which is which
	if err != nil || len(objects) < 10 {
		t.Fatal(objects, err)
	}
	units := 0
	for _, object := range objects {
		symbols, err := exec.Command("nm", "--defined-only", object).Output()
		if err != nil || !strings.Contains(string(symbols), " T skeep_") {
			continue // Go's own object, or one without C functions
		}
		units++
		text, err := exec.Command("objdump", "-d", "--insn-width=16", object).Output()
		if err != nil {
			t.Fatal(object, err)
		}
		instructions, found, first := 0, 0, ""
		for line := range strings.Lines(string(text)) {
			columns := strings.Split(line, "\t")
			if len(columns) < 3 {
				continue
			}
			code, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(columns[1]), " ", ""))
			if err != nil {
				t.Fatal(line)
			}
			if instructions++; wide(code) {
				if found++; first == "" {
					first = strings.TrimSpace(line)
				}
			}
		}
		switch dispatched := regexp.MustCompile(` T skeep_\w+_avx(2|512)\b`).Match(symbols); {
		case dispatched && found == 0:
			t.Errorf("%s: no wide instruction among %d: the search is blind", object, instructions)
		case !dispatched && found > 0:
			t.Errorf("%s: %d wide instructions, the first is %s", object, found, first)
		}
	}
	if units < 10 {
		t.Fatalf("only %d units among %d objects", units, len(objects))
	}
	const emulator = "qemu-x86_64-static"
	if _, err := exec.LookPath(emulator); err != nil {
		t.Skip("no baseline processor: ", err)
	}
	for cpu, isa := range map[string]string{"Nehalem": "portable", "Haswell": "avx2"} {
		run := exec.Command(emulator, "-cpu", cpu, os.Args[0], "-test.run=^(TestF04_|TestB03_|TestB05_|TestB13_)", "-test.v")
		run.Env = append(os.Environ(), child+"=1", "SKEEP_ISA=")
		if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "in force: "+isa) {
			t.Errorf("%s: %v\n%s", cpu, err, out)
		}
	}
}
