package core_test

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

// kernelRow is a row of the kernel table with its position.
type kernelRow struct {
	tensor.KernelInfo
	row int
}

// rowsOf lists the rows of an operation that this machine runs; none for an encoding is nil.
func rowsOf(op string) map[tensor.Encoding][]kernelRow {
	rows := map[tensor.Encoding][]kernelRow{}
	for i, k := range core.Kernels() {
		if k.Op.String() == op && k.Runnable {
			rows[k.Encoding] = append(rows[k.Encoding], kernelRow{k, i})
		}
	}
	return rows
}

// portable is the readable body of an operation for an encoding.
func portable(t *testing.T, op string, e tensor.Encoding) int {
	t.Helper()
	for _, k := range rowsOf(op)[e] {
		if k.ISA == "portable" {
			return k.row
		}
	}
	t.Fatalf("no portable %s row for %v", op, e)
	return 0
}

func info(t *testing.T, e tensor.Encoding) tensor.EncodingInfo {
	t.Helper()
	i, ok := e.Info()
	if !ok {
		t.Fatalf("encoding %d is not in the table", e)
	}
	return i
}

// guarded gives n bytes that end right before a guard page, so that their address is odd when n is, and
// right behind one when front is set.
func guarded(t *testing.T, n int, front bool) []byte {
	t.Helper()
	b, err := coretest.NewGuardedBuffer(max(n, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	if front {
		return b.Front(n)
	}
	return b.Back(n)
}

// floats is the memory of b, which may begin at any address, as float32.
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// bitsAt reads element i of floats that may begin at any address.
// bytesOf is the memory of words.
func bytesOf[T float32 | uint32](words []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 4*len(words))
}

func bitsAt(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

func random(b []byte, r *rand.Rand) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// golden is one set of the published vectors.
type golden struct {
	set      string // "q4_0.random"
	encoding tensor.Encoding
	blocks   []byte
	f32      []byte
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// goldenSets reads every set whose name ends in one of kinds.
func goldenSets(t *testing.T, kinds ...string) []golden {
	t.Helper()
	var sets []golden
	for _, kind := range kinds {
		files, err := filepath.Glob(filepath.Join("testdata", "golden", "*."+kind+".blocks"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			set := strings.TrimSuffix(filepath.Base(f), ".blocks")
			name, _, _ := strings.Cut(set, ".")
			e, err := tensor.ParseEncoding(name)
			if err != nil {
				t.Fatal(err)
			}
			sets = append(sets, golden{set, e, read(t, "golden", set+".blocks"), read(t, "golden", set+".f32")})
		}
	}
	return sets
}

// Every row decodes every published vector bit for bit, from blocks and to floats at odd addresses that end
// at a guard page.
func TestDecodeGivesTheGoldenValues(t *testing.T) {
	sets, seen := goldenSets(t, "random", "edge"), map[tensor.Encoding]bool{}
	rows := rowsOf("decode")
	for _, g := range sets {
		seen[g.encoding] = true
		e := info(t, g.encoding)
		count := len(g.blocks) / e.BlockBytes
		if count*e.BlockBytes != len(g.blocks) || count*e.BlockElements*4 != len(g.f32) {
			t.Fatalf("%s: %d bytes of blocks, %d of floats", g.set, len(g.blocks), len(g.f32))
		}
		for _, k := range rows[g.encoding] {
			for _, odd := range []bool{false, true} {
				blocks, out := guarded(t, len(g.blocks), !odd), guarded(t, len(g.f32)+1, !odd)
				out = out[:len(g.f32)]
				if odd {
					blocks, out = guarded(t, len(g.blocks)|1, false), guarded(t, len(g.f32)+1, true)[1:]
					blocks = blocks[len(blocks)-len(g.blocks):]
				}
				copy(blocks, g.blocks)
				if err := coretest.RunDecode(k.row, blocks, floats(out)); err != nil {
					t.Fatal(err)
				}
				coretest.Compare(t, k.row, coretest.Samples(out, 4), func(wrong coretest.Wrong) {
					for i := range len(out) / 4 {
						if bitsAt(out, i) != bitsAt(g.f32, i) {
							wrong("%s: %s: element %d is %x, want %x", g.set, k.Name, i, bitsAt(out, i), bitsAt(g.f32, i))
						}
					}
				})
			}
		}
	}
	// The list of published vectors covers every packed weight format.
	for e := range tensor.Encodings() {
		if e.BlockElements > 1 && !e.Activation && !seen[e.ID] {
			t.Errorf("no vectors for %s", e.Name)
		}
	}
	if len(sets) < 29 {
		t.Errorf("%d sets, want at least 27 random and 2 edge ones", len(sets))
	}
}

// Every encoding that can be read has a portable decoder, and the other rows agree with it on random bytes
// to the bit (any NaN equals any), for counts that leave every tail.
func TestDecodeRowsAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for e := range tensor.Encodings() {
		if e.BlockElements == 0 {
			continue
		}
		for count := 1; count <= 40; count++ {
			blocks := make([]byte, count*e.BlockBytes)
			random(blocks, r)
			checkDecoders(t, e, blocks, count%3 == 0)
		}
	}
}

// The formats without published vectors, against their formulas in Go.
func TestDecodeFollowsTheFormulas(t *testing.T) {
	le, r := binary.LittleEndian, rand.New(rand.NewPCG(3, 4))
	half := func(b []byte) float32 {
		out := make([]float32, 1)
		if err := coretest.RunDecode(portable(t, "decode", tensor.EncF16), b[:2], out); err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	codes := func(b []byte, d float32, out []float32) {
		for j := range out {
			out[j] = float32(int8(b[j])) * d
		}
	}
	f32 := func(b []byte) float32 { return math.Float32frombits(le.Uint32(b)) }
	formulas := map[tensor.Encoding]func(b []byte, out []float32){
		tensor.EncF32: func(b []byte, out []float32) { out[0] = f32(b) },
		tensor.EncF64: func(b []byte, out []float32) { out[0] = float32(math.Float64frombits(le.Uint64(b))) },
		tensor.EncI8:  func(b []byte, out []float32) { out[0] = float32(int8(b[0])) },
		tensor.EncI16: func(b []byte, out []float32) { out[0] = float32(int16(le.Uint16(b))) },
		tensor.EncI32: func(b []byte, out []float32) { out[0] = float32(int32(le.Uint32(b))) },
		tensor.EncI64: func(b []byte, out []float32) { out[0] = float32(int64(le.Uint64(b))) },
		tensor.Q8_1:   func(b []byte, out []float32) { codes(b[4:], half(b), out) },
		tensor.Q8_K:   func(b []byte, out []float32) { codes(b[4:], f32(b), out) },
		tensor.A8: func(b []byte, out []float32) {
			for g := range 4 {
				codes(b[32+32*g:], f32(b[4*g:]), out[32*g:32*g+32])
			}
		},
	}
	for e, formula := range formulas {
		i := info(t, e)
		block, out, want := make([]byte, i.BlockBytes), make([]byte, 4*i.BlockElements), make([]float32, i.BlockElements)
		row := portable(t, "decode", e)
		for range 2000 {
			random(block, r)
			if err := coretest.RunDecode(row, block, floats(out)); err != nil {
				t.Fatal(err)
			}
			formula(block, want)
			coretest.Compare(t, row, coretest.Samples(out, 4), func(wrong coretest.Wrong) {
				for j, got := range floats(out) {
					if got != want[j] && (got == got || want[j] == want[j]) {
						wrong("%v: element %d of %x is %g, want %g", e, j, block, got, want[j])
					}
				}
			})
		}
	}
}

// Every index of every codebook decodes to the lattice point that the list of codebooks names: the published
// vectors do not visit them all.
func TestDecodeFollowsTheCodebooks(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "codebooks.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]json.RawMessage
	if err := json.NewDecoder(z).Decode(&raw); err != nil {
		t.Fatal(err)
	}
	book := func(name string, size int) [][]float32 {
		var b [][]float32
		if err := json.Unmarshal(raw[name], &b); err != nil || len(b) != size {
			t.Fatalf("codebook %s: %d entries: %v", name, len(b), err)
		}
		return b
	}
	list := func(name string, size int) []float32 {
		var l []float32
		if err := json.Unmarshal(raw[name], &l); err != nil || len(l) != size {
			t.Fatalf("list %s: %d entries: %v", name, len(l), err)
		}
		return l
	}
	one := []byte{0, 0x3c} // 1 as a half
	decode := func(e tensor.Encoding, block []byte) []float32 {
		t.Helper()
		i := info(t, e)
		if len(block) != i.BlockBytes {
			t.Fatalf("%v: a block of %d bytes", e, len(block))
		}
		out := make([]float32, i.BlockElements)
		if err := coretest.RunDecode(portable(t, "decode", e), block, out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	expect := func(e tensor.Encoding, index int, got, want []float32, f func(float32) float32) {
		t.Helper()
		for j := range want {
			if got[j] != f(want[j]) {
				t.Fatalf("%v: entry %d, element %d is %g, want %g", e, index, j, got[j], f(want[j]))
			}
		}
	}
	times := func(d float32) func(float32) float32 { return func(v float32) float32 { return d * v } }

	// Each block uses one index, at its first place; scales are 0 there, signs positive.
	for i, want := range book("iq2_xxs", 256) {
		b := make([]byte, 66)
		copy(b, one)
		b[2] = byte(i)
		expect(tensor.IQ2_XXS, i, decode(tensor.IQ2_XXS, b), want, times(0.125))
	}
	for i, want := range book("iq2_xs", 512) {
		b := make([]byte, 74)
		copy(b, one)
		binary.LittleEndian.PutUint16(b[2:], uint16(i))
		expect(tensor.IQ2_XS, i, decode(tensor.IQ2_XS, b), want, times(0.125))
	}
	for i, want := range book("iq2_s", 1024) {
		b := make([]byte, 82)
		copy(b, one)
		b[2], b[66] = byte(i), byte(i>>8)
		expect(tensor.IQ2_S, i, decode(tensor.IQ2_S, b), want, times(0.125))
	}
	for i, want := range book("iq3_xxs", 256) {
		b := make([]byte, 98)
		copy(b, one)
		b[2] = byte(i)
		expect(tensor.IQ3_XXS, i, decode(tensor.IQ3_XXS, b), want, times(0.25))
	}
	for i, want := range book("iq3_s", 512) {
		b := make([]byte, 110)
		copy(b, one)
		b[2], b[66] = byte(i), byte(i>>8)
		expect(tensor.IQ3_S, i, decode(tensor.IQ3_S, b), want, times(1))
	}
	eighth := func(v float32) float32 { return v + 0.125 }
	for i, want := range book("iq1_s", 2048) {
		b := make([]byte, 50)
		copy(b, one)
		b[2], b[34] = byte(i), byte(i>>8)
		expect(tensor.IQ1_S, i, decode(tensor.IQ1_S, b), want, eighth)
		b = make([]byte, 56)
		b[0], b[32] = byte(i), byte(i>>8)
		b[53], b[55] = 0xc0, 0x30 // 1 as a half, nibble by nibble
		expect(tensor.IQ1_M, i, decode(tensor.IQ1_M, b), want, eighth)
	}
	for i, sign := range list("ksigns", 128) {
		want := make([]float32, 8)
		for j := range want {
			want[j] = 8 // entry 0
			if int(sign)>>j&1 == 1 {
				want[j] = -8
			}
		}
		b := make([]byte, 74)
		copy(b, one)
		binary.LittleEndian.PutUint16(b[2:], uint16(i)<<9)
		expect(tensor.IQ2_XS, i, decode(tensor.IQ2_XS, b), want, times(0.125))
	}
	for i, want := range list("iq4_nl", 16) {
		b := make([]byte, 18)
		copy(b, one)
		b[2] = byte(i)
		expect(tensor.IQ4_NL, i, decode(tensor.IQ4_NL, b), []float32{want}, times(1))
	}
	for i, want := range list("mxfp4_e2m1", 16) {
		b := make([]byte, 17)
		b[0], b[1] = 127, byte(i)
		expect(tensor.MXFP4, i, decode(tensor.MXFP4, b), []float32{want}, times(1))
	}
}

// The encoders of the plain formats make the published blocks, in every row.
func TestEncodeGivesTheGoldenBlocks(t *testing.T) {
	rows, n := rowsOf("encode"), 0
	for _, g := range goldenSets(t, "quant") {
		for _, k := range rows[g.encoding] {
			n++
			in, out := guarded(t, len(g.f32)+1, true)[1:], guarded(t, len(g.blocks), false)
			copy(in, g.f32)
			if err := coretest.RunEncode(k.row, floats(in), out); err != nil {
				t.Fatal(err)
			}
			size := info(t, g.encoding).BlockBytes
			for i := 0; i < len(out); i += size {
				if string(out[i:i+size]) != string(g.blocks[i:i+size]) {
					t.Fatalf("%s: %s: block %d is %x, want %x", g.set, k.Name, i/size, out[i:i+size], g.blocks[i:i+size])
				}
			}
		}
	}
	if n < 5 {
		t.Fatalf("%d rows and sets met", n)
	}
}

// A value that is not a number spoils its block visibly and no other.
func TestEncodeKeepsNaN(t *testing.T) {
	for _, e := range []tensor.Encoding{tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.Q8_0} {
		for at := range 32 {
			in := make([]float32, 96)
			for i := range in {
				in[i] = float32(i%7) - 3
			}
			in[32+at] = float32(math.NaN())
			blocks, out := make([]byte, 3*info(t, e).BlockBytes), make([]float32, 96)
			if err := coretest.RunEncode(portable(t, "encode", e), in, blocks); err != nil {
				t.Fatal(err)
			}
			if err := coretest.RunDecode(portable(t, "decode", e), blocks, out); err != nil {
				t.Fatal(err)
			}
			for i, v := range out {
				if (v != v) != (i/32 == 1) {
					t.Fatalf("%v: NaN at %d: element %d is %g", e, at, i-32, v)
				}
			}
		}
	}
}

// Halves and bfloat16 go to float and back unchanged, and floats round to the nearest of them, ties to even,
// in every row.
func TestEncodeOfHalvesIsTheInverseOfDecode(t *testing.T) {
	for _, e := range []tensor.Encoding{tensor.EncF16, tensor.EncBF16} {
		all, values := make([]byte, 2<<16), make([]float32, 1<<16)
		for i := range 1 << 16 {
			binary.LittleEndian.PutUint16(all[2*i:], uint16(i))
		}
		if err := coretest.RunDecode(portable(t, "decode", e), all, values); err != nil {
			t.Fatal(err)
		}
		for _, k := range rowsOf("encode")[e] {
			back := make([]byte, len(all))
			if err := coretest.RunEncode(k.row, values, back); err != nil {
				t.Fatal(err)
			}
			for i, v := range values {
				if got := binary.LittleEndian.Uint16(back[2*i:]); got != uint16(i) && v == v {
					t.Fatalf("%s: %g became %x, want %x", k.Name, v, got, i)
				}
			}
			// Between two neighbors: the middle goes to the even one, its neighbors to the nearer one.
			for i := range 0x7f80 {
				a, b := float64(values[i]), float64(values[i+1])
				if math.IsInf(b, 0) || e == tensor.EncF16 && i >= 0x7bff {
					break
				}
				middle := float32((a + b) / 2)
				in := []float32{middle, math.Nextafter32(middle, 0), math.Nextafter32(middle, math.MaxFloat32)}
				if float64(middle) != (a+b)/2 { // below the smallest float
					continue
				}
				out := make([]byte, 6)
				if err := coretest.RunEncode(k.row, in, out); err != nil {
					t.Fatal(err)
				}
				want := [3]uint16{uint16(i + i&1), uint16(i), uint16(i + 1)}
				for j, w := range want {
					if got := binary.LittleEndian.Uint16(out[2*j:]); got != w {
						t.Fatalf("%s: %g became %x, want %x", k.Name, in[j], got, w)
					}
				}
			}
		}
	}
}
