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

// attention is one case of skeep_attend and its caches.
type attention struct {
	q, kc, vc, positions, ids, y *operand
	p                            tensor.AttendParams
	group                        int
}

type attentionShape struct {
	dim, vDim, kvHeads, group, capacity, sequences int
	e                                              tensor.Encoding
	p                                              tensor.AttendParams
	first                                          []int // position of each sequence's first token of the step
	tokens                                         []int // how many
	interleaved, shuffled                          bool
}

// attention stores keys and values for every position that is still in the ring after the step.
func (m *maker) attention(s attentionShape) *attention {
	total := 0
	for _, n := range s.tokens {
		total += n
	}
	a := &attention{p: s.p, group: s.group}
	a.q = m.make(tensor.EncF32, m.r.IntN(4), total, s.kvHeads*s.group, s.dim).fill(m.normal)
	a.y = m.make(tensor.EncF32, m.r.IntN(4), total, s.kvHeads*s.group, s.vDim)
	a.kc = m.make(s.e, m.r.IntN(4), s.sequences, s.kvHeads, s.capacity, s.dim)
	a.vc = m.make(s.e, m.r.IntN(4), s.sequences, s.kvHeads, s.capacity, s.vDim)
	a.positions, a.ids = m.make(tensor.EncI32, 0, total), m.make(tensor.EncI32, 0, total)
	n := 0
	for round := 0; n < total; round++ {
		for q := range s.tokens {
			if s.interleaved {
				if round < s.tokens[q] {
					a.positions.setInt(s.first[q]+round, n)
					a.ids.setInt(q, n)
					n++
				}
			} else if round == 0 {
				for i := range s.tokens[q] {
					a.positions.setInt(s.first[q]+i, n)
					a.ids.setInt(q, n)
					n++
				}
			}
		}
	}
	if s.shuffled {
		m.r.Shuffle(total, func(i, j int) {
			for _, o := range []*operand{a.positions, a.ids} {
				x, y := binary.LittleEndian.Uint32(o.at(i)), binary.LittleEndian.Uint32(o.at(j))
				o.setInt(int(y), i)
				o.setInt(int(x), j)
			}
		})
	}
	for q := range s.tokens {
		last := s.first[q] + s.tokens[q] - 1
		for from := max(0, last-s.capacity+1); from <= last; {
			count := min(last-from+1, s.capacity-from%s.capacity)
			k, v := m.make(tensor.EncF32, 0, count, s.kvHeads, s.dim).fill(m.normal), m.make(tensor.EncF32, 0, count, s.kvHeads, s.vDim).fill(m.normal)
			positions, ids := m.make(tensor.EncI32, 0, count), m.make(tensor.EncI32, 0, count)
			for i := range count {
				positions.setInt(from+i, i)
				ids.setInt(q, i)
			}
			m.ok(core.KVStore(densePool(m.t, 1), nil, k.v(), v.v(), positions.v(), ids.v(), a.kc.v(), a.vc.v()))
			from += count
		}
	}
	return a
}

func (a *attention) run(p *core.Pool) core.Status {
	return core.Attend(p, nil, a.q.v(), a.kc.v(), a.vc.v(), a.positions.v(), a.ids.v(), a.p, a.y.v())
}

// want is the reference of one row over the positions [lo+dlo, hi+dhi), in float64, and the error that its scores
// may cause.
func (a *attention) want(token, head, dlo, dhi int) (y []float64, bound float64) {
	p, s, g := int(binary.LittleEndian.Uint32(a.positions.at(token))), int(binary.LittleEndian.Uint32(a.ids.at(token))), head/a.group
	lo, hi := 0, p+1
	if w := int(a.p.Window); w > 0 {
		lo = max(0, p-w+1)
	}
	lo, hi = max(lo+dlo, 0), hi+dhi
	capacity, dim, vDim := a.kc.shape[2], a.q.shape[2], a.vc.shape[3]
	scores := make([]float64, hi-lo)
	largest := 0.0
	for j := range scores {
		magnitude := 0.0
		for d := range dim {
			x := float64(a.q.f32(token, head, d)) * a.kc.value(s, g, (lo+j)%capacity, d)
			scores[j] += x
			magnitude += math.Abs(x)
		}
		scores[j] *= float64(a.p.Scale)
		if c := float64(a.p.Softcap); c > 0 {
			scores[j] = c * math.Tanh(scores[j]/c)
		}
		largest = max(largest, magnitude*math.Abs(float64(a.p.Scale)))
	}
	top, sum := slices.Max(scores), 0.0
	for j := range scores {
		scores[j] = math.Exp(scores[j] - top)
		sum += scores[j]
	}
	y = make([]float64, vDim)
	for d := range vDim {
		magnitude := 0.0
		for j := range scores {
			x := scores[j] / sum * a.vc.value(s, g, (lo+j)%capacity, d)
			y[d] += x
			magnitude += math.Abs(x)
		}
		bound = max(bound, magnitude)
	}
	return y, bound * (1e-6 + 3e-7*largest)
}

