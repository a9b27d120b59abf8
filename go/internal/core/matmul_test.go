package core_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

// Products are measured against the reference on the same codes and scales, with the bounds of the design:
// 2⁻²⁰·Σ|terms| for integer rows, n·2⁻²⁴·Σ|terms| for exact ones, terms before they cancel.

// weightsOf fills a matrix with random elements or blocks, none of them zero.
func weightsOf(t *testing.T, r *rand.Rand, e tensor.Encoding, rows, n int) *testTensor {
	t.Helper()
	w := newTensor(t, e, int64(rows), int64(n))
	i := info(t, e)
	if i.BlockElements == 1 {
		for k := range rows * n {
			putDense(w.bytes, e, k, float32(r.NormFloat64()*math.Exp2(float64(k/n%7-3))))
		}
		return w
	}
	decode := portable(t, "decode", e)
	for at := 0; at < len(w.bytes); at += i.BlockBytes {
		randomBlock(t, r, i, decode, w.bytes[at:at+i.BlockBytes])
	}
	return w
}

// randomBlock draws bytes until they decode to numbers whose root mean square is near 1: blocks of one size hide
// nothing of each other in a sum.
func randomBlock(t *testing.T, r *rand.Rand, e tensor.EncodingInfo, decode int, block []byte) {
	t.Helper()
	values := make([]float32, e.BlockElements)
	for range 100_000 {
		random(block, r)
		if err := coretest.RunDecode(decode, block, values); err != nil {
			t.Fatal(err)
		}
		square, within := 0.0, 0.0 // mean square; what of it is not the mean of each 8
		for eight := range slices.Chunk(values, 8) {
			mean := 0.0
			for _, v := range eight {
				square += float64(v) * float64(v) / float64(len(values))
				mean += float64(v) / 8
			}
			for _, v := range eight {
				within += (float64(v) - mean) * (float64(v) - mean) / float64(len(values))
			}
		}
		if 1.0/16 < square && square < 16 && within > square/8 { // offsets do not drown the codes
			return
		}
	}
	t.Fatalf("no block of %s of size 1", e.Name)
}

func putDense(b []byte, e tensor.Encoding, k int, v float32) {
	bits := math.Float32bits(v)
	switch e {
	case tensor.EncF32:
		binary.LittleEndian.PutUint32(b[4*k:], bits)
	case tensor.EncBF16:
		binary.LittleEndian.PutUint16(b[2*k:], uint16(bits>>16))
	case tensor.EncF16:
		binary.LittleEndian.PutUint16(b[2*k:], half(v))
	}
}

// half truncates a float of moderate size to IEEE half.
func half(v float32) uint16 {
	bits := math.Float32bits(v)
	e := int(bits>>23&255) - 127 + 15
	if e < 1 || e > 30 {
		return uint16(bits >> 31 << 15)
	}
	return uint16(bits>>31<<15 | uint32(e)<<10 | bits>>13&1023)
}

// a8Block sets the group scales of block b and its codes, and the sums that follow from them.
func a8Block(b []byte, d func(group int) float32, code func(i int) int8) {
	for g := range 4 {
		binary.LittleEndian.PutUint32(b[4*g:], math.Float32bits(d(g)))
	}
	for h := range 8 {
		sum := 0
		for i := 16 * h; i < 16*h+16; i++ {
			c := code(i)
			b[32+i] = byte(c)
			sum += int(c)
		}
		binary.LittleEndian.PutUint16(b[16+2*h:], uint16(sum))
	}
}

// activationsOf fills rows of F32 or A8; codes reach ±127 and are zero past the end of a row.
func activationsOf(t *testing.T, r *rand.Rand, e tensor.Encoding, tokens, n int) *testTensor {
	t.Helper()
	x := newTensor(t, e, int64(tokens), int64(n))
	if e == tensor.EncF32 {
		for k := range tokens * n {
			putDense(x.bytes, e, k, float32(r.NormFloat64()))
		}
		return x
	}
	per := (n + 127) / 128
	for b := range tokens * per {
		a8Block(x.bytes[160*b:160*b+160], func(int) float32 { return float32(r.Float64()*0.1 + 1e-3) }, func(i int) int8 {
			if b%per*128+i >= n {
				return 0
			}
			return int8(r.IntN(255) - 127)
		})
	}
	return x
}

