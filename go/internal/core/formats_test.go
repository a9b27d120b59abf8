package core_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

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

// MXFP4: the scale 2^(e-127) comes first, codes are doubled under half of it.
// Case A49.
func TestMXFP4HasItsScaleFirst(t *testing.T) {
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
// Case B01.
func TestQ41HasAnOffset(t *testing.T) {
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
// Case B03.
func TestQ4KSubBlocksHaveTheirOwnScales(t *testing.T) {
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
// Case B04.
func TestEverySuperBlockIsDecoded(t *testing.T) {
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
// Case B05.
func TestBlockScalesAreHalves(t *testing.T) {
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