// check compares rows with the reference: all of them when there are few, else some.
func (a *attention) check(m *maker) (sensitive int) {
	m.t.Helper()
	tokens, heads, vDim := a.q.shape[0], a.q.shape[1], a.y.shape[2]
	ends := [][]byte{a.y.at(tokens-1, heads-1, 0), a.y.at(tokens-1, heads-1, vDim-1)}
	m.judge(tensor.OpAttend, []*operand{a.q, a.kc, a.vc, a.positions, a.ids, a.y}, ends, func(wrong coretest.Wrong) {
		sensitive = a.compare(m, wrong)
	})
	return sensitive
}

func (a *attention) compare(m *maker, wrong coretest.Wrong) (sensitive int) {
	m.t.Helper()
	tokens, heads := a.q.shape[0], a.q.shape[1]
	for n := range tokens * heads {
		if tokens*heads > 20 && n < tokens*heads-4 && m.r.IntN(tokens*heads) > 16 {
			continue
		}
		token, head := n/heads, n%heads
		want, bound := a.want(token, head, 0, 0)
		for d, w := range want {
			if got := float64(a.y.f32(token, head, d)); !(math.Abs(got-w) <= bound) {
				wrong("token %d head %d: y[%d] = %g, want %g ± %g", token, head, d, got, w, bound)
			}
		}
		// A mask that is off by one must not pass.
		p := int(binary.LittleEndian.Uint32(a.positions.at(token)))
		lo := 0
		if w := int(a.p.Window); w > 0 {
			lo = max(0, p-w+1)
		}
		for _, mutant := range [][2]int{{0, -1}, {1, 0}} {
			if p+1-lo < 2 || sensitive > 12 {
				continue
			}
			other, _ := a.want(token, head, mutant[0], mutant[1])
			differs := false
			for d := range want {
				differs = differs || math.Abs(other[d]-want[d]) > 2*bound
			}
			if differs {
				sensitive++
			}
		}
	}
	return sensitive
}