// product is a reference result with its magnitudes.
type product struct {
	x, w           *testTensor
	tokens, out, n int
	value, terms   []float32
	test           *testing.T // to which places belong
	places         map[string][]byte
}

func referenceOf(t *testing.T, x, w *testTensor, tokens, out, n int) *product {
	t.Helper()
	y, m := newTensor(t, tensor.EncF32, int64(tokens), int64(out)), newTensor(t, tensor.EncF32, int64(tokens), int64(out))
	ok(t, core.ReferenceMatMulT(&x.View, &w.View, &y.View, &m.View))
	p := &product{x: x, w: w, tokens: tokens, out: out, n: n}
	for i := range tokens * out {
		p.value = append(p.value, math.Float32frombits(bitsAt(y.bytes, i)))
		p.terms = append(p.terms, math.Float32frombits(bitsAt(m.bytes, i)))
	}
	return p
}

// bound is how far an element may be from the reference, which itself is rounded once.
func (p *product) bound(t, o int, integer bool) float64 {
	i := t*p.out + o
	b := float64(p.terms[i]) * 0x1p-20
	if !integer {
		b = float64(p.terms[i]) * 0x1p-24 * float64(p.n)
	}
	return b + math.Abs(float64(p.value[i]))*0x1p-24
}

// wrong says whether y is not the element within its bound; a NaN is always wrong.
func (p *product) wrong(t, o int, y float32, integer bool) bool {
	return !(math.Abs(float64(y)-float64(p.value[t*p.out+o])) <= p.bound(t, o, integer))
}

const untouched = 0x7fc0dead // a NaN that no kernel makes

// place is memory of one test for an operand, the same for the same size; what is in it stays.
func (p *product) place(t *testing.T, operand rune, n int, odd bool) []byte {
	if p.test != t {
		p.test, p.places = t, map[string][]byte{}
	}
	key := fmt.Sprint(string(operand), n, odd)
	if p.places[key] == nil {
		if odd {
			p.places[key] = guarded(t, n+1, true)[1:]
		} else {
			p.places[key] = guarded(t, n, false)
		}
	}
	return p.places[key]
}

// run computes the first rows and tokens with a row of the table. All memory ends at a guard page, or begins
// at an odd address right behind one; strides have gaps when wide is set. The result is tokens × rows bits.
func (p *product) run(t *testing.T, k kernelRow, rows, tokens int, odd, wide bool) []uint32 {
	t.Helper()
	e, a := info(t, k.Encoding), info(t, k.Activation)
	wRow, xRow := p.n/e.BlockElements*e.BlockBytes, (p.n+a.BlockElements-1)/a.BlockElements*a.BlockBytes
	given, gap, xGap := rows, 0, 0 // rows of w
	if k.Order == tensor.Feed {
		given = (rows + 15) / 16 * 16 // whole panels; the rows that nobody asked for repeat others
	}
	yStride := given
	if wide {
		gap, xGap, yStride = 3*e.BlockBytes, 3*e.BlockBytes, given+3
	}
	if k.Order == tensor.Feed {
		gap = 0
	}
	w, x := p.place(t, 'w', (given-1)*(wRow+gap)+wRow, odd), p.place(t, 'x', (tokens-1)*(xRow+xGap)+xRow, odd)
	for o := range given {
		copy(w[o*(wRow+gap):][:wRow], p.w.bytes[o%rows*wRow:])
	}
	if k.Order == tensor.Feed {
		copy(w, inFeedOrder(k.Encoding, slices.Clone(w), given))
	}
	for i := range tokens {
		copy(x[i*(xRow+xGap):][:xRow], p.x.bytes[i*xRow:])
	}
	y := p.place(t, 'y', 4*((tokens-1)*yStride+given), odd)
	for i := range len(y) / 4 {
		binary.LittleEndian.PutUint32(y[4*i:], untouched)
	}
	tile := coretest.MatMulTile{X: x, XStride: xRow + xGap, W: w, WStride: wRow + gap, Y: floats(y), YStride: yStride,
		Tokens: tokens, Rows: given, N: p.n}
	if err := coretest.RunMatMulT(k.row, tile); err != nil {
		t.Fatal(err)
	}
	out := make([]uint32, 0, tokens*rows)
	for i := range len(y) / 4 {
		if i%yStride < rows {
			out = append(out, bitsAt(y, i))
		} else if i%yStride >= given && bitsAt(y, i) != untouched {
			t.Fatalf("%s: wrote between the rows of y", k.Name)
		}
	}
	return out
}

