package core_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

// Activation codes: |x - code·d| ≤ d/2, sums, padding, the groups that have no scale; and every row agrees with
// the portable one to the bit, between guard pages and at odd addresses.
func TestQuantizeRowsRoundsToTheNearestCode(t *testing.T) {
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
			if kind == "normal" {
				scale, code := want[:4], want[32:33]
				coretest.Compare(t, rows[spec].row, [][]byte{scale, code}, func(wrong coretest.Wrong) { checkA8(wrong, kind, in, want) })
			} else {
				checkA8(t.Fatalf, kind, in, want)
			}
			for _, k := range rows {
				got := guarded(t, len(want)+1, n%2 == 0)[n%2 : n%2+len(want)]
				copy(got, slices.Repeat([]byte{0x55}, len(got)))
				if err := coretest.RunQuantizeRows(k.row, floats(in), got); err != nil {
					t.Fatal(err)
				}
				differs := func(wrong coretest.Wrong) {
					if !slices.Equal(got, want) {
						wrong("%s: %s, %d elements: differs from the portable body", k.Name, kind, n)
					}
				}
				if k.row == rows[spec].row {
					differs(t.Fatalf) // from itself
					continue
				}
				coretest.Compare(t, k.row, coretest.Samples(got, 1), differs)
			}
		}
	}
}

func checkA8(wrong coretest.Wrong, kind string, in, blocks []byte) {
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
			wrong("%s: group %d: scale %g", kind, g, d)
		}
		if !special && amax < 0x1p-119 != (d == 0) {
			wrong("%s: group %d: scale %g for a maximum of %g", kind, g, d, amax)
		}
		for half := range 2 {
			sum := int16(0)
			for _, c := range codes[16*half : 16*half+16] {
				sum += int16(int8(c))
			}
			if got := int16(le.Uint16(block[16+4*(g%4)+2*half:])); got != sum {
				wrong("%s: group %d: sum %d of %v, want %d", kind, g, got, codes, sum)
			}
		}
		for j, c := range codes {
			code := int8(c)
			i := 32*g + j
			switch {
			case i >= n || !(d > 0):
				if code != 0 {
					wrong("%s: element %d of %d has code %d under scale %g", kind, i, n, code, d)
				}
			case code == -128:
				wrong("%s: element %d has code -128", kind, i)
			default:
				x := float64(math.Float32frombits(bitsAt(in, i)))
				if diff := math.Abs(x - float64(code)*float64(d)); diff > float64(d)/2*(1+0x1p-14) {
					wrong("%s: element %d: %g is %d x %g", kind, i, x, code, d)
				}
			}
		}
	}
}

// Rows of any rank and stride become activation rows, each as its own call would make it.
func TestQuantizeRowsTakesAnyView(t *testing.T) {
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
