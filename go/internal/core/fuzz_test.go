package core_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
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
			if err := core.RunDecode(portable(t, "decode", e.ID), w.bytes[o*bytes:][:bytes], row); err != nil {
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
	if err := core.RunDecode(portable(t, "decode", e.ID), blocks, floats(want)); err != nil {
		t.Fatal(err)
	}
	for _, k := range rowsOf("decode")[e.ID] {
		got := guarded(t, bytes+1, front)[len(data)&1:][:bytes]
		if err := core.RunDecode(k.row, blocks, floats(got)); err != nil {
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