// compare computes the first rows and tokens with a row of the table, and compares them with the reference.
func (p *product) compare(t *testing.T, k kernelRow, rows, tokens int) []uint32 {
	t.Helper()
	integer := k.Activation == tensor.A8
	all := p.run(t, k, rows, tokens, false, false)
	coretest.Compare(t, k.row, coretest.Samples(bytesOf(all), 4), func(wrong coretest.Wrong) {
		for i, bits := range all {
			if y := math.Float32frombits(bits); p.wrong(i/rows, i%rows, y, integer) {
				wrong("n %d: y[%d,%d] is %g, want %g ± %g", p.n, i/rows, i%rows, y, p.value[i], p.bound(i/rows, i%rows, integer))
			}
		}
	})
	return all
}

// widths are inner extents for an encoding: at least three blocks, and for dense formats every tail.
func widths(e tensor.EncodingInfo) []int {
	switch e.BlockElements {
	case 1:
		return []int{1, 2, 7, 9, 33, 172, 511, 513, 1100}
	case 32:
		return []int{96, 128, 160, 512, 544, 1120}
	}
	return []int{3 * e.BlockElements, 4 * e.BlockElements, 5 * e.BlockElements}
}

// eachKernel calls f for every product of the table that runs here, by encoding and activation.
func eachKernel(t *testing.T, f func(t *testing.T, e tensor.EncodingInfo, k kernelRow)) {
	for e := range tensor.Encodings() {
		for _, k := range rowsOf("matmul_t")[e.ID] {
			t.Run(k.Name, func(t *testing.T) { f(t, e, k) })
		}
	}
}

// Every product agrees with the reference on a few rows and tokens: quick enough for emulators.
func TestMatMulOfFewRowsAgreesWithTheReference(t *testing.T) {
	eachKernel(t, func(t *testing.T, e tensor.EncodingInfo, k kernelRow) {
		const rows, tokens = 9, 5
		n := max(64, 3*e.BlockElements)
		r := rand.New(rand.NewPCG(21, uint64(k.Encoding)))
		x, w := activationsOf(t, r, k.Activation, tokens, n), weightsOf(t, r, k.Encoding, rows, n)
		referenceOf(t, x, w, tokens, rows, n).compare(t, k, rows, tokens)
	})
}

// Every product agrees with the reference for every count of rows and tokens, at odd addresses and at the end
// of its pages, and the bits of an element depend on nothing but its row and its token.
func TestMatMulBodiesAgreeWithTheReference(t *testing.T) {
	references, whole := map[string]*product{}, t // kernels of an encoding share them
	eachKernel(t, func(t *testing.T, e tensor.EncodingInfo, k kernelRow) {
		sizes := widths(e)
		if k.ISA != "portable" {
			sizes = append(sizes, 4096)
		}
		for _, n := range sizes {
			rows, tokens := 33, 33
			if n == 4096 {
				rows, tokens = 9, 9
			}
			key := fmt.Sprint(k.Encoding, k.Activation, n)
			p := references[key]
			if p == nil {
				r := rand.New(rand.NewPCG(uint64(n), uint64(k.Encoding)))
				x, w := activationsOf(whole, r, k.Activation, tokens, n), weightsOf(whole, r, k.Encoding, rows, n)
				p = referenceOf(whole, x, w, tokens, rows, n)
				references[key] = p
			}
			all := p.compare(t, k, rows, tokens)
			someRows, someTokens := []int{1, 3, 7, 8, 9, 17, 25, 33}, []int{1, 2, 3, 4, 5, 8, 9, 16, 17, 33}
			if testing.Short() { // a panel and more, and each number of tokens that is multiplied at once
				someRows, someTokens = []int{7, 8, 25}, []int{1, 2, 3, 4, 17}
			}
			for _, some := range someRows {
				for _, few := range someTokens {
					if some > rows || few > tokens {
						continue
					}
					got := p.run(t, k, some, few, (some+few)%2 == 0, few%3 == 0)
					for i, bits := range got {
						if bits != all[i/some*rows+i%some] {
							t.Fatalf("n %d: y[%d,%d] depends on %d rows, %d tokens: %g, was %g", n, i/some, i%some, some, few,
								math.Float32frombits(bits), math.Float32frombits(all[i/some*rows+i%some]))
						}
					}
				}
			}
		}
	})
}