func TestAttendSeesExactlyItsWindow(t *testing.T) {
	m := newMaker(t, 9)
	window := func(n uint32) tensor.AttendParams { return tensor.AttendParams{Scale: 0.3, Window: n} }
	full := tensor.AttendParams{Scale: 0.3}
	for i, s := range []attentionShape{
		{dim: 1, vDim: 1, kvHeads: 1, group: 1, capacity: 7, p: full, first: []int{0}, tokens: []int{7}},
		{dim: 8, vDim: 8, kvHeads: 2, group: 4, capacity: 64, p: full, first: []int{0}, tokens: []int{64}},
		{dim: 20, vDim: 20, kvHeads: 3, group: 1, capacity: 100, p: full, first: []int{61}, tokens: []int{39}},
		{dim: 64, vDim: 64, kvHeads: 2, group: 8, capacity: 160, p: full, first: []int{0}, tokens: []int{130}},
		{dim: 64, vDim: 64, kvHeads: 2, group: 1, capacity: 40, p: window(9), first: []int{0}, tokens: []int{30}},
		{dim: 64, vDim: 64, kvHeads: 2, group: 4, capacity: 40, p: window(9), first: []int{1000}, tokens: []int{31}},
		{dim: 80, vDim: 80, kvHeads: 1, group: 8, capacity: 64, p: window(64), first: []int{777}, tokens: []int{1}},
		{dim: 80, vDim: 20, kvHeads: 1, group: 4, capacity: 64, p: window(33), first: []int{90}, tokens: []int{32}},
		{dim: 128, vDim: 128, kvHeads: 2, group: 4, capacity: 700, p: tensor.AttendParams{Scale: 0.1, Softcap: 3}, first: []int{600}, tokens: []int{5}},
		{dim: 256, vDim: 256, kvHeads: 1, group: 8, capacity: 96, p: window(1), first: []int{50}, tokens: []int{9}},
		{dim: 64, vDim: 64, kvHeads: 2, group: 2, capacity: 1200, p: full, first: []int{1100}, tokens: []int{100}},
		{dim: 24, vDim: 24, kvHeads: 1, group: 71, capacity: 90, p: full, first: []int{70}, tokens: []int{3}},
		{dim: 64, vDim: 64, kvHeads: 2, group: 4, capacity: 128, sequences: 5, p: full, first: []int{0, 127, 64, 3, 63}, tokens: []int{1, 1, 1, 1, 1}},
		{dim: 64, vDim: 64, kvHeads: 1, group: 4, capacity: 128, sequences: 3, p: window(50), first: []int{0, 300, 77}, tokens: []int{20, 40, 1}},
		{dim: 16, vDim: 16, kvHeads: 1, group: 2, capacity: 70, sequences: 3, p: full, first: []int{0, 30, 50}, tokens: []int{20, 40, 9}, interleaved: true},
		{dim: 16, vDim: 16, kvHeads: 1, group: 1, capacity: 5000, p: full, first: []int{4090}, tokens: []int{12}}, // chunks grow here
		{dim: 8, vDim: 8, kvHeads: 1, group: 1, capacity: 9000, p: window(4097), first: []int{8000}, tokens: []int{40}},
	} {
		for _, s.e = range cacheEncodings {
			s.sequences = max(s.sequences, 1)
			a := m.attention(s)
			m.everywhere(a.run, a.y)
			tested := a.check(m)
			if few := min(s.tokens[0], 4); tested < few && s.p.Window != 1 {
				t.Errorf("case %d: only %d rows would notice a mask that is off by one", i, tested)
			}
			m.alone(a)
		}
	}
}

// alone runs each token by itself, on one thread and on many, and insists on the bits it had among the others.
func (m *maker) alone(a *attention) {
	m.t.Helper()
	heads, vDim := a.q.shape[1], a.vc.shape[3]
	for n := range a.q.shape[0] {
		if a.q.shape[0] > 40 && m.r.IntN(10) > 0 {
			continue
		}
		one := &attention{q: a.q.row(n), kc: a.kc, vc: a.vc, positions: a.positions.row(n), ids: a.ids.row(n), p: a.p}
		one.y = m.make(tensor.EncF32, 2, 1, heads, vDim)
		for _, threads := range []int{1, 7} {
			m.ok(one.run(densePool(m.t, threads)))
			for h := range heads {
				for d := range vDim {
					if x, y := one.y.f32(0, h, d), a.y.f32(n, h, d); math.Float32bits(x) != math.Float32bits(y) {
						m.t.Fatalf("token %d head %d alone on %d threads: y[%d] = %g, among others %g", n, h, threads, d, x, y)
					}
				}
			}
		}
	}
}

// Sizes at random, most of them small.
func TestAttendOfRandomShapesAgreesWithFloat64(t *testing.T) {
	m := newMaker(t, 10)
	for range 60 {
		s := attentionShape{dim: 1 + m.r.IntN(40), kvHeads: 1 + m.r.IntN(3), group: 1 + m.r.IntN(5),
			sequences: 1 + m.r.IntN(3), e: cacheEncodings[m.r.IntN(3)], interleaved: m.r.IntN(2) == 0, shuffled: m.r.IntN(3) == 0}
		s.vDim = s.dim
		s.p.Scale = m.r.Float32()
		if m.r.IntN(3) == 0 {
			s.p.Softcap = 1 + 5*m.r.Float32()
		}
		longest := 0
		for range s.sequences {
			s.tokens = append(s.tokens, 1+m.r.IntN(40))
			longest = max(longest, s.tokens[len(s.tokens)-1])
			s.first = append(s.first, m.r.IntN(200))
		}
		if m.r.IntN(2) == 0 {
			s.p.Window = uint32(1 + m.r.IntN(90))
			s.capacity = int(s.p.Window) + longest - 1 + m.r.IntN(2)
		} else {
			s.capacity = 240
		}
		a := m.attention(s)
		m.everywhere(a.run, a.y)
		a.check(m)
		m.alone(a)
	}
}