// The same element from one token and from two to fifty, for every inner extent: the matrix path has no tail of
// its own.
// Case B15.
func TestMatMulTailsAgreeForAnyNumberOfTokens(t *testing.T) {
	eachKernel(t, func(t *testing.T, e tensor.EncodingInfo, k kernelRow) {
		if k.ISA == "portable" {
			return // one path
		}
		step := max(16, e.BlockElements)
		for n := step; n <= 544; n += step {
			r := rand.New(rand.NewPCG(uint64(n), 3))
			p := &product{x: activationsOf(t, r, k.Activation, 50, n), w: weightsOf(t, r, k.Encoding, 9, n), tokens: 50, out: 9, n: n}
			one := p.run(t, k, 9, 1, false, false)
			for _, tokens := range []int{2, 3, 4, 5, 6, 7, 8, 12, 31, 50} {
				if !slices.Equal(p.run(t, k, 9, tokens, true, false)[:9], one) {
					t.Fatalf("n %d: the first of %d tokens differs from one", n, tokens)
				}
			}
		}
	})
}

// Altering one bit of one block is seen: in its row by more than the bound, in no other row at all. Bits whose
// effect on the reference itself is near the bound are left out, and must be few.
func TestMatMulSeesEveryBit(t *testing.T) {
	type operands struct{ weight, activation tensor.Encoding }
	references := map[operands][][]float32{} // of the changed row, for each bit: what all kernels are measured against
	eachKernel(t, func(t *testing.T, e tensor.EncodingInfo, k kernelRow) {
		const rows, tokens, changed = 9, 2, 4
		n := max(24, 3*e.BlockElements)
		r := rand.New(rand.NewPCG(11, uint64(k.Encoding)))
		integer := k.Activation == tensor.A8
		x := activationsOf(t, r, k.Activation, tokens, n)
		w := weightsOf(t, r, k.Encoding, rows, n)
		p := referenceOf(t, x, w, tokens, rows, n)
		before := p.run(t, k, rows, tokens, false, false)
		rowBytes := n / e.BlockElements * e.BlockBytes
		block := w.bytes[changed*rowBytes+rowBytes/2/e.BlockBytes*e.BlockBytes:][:e.BlockBytes]
		altered := references[operands{k.Encoding, k.Activation}]
		for bit := len(altered); bit < 8*len(block); bit++ {
			row := newTensor(t, k.Encoding, 1, int64(n))
			block[bit/8] ^= 1 << (bit % 8)
			copy(row.bytes, w.bytes[changed*rowBytes:][:rowBytes])
			block[bit/8] ^= 1 << (bit % 8)
			altered = append(altered, referenceOf(t, x, row, tokens, 1, n).value)
		}
		references[operands{k.Encoding, k.Activation}] = altered
		seen := 0
		for bit := range 8 * len(block) {
			block[bit/8] ^= 1 << (bit % 8)
			after := p.run(t, k, rows, tokens, false, false)
			block[bit/8] ^= 1 << (bit % 8)
			for i := range after {
				if i%rows != changed && after[i] != before[i] {
					t.Fatalf("bit %d of row %d changed y[%d,%d]", bit, changed, i/rows, i%rows)
				}
			}
			counts := false
			for token := range tokens {
				i := token*rows + changed
				// Long exact rows are far better than their bound: partial sums of sections are short.
				least := min(4*p.bound(token, changed, integer), 320*0x1p-24*float64(p.terms[i]))
				if !(math.Abs(float64(altered[bit][token])-float64(p.value[i])) <= least) {
					counts = true
					if math.Abs(float64(math.Float32frombits(after[i]))-float64(p.value[i])) <= least/4 {
						t.Fatalf("bit %d: y[%d,%d] stayed %g, the reference moved from %g to %g", bit, token, changed,
							math.Float32frombits(after[i]), p.value[i], altered[bit][token])
					}
				}
			}
			if counts {
				seen++
			}
		}
		if e.BlockElements > 1 && seen < 8*len(block)*5/8 || seen == 0 {
			t.Fatalf("only %d of %d bits matter", seen, 8*len(block))
		}
	})
}

// Every pair of an activation code and a weight code is multiplied exactly, also −128 and the sums of the largest
// codes of one sign: 96 equal products under scales that are powers of two lose nothing.
func TestMatMulEveryPairOfCodes(t *testing.T) {
	codes := map[tensor.Encoding]struct {
		count, zero int
		put         func(qs []byte, code int)
	}{
		tensor.Q8_0: {256, 0, func(qs []byte, code int) {
			for i := range qs {
				qs[i] = byte(code)
			}
		}},
		tensor.Q4_0: {16, 8, func(qs []byte, code int) {
			for i := range qs {
				qs[i] = byte(code | code<<4)
			}
		}},
	}
	const n, tokens = 96, 255
	x := newTensor(t, tensor.A8, tokens, n)
	for token := range tokens {
		a8Block(x.bytes[160*token:160*token+160], func(int) float32 { return 0.25 }, func(i int) int8 {
			if i >= n {
				return 0
			}
			return int8(token - 127)
		})
	}
	for e, c := range codes {
		i := info(t, e)
		w := newTensor(t, e, int64(c.count), n)
		for b := range c.count * n / 32 {
			block := w.bytes[b*i.BlockBytes:][:i.BlockBytes]
			binary.LittleEndian.PutUint16(block, 0x3800) // one half
			c.put(block[2:], b/(n/32))
		}
		p := &product{x: x, w: w, tokens: tokens, out: c.count, n: n}
		for _, k := range rowsOf("matmul_t")[e] {
			if k.Activation != tensor.A8 {
				continue
			}
			check := func(token, row int, bits uint32) {
				code := row - c.zero
				if e == tensor.Q8_0 {
					code = int(int8(row))
				}
				if want := float32(n*(token-127)*code) / 8; math.Float32frombits(bits) != want {
					t.Fatalf("%s: %d · %d summed %d times is %g, want %g", k.Name, token-127, code, n, math.Float32frombits(bits), want)
				}
			}
			for i, bits := range p.run(t, k, c.count, tokens, false, false) {
				check(i/c.count, i%c.count, bits)
			}
			for token := range tokens {
				q := &product{x: &testTensor{bytes: x.bytes[160*token:]}, w: w, n: n}
				for row, bits := range q.run(t, k, c.count, 1, true, false) {
					check(token, row, bits)
				}
			}
		}
	}
}