// Every instruction set with fused multiplications gives the same bits: for one query row and many, also an odd number, any widths, windows, caches
// that wrap around, softcaps, and products that overflow.
func TestAttendHasTheSameBitsWhateverTheWidthOfVectors(t *testing.T) {
	r := rand.New(rand.NewPCG(30, 1))
	for _, e := range cacheEncodings {
		rows := map[int]string{}
		for i, k := range core.Kernels() {
			if k.Op == tensor.OpAttend && k.Encoding == e && k.Runnable && k.ISA != "portable" {
				rows[i] = k.ISA
			}
		}
		info, _ := e.Info()
		size := info.BlockBytes
		for n := range 300 {
			a := coretest.AttendTile{Size: size, KDim: 1 + r.IntN(136), VDim: 1 + r.IntN(136), Capacity: 64 + r.IntN(500), End: 512,
				Heads: 1 + r.IntN(9), Scale: 0.3, Shrink: 1}
			if n%3 == 0 {
				a.KDim, a.VDim = 64, 64*(1+r.IntN(2))
			}
			if n%5 == 0 {
				a.Softcap = 5
			}
			if n%7 == 0 {
				a.Shrink = 0x1p-32
			}
			random := func(n int, large float64) []byte {
				b := make([]byte, n*size)
				for i := range n {
					x := math.Float32bits(float32(r.NormFloat64() * large))
					switch e {
					case tensor.EncF32:
						binary.LittleEndian.PutUint32(b[4*i:], x)
					case tensor.EncBF16:
						binary.LittleEndian.PutUint16(b[2*i:], uint16(x>>16))
					default: // F16: exponents up to 1
						binary.LittleEndian.PutUint16(b[2*i:], uint16(r.Uint32()&0xbfff))
					}
				}
				return b
			}
			large := 1.0
			if n%11 == 0 {
				large = 0x1p125
			}
			a.K, a.V = random(a.Capacity*a.KDim, large), random(a.Capacity*a.VDim, 1)
			last := r.IntN(400)
			for token := range 1 + r.IntN(32/a.Heads) {
				hi := int64(last + token + 1)
				if n%4 == 0 {
					hi = int64(1 + r.IntN(last+1)) // tokens that have little in common
				}
				window := int64(a.Capacity)
				if n%2 == 0 {
					window = int64(1 + r.IntN(100))
				}
				a.Lo, a.Hi = append(a.Lo, max(0, hi-window)), append(a.Hi, hi)
			}
			for range len(a.Lo) * a.Heads * a.KDim {
				a.Q = append(a.Q, float32(r.NormFloat64()))
			}
			var want []uint32
			var of string
			for i, isa := range rows {
				largest, sum, acc, err := coretest.RunAttend(i, a)
				if err != nil {
					t.Fatal(err)
				}
				var got []uint32
				for _, x := range slices.Concat(largest, sum, acc) {
					got = append(got, math.Float32bits(x))
				}
				if want == nil {
					want, of = got, isa
				} else if !slices.Equal(got, want) {
					t.Errorf("%s, case %d: %s and %s differ: %d heads, %d tokens, widths %d and %d", e, n, isa, of, a.Heads, len(a.Lo), a.KDim, a.VDim)
				}
			}
		}
	}
}