// A scale that is infinite or NaN reaches the elements of its row or token, and no others.
func TestMatMulScalesPropagate(t *testing.T) {
	eachKernel(t, func(t *testing.T, e tensor.EncodingInfo, k kernelRow) {
		if k.Encoding != tensor.Q8_0 && k.Encoding != tensor.Q4_0 {
			return // their blocks begin with the scale
		}
		const rows, tokens, n = 9, 5, 96
		for _, scale := range []uint16{0x7c00, 0xfc00, 0x7e00} {
			r := rand.New(rand.NewPCG(2, 2))
			p := &product{x: activationsOf(t, r, k.Activation, tokens, n), w: weightsOf(t, r, k.Encoding, rows, n), n: n}
			binary.LittleEndian.PutUint16(p.w.bytes[(3*6+1)*e.BlockBytes:], scale) // row 6
			bad := 0                                                               // F32: element 0 of token 1
			if k.Activation == tensor.A8 {
				bad = 4 // scale of its second group
			}
			info := info(t, k.Activation)
			binary.LittleEndian.PutUint32(p.x.bytes[(n+info.BlockElements-1)/info.BlockElements*info.BlockBytes+bad:], 0x7fc00000)
			for _, few := range []int{1, tokens} {
				for i, bits := range p.run(t, k, rows, few, false, false) {
					y := float64(math.Float32frombits(bits))
					token, row := i/rows, i%rows
					if broken := math.IsNaN(y) || math.IsInf(y, 0); broken != (token == 1 || row == 6) {
						t.Fatalf("scale %x: y[%d,%d] is %g", scale, token, row, y)
					}
				}
			}
		}
	})
}

// bits are the words of a dense F32 tensor.
func (x *testTensor) words() []uint32 {
	w := make([]uint32, len(x.bytes)/4)
	for i := range w {
		w[i] = bitsAt(x.bytes, i)
	}
	return w
}

// The operation gives the bits that the body gives, for every number of threads; with three weights of different
// encodings and sizes in one region, and biases.
func TestMatMulIsTheSameForAnyNumberOfThreads(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, activation := range []tensor.Encoding{tensor.EncF32, tensor.A8} {
		encodings := [3]tensor.Encoding{tensor.Q8_0, tensor.Q4_0, tensor.EncF16}
		if activation == tensor.A8 {
			encodings[2] = tensor.Q8_0
		}
		for _, tokens := range []int{1, 5, 70} {
			const n = 608
			outs := [3]int{331, 48, 7}
			x := activationsOf(t, r, activation, tokens, n)
			var w, bias, y [3]*core.View
			var out [3]*testTensor
			var want [3][]uint32
			for i, e := range encodings {
				weight, b := weightsOf(t, r, e, outs[i], n), newTensor(t, tensor.EncF32, int64(outs[i]))
				out[i] = newTensor(t, tensor.EncF32, int64(tokens), int64(outs[i]))
				w[i], y[i] = &weight.View, &out[i].View
				row, st := core.Select(tensor.OpMatMulT, []*core.View{&x.View, w[i], y[i]})
				ok(t, st)
				p := &product{x: x, w: weight, n: n}
				want[i] = p.run(t, kernelRow{core.Kernels()[row], row}, outs[i], tokens, false, false)
				for o := range outs[i] {
					putDense(b.bytes, tensor.EncF32, o, float32(r.NormFloat64()))
				}
				if i != 1 {
					bias[i] = &b.View
					for k, bits := range want[i] {
						want[i][k] = math.Float32bits(math.Float32frombits(bits) + math.Float32frombits(bitsAt(b.bytes, k%outs[i])))
					}
				}
			}
			for _, threads := range []int{1, 2, 3, 7} {
				p, st := core.NewPool(threads, 0)
				ok(t, st)
				defer p.Close()
				for i := range out {
					clear(out[i].bytes)
				}
				ok(t, core.Project(p, nil, &x.View, 3, &w, &bias, &y))
				for i := range out {
					if !slices.Equal(out[i].words(), want[i]) {
						t.Fatalf("%d tokens, %d threads: weight %d (%v) differs from its body", tokens, threads, i, encodings[i])
					}
				}
				clear(out[1].bytes)
				ok(t, core.MatMulT(p, nil, &x.View, w[1], y[1]))
				if !slices.Equal(out[1].words(), want[1]) {
					t.Fatalf("%d tokens, %d threads: matmul_t differs from its body", tokens, threads)
				}
			}
		}
	}
}

// x of one, three and four axes, strided rows of x and y, narrowed rows and columns of w.
func TestMatMulTakesAnyView(t *testing.T) {
	p, r := newPool(t, 2), rand.New(rand.NewPCG(4, 4))
	check := func(what string, x, w, y *testTensor) {
		t.Helper()
		ok(t, core.MatMulT(p, nil, &x.View, &w.View, &y.View))
		lx, ly := x.Layout, y.Layout
		n, last := lx.Shape[lx.Rank-1], int(ly.Rank)-1
		indices(ly, func(index []int64, _ int) {
			sum, terms := 0.0, 0.0
			for k := range n {
				at := slices.Clone(index)
				at[last] = k
				a, st := core.Get(&x.View, at)
				ok(t, st)
				b, st := core.Get(&w.View, []int64{index[last], k})
				ok(t, st)
				sum += a * b
				terms += math.Abs(a * b)
			}
			got, st := core.Get(&y.View, index)
			ok(t, st)
			if !(math.Abs(got-sum) <= float64(n)*0x1p-24*terms) {
				t.Fatalf("%s: y%v is %g, want %g", what, index, got, sum)
			}
		})
	}
	const n, out = 96, 20
	w := weightsOf(t, r, tensor.Q8_0, out+4, 2*n)
	narrow := w.with(t, must(t, w.Layout, func(l tensor.Layout) (tensor.Layout, error) { return l.Narrow(0, 3, out) }), nil)
	narrow = narrow.with(t, must(t, narrow.Layout, func(l tensor.Layout) (tensor.Layout, error) { return l.Narrow(1, 32, n) }), nil)
	fill := func(dims ...int64) *testTensor {
		x := newTensor(t, tensor.EncF32, dims...)
		for k := range len(x.bytes) / 4 {
			putDense(x.bytes, tensor.EncF32, k, float32(r.NormFloat64()))
		}
		return x
	}
	check("vector", fill(n), narrow, newTensor(t, tensor.EncF32, out))
	check("rank 3", fill(2, 3, n), narrow, newTensor(t, tensor.EncF32, 2, 3, out))
	check("rank 4", fill(2, 1, 3, n), narrow, newTensor(t, tensor.EncF32, 2, 1, 3, out))
	x, y := fill(5, n+7), newTensor(t, tensor.EncF32, 5, out+9)
	x.Layout.Shape[1], x.Layout.Offset, y.Layout.Shape[1], y.Layout.Offset = n, 7, out, 4
	check("strided", x, narrow, y)
	x = fill(4, 2, n)
	x.Layout.Shape, x.Layout.Rank, x.Layout.Stride = [4]int64{4, n, 1, 1}, 2, [4]int64{2 * n, 1, 0, 0}
	check("every other row", x, narrow, newTensor(t, tensor.EncF32, 4, out))

	// Leading axes that are not one axis are refused by name, in x and in y.
	x = fill(3, 4, n)
	x.Layout.Shape[1] = 2
	st := core.MatMulT(p, nil, &x.View, &narrow.View, &newTensor(t, tensor.EncF32, 3, 2, out).View)
	fails(t, st, core.ErrLayout, 0)
	y = newTensor(t, tensor.EncF32, 3, 4, out)
	y.Layout.Shape[1] = 2
	fails(t, core.MatMulT(p, nil, &fill(3, 2, n).View, &narrow.View, &y.View), core.ErrLayout, 2)
}