// A position that the ring has overwritten is refused, exactly from the first one on.
func TestAttendRefusesOverwrittenPositions(t *testing.T) {
	m := newMaker(t, 11)
	for _, c := range []struct {
		capacity, window, first, tokens int
		ok                              bool
	}{
		{10, 0, 0, 10, true}, {10, 0, 9, 1, true}, {10, 0, 10, 1, false}, {10, 0, 3, 8, false},
		{10, 100, 5, 5, true}, {10, 100, 10, 1, false},
		{10, 10, 500, 1, true}, {10, 11, 500, 1, false}, {10, 10, 500, 2, false}, {10, 6, 500, 5, true}, {10, 6, 500, 6, false},
	} {
		a := m.attention(attentionShape{dim: 8, vDim: 8, kvHeads: 1, group: 1, capacity: c.capacity, sequences: 1,
			p: tensor.AttendParams{Scale: 1, Window: uint32(c.window)}, first: []int{c.first}, tokens: []int{c.tokens}})
		st := a.run(densePool(t, 2))
		if c.ok {
			m.ok(st)
			a.check(m)
		} else if st != (core.Status{Code: core.ErrShape, Operand: 1, Detail: 2}) {
			t.Errorf("%+v: %v", c, st)
		}
		if c.ok { // no sequences: all are 0
			want := a.y.bits()
			m.ok(core.Attend(densePool(t, 1), nil, a.q.v(), a.kc.v(), a.vc.v(), a.positions.v(), nil, a.p, a.y.v()))
			if !slices.Equal(want, a.y.bits()) {
				t.Error("absent sequences differ from zeros")
			}
		}
	}
	// Another sequence's later position overwrites nothing of this one.
	a := m.attention(attentionShape{dim: 8, vDim: 8, kvHeads: 1, group: 1, capacity: 40, sequences: 2,
		p: tensor.AttendParams{Scale: 1, Window: 20}, first: []int{500, 10}, tokens: []int{3, 10}})
	m.ok(a.run(densePool(t, 2)))
	a.check(m)
}

// Values that nobody may see do not reach a result, and those that are seen do.
func TestAttendPropagatesSpecialValues(t *testing.T) {
	m := newMaker(t, 12)
	s := attentionShape{dim: 16, vDim: 16, kvHeads: 1, group: 1, capacity: 64, sequences: 1, p: tensor.AttendParams{Scale: 1},
		first: []int{0}, tokens: []int{40}}
	a := m.attention(s)
	for d := range 16 {
		a.vc.set(float32(math.Inf(1)), 0, 0, 20, d) // seen by tokens 20 .. 39
	}
	m.ok(a.run(densePool(t, 2)))
	for n := range 40 {
		if got := float64(a.y.f32(n, 0, 3)); math.IsInf(got, 1) != (n >= 20) || got != got {
			t.Fatalf("token %d: %g", n, got)
		}
	}
	m.alone(a)
	a = m.attention(s)
	a.kc.set(float32(math.NaN()), 0, 0, 20, 5)
	m.ok(a.run(densePool(t, 2)))
	for n := range 40 {
		if got := a.y.f32(n, 0, 3); (got != got) != (n >= 20) {
			t.Fatalf("token %d: %g", n, got)
		}
	}
	// Scores of -inf weigh nothing, even when a whole block or chunk begins with them; nothing but them has no
	// distribution.
	for _, infinite := range []int{10, 64, 130, 700, 1100} {
		s := s
		s.capacity, s.first, s.tokens = infinite+60, []int{infinite - 5}, []int{40}
		a := m.attention(s)
		for n := range 40 {
			a.q.set(1, n, 0, 0)
		}
		for n := range infinite {
			a.kc.set(float32(math.Inf(-1)), 0, 0, n, 0)
		}
		m.ok(a.run(densePool(t, 2)))
		for n := range 40 {
			if got := a.y.f32(n, 0, 3); (got != got) != (n < 5) {
				t.Fatalf("%d infinite scores, %d finite: %g", infinite, max(0, n-4), got)
			}
		}
		m.alone(a)
	}
	a = m.attention(s)
	a.p.Scale = -40 // a large spread of scores
	m.ok(a.run(densePool(t, 2)))
	a.check(m)
	for _, scale := range []float32{1e-42, -1e-42} { // q.k overflows, the score does not
		a = m.attention(s)
		a.p.Scale = scale
		a.q.fill(func() float32 { return 1e36 * m.normal() })
		a.kc.fill(func() float32 { return 1e6 * m.normal() })
		m.ok(a.run(densePool(t, 2)))
		a.check(m)
		m.alone(a)
	}
}