func must(t *testing.T, l tensor.Layout, f func(tensor.Layout) (tensor.Layout, error)) tensor.Layout {
	t.Helper()
	m, err := f(l)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Refusals name the operand, and nothing has been written.
func TestMatMulRefusesByName(t *testing.T) {
	p := newPool(t, 2)
	f32 := func(dims ...int64) *core.View { return &newTensor(t, tensor.EncF32, dims...).View }
	packed := func(e tensor.Encoding, dims ...int64) *core.View { return &newTensor(t, e, dims...).View }
	edit := func(v *core.View, f func(l *tensor.Layout)) *core.View {
		c := *v
		f(&c.Layout)
		return &c
	}
	panels := &ordered(t, tensor.Panels(8), tensor.Q8_0, 16, 96).View
	x, w, y := f32(4, 96), packed(tensor.Q8_0, 16, 96), f32(4, 16)
	cases := []struct {
		what          string
		x, w, y       *core.View
		code, operand int32
		detail        uint64
	}{
		{"no x", nil, w, y, core.ErrArgument, 0, 0},
		{"no w", x, nil, y, core.ErrArgument, 1, 0},
		{"no y", x, w, nil, core.ErrArgument, 2, 0},
		{"inner extents", f32(4, 64), w, y, core.ErrShape, 1, 1},
		{"tokens", x, w, f32(5, 16), core.ErrShape, 2, 0},
		{"outputs", x, w, f32(4, 17), core.ErrShape, 2, 1},
		{"rank of y", x, w, f32(64), core.ErrShape, 2, 1},
		{"rank of w", x, packed(tensor.Q8_0, 2, 8, 96), y, core.ErrShape, 1, 3},
		{"scalar x", edit(f32(1), func(l *tensor.Layout) { l.Rank, l.Stride[0] = 0, 0 }), w, y, core.ErrShape, 0, 0},
		{"y in F16", x, w, packed(tensor.EncF16, 4, 16), core.ErrFormat, 2, 1},
		{"x in F16", packed(tensor.EncF16, 4, 96), w, y, core.ErrFormat, 0, 1},
		{"dense weight, integer activations", packed(tensor.A8, 4, 96), packed(tensor.EncF16, 16, 96), y, core.ErrFormat, 0, 256},
		{"no row", x, packed(tensor.EncF64, 16, 96), y, core.ErrNoKernel, 1, 28<<32 | uint64(tensor.OpMatMulT)},
		{"panels", x, panels, y, core.ErrLayout, 1, 0},
		{"x transposed", edit(f32(96, 4), func(l *tensor.Layout) {
			l.Shape, l.Stride = [4]int64{4, 96, 1, 1}, [4]int64{1, 4, 0, 0}
		}), w, y, core.ErrLayout, 0, 1},
		{"w transposed", x, edit(packed(tensor.Q8_0, 3, 512), func(l *tensor.Layout) {
			l.Shape, l.Stride = [4]int64{16, 96, 1, 1}, [4]int64{1, 16, 0, 0}
		}), y, core.ErrLayout, 1, 1},
		{"y transposed", x, w, edit(f32(16, 4), func(l *tensor.Layout) {
			l.Shape, l.Stride = [4]int64{4, 16, 1, 1}, [4]int64{1, 4, 0, 0}
		}), core.ErrLayout, 2, 1},
		{"y is x", f32(4, 96), packed(tensor.Q8_0, 96, 96), nil, core.ErrOverlap, 2, 0},
	}
	cases[len(cases)-1].y = cases[len(cases)-1].x
	for _, c := range cases {
		st := core.MatMulT(p, nil, c.x, c.w, c.y)
		if st.Code != c.code || st.Operand != c.operand || st.Detail != c.detail {
			t.Errorf("%s: %d at %d, detail %d (%v); want %d at %d, detail %d", c.what, st.Code, st.Operand, st.Detail, st,
				c.code, c.operand, c.detail)
		}
	}
	// The second of three weights cannot: nothing runs.
	first := newTensor(t, tensor.EncF32, 4, 16)
	putDense(first.bytes, tensor.EncF32, 0, 42)
	none := [3]*core.View{}
	st := core.Project(p, nil, x, 3, &[3]*core.View{w, packed(tensor.EncF64, 16, 96), w}, &none, &[3]*core.View{&first.View, f32(4, 16), f32(4, 16)})
	fails(t, st, core.ErrNoKernel, 2)
	if math.Float32frombits(bitsAt(first.bytes, 0)) != 42 {
		t.Error("an output was written by a project that cannot run")
	}
	fails(t, core.Project(p, nil, x, 2, &[3]*core.View{w, w}, &[3]*core.View{nil, f32(17)}, &[3]*core.View{f32(4, 16), f32(4, 16)}), core.ErrShape, 4)
	fails(t, core.Project(p, nil, x, 2, &[3]*core.View{w, w}, &none, &[3]*core.View{f32(4, 16), f32(4, 15)}), core.ErrShape, 6)
	fails(t, core.Project(p, nil, x, 4, &[3]*core.View{w, w, w}, &none, &[3]*core.View{y, y, y}), core.ErrArgument, -1)
}
