package core_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

// rounded is x in an encoding, to nearest even.
func rounded(x float32, e tensor.Encoding) float64 {
	v, bits, least := float64(x), 0, 0
	switch e {
	case tensor.EncF16:
		bits, least = 11, -24
	case tensor.EncBF16:
		bits, least = 8, -133
	default:
		return v
	}
	if v == 0 || v-v != 0 {
		return v
	}
	_, exp := math.Frexp(v)
	unit := math.Ldexp(1, max(exp-bits, least))
	v = math.RoundToEven(v/unit) * unit
	if limit := map[tensor.Encoding]float64{tensor.EncF16: 65504, tensor.EncBF16: 0xff * 0x1p120}[e]; math.Abs(v) > limit {
		return math.Inf(int(math.Copysign(1, v)))
	}
	return v
}

var cacheEncodings = []tensor.Encoding{tensor.EncF32, tensor.EncF16, tensor.EncBF16}

func same(a, b float64) bool { return a == b || a != a && b != b }

func TestKVStoreWritesExactlyItsSlots(t *testing.T) {
	m := newMaker(t, 7)
	for i, dim := range []int{1, 8, 20, 64, 80, 128, 256} {
		for variant := range 9 {
			e := cacheEncodings[variant%3]
			values := func() float32 { // that e holds
				if x := math.Float32frombits(m.r.Uint32()); m.r.IntN(3) == 0 && !overflows(x, e) {
					return x
				}
				return m.normal() * 100
			}
			heads, sequences, capacity := 1+variant%3, 1+variant/3, []int{5, 32, 300}[(i+variant)%3]
			tokens, v_dim := []int{1, 4, 200}[i%3], dim+variant%2*4
			tokens = min(tokens, capacity*sequences)
			k, v := m.make(tensor.EncF32, variant%3, tokens, heads, dim).fill(values), m.make(tensor.EncF32, variant%2, tokens, heads, v_dim).fill(values)
			kc, vc := m.make(e, variant%2*8, sequences, heads, capacity, dim), m.make(e, variant%3, sequences, heads, capacity, v_dim)
			positions, ids := m.make(tensor.EncI32, 0, tokens), m.make(tensor.EncI32, 0, tokens)
			next := make([]int, sequences)
			for s := range next {
				next[s] = m.r.IntN(1000)
			}
			count := make([]int, sequences)
			where := map[[2]int]int{}
			for n := range tokens {
				s := m.r.IntN(sequences)
				for count[s] == capacity {
					s = (s + 1) % sequences
				}
				positions.setInt(next[s], n)
				ids.setInt(s, n)
				where[[2]int{s, next[s] % capacity}] = n
				next[s]++
				count[s]++
			}
			seq := ids
			if sequences == 1 && variant%2 == 0 {
				seq = nil
			}
			m.everywhere(func(p *core.Pool) core.Status {
				return core.KVStore(p, nil, k.v(), v.v(), positions.v(), seq.v(), kc.v(), vc.v())
			}, kc, vc)
			m.judge(tensor.OpKVStore, []*operand{k, v, positions, seq, kc, vc}, append(kc.samples(), vc.samples()...), func(wrong coretest.Wrong) {
				for _, c := range []struct{ in, cache *operand }{{k, kc}, {v, vc}} {
					c.cache.each(func(index []int) {
						n, stored := where[[2]int{index[0], index[2]}]
						got := c.cache.value(index...)
						if !stored {
							if slices.ContainsFunc(c.cache.at(index...), func(b byte) bool { return b != 0xff }) {
								wrong("slot %v was written", index)
							}
						} else if want := rounded(c.in.f32(n, index[1], index[3]), e); !same(got, want) {
							wrong("%v%v = %g, want %g of %g", e, index, got, want, c.in.f32(n, index[1], index[3]))
						}
					})
				}
			})
			// Refused before anything is written.
			refuse := func(operand int32, detail int, what string) {
				t.Helper()
				a, b := slices.Clone(kc.mem), slices.Clone(vc.mem)
				st := core.KVStore(densePool(t, 2), nil, k.v(), v.v(), positions.v(), seq.v(), kc.v(), vc.v())
				if st != (core.Status{Code: core.ErrIndex, Operand: operand, Detail: uint64(detail)}) {
					t.Fatalf("%s: %+v %v", what, st, st)
				}
				if !slices.Equal(a, kc.mem) || !slices.Equal(b, vc.mem) {
					t.Fatalf("%s: written", what)
				}
			}
			last := tokens - 1
			kept := slices.Clone(positions.mem)
			positions.setInt(-5, last)
			refuse(2, last, "negative position")
			copy(positions.mem, kept)
			if last > 0 { // the slot of the first token again, one or more turns of the ring later
				positions.setInt(int(binary.LittleEndian.Uint32(kept))+3*capacity, last)
				keptIDs := slices.Clone(ids.mem)
				copy(ids.at(last), ids.at(0))
				refuse(2, last, "slot twice")
				copy(ids.mem, keptIDs)
				copy(positions.mem, kept)
			}
			if seq != nil {
				ids.setInt(sequences, last)
				refuse(3, last, "sequence out of range")
				ids.setInt(-1, 0)
				refuse(3, 0, "negative sequence")
			}
		}
	}
}

// overflows reports whether x is finite and e rounds it to infinity.
func overflows(x float32, e tensor.Encoding) bool {
	return !math.IsInf(float64(x), 0) && math.IsInf(rounded(x, e), 0)
}

// A finite key or value that the cache rounds to infinity is an error with its place, the first of the keys before the
// values; what is infinite or undefined is stored as it is, and so is the largest number that does not overflow.
func TestKVStoreRefusesWhatTheCacheCannotHold(t *testing.T) {
	m := newMaker(t, 11)
	const tokens, capacity = 6, 32
	for _, c := range []struct {
		e              tensor.Encoding
		beyond, within float32
	}{
		{tensor.EncF16, 65520, math.Nextafter32(65520, 0)},
		{tensor.EncF16, -7e4, -65504},
		{tensor.EncF16, math.MaxFloat32, float32(math.Inf(1))},
		{tensor.EncBF16, math.MaxFloat32, math.Float32frombits(0x7f7f7fff)},
		{tensor.EncBF16, math.Float32frombits(0xff7f8000), float32(math.Inf(-1))},
		{tensor.EncF32, float32(math.NaN()), -math.MaxFloat32},
	} {
		for _, dim := range []int{1, 8, 13, 64} {
			for heads := 1; heads <= 3; heads++ {
				in := [2]*operand{m.make(tensor.EncF32, 1, tokens, heads, dim), m.make(tensor.EncF32, 0, tokens, heads, dim+2)}
				kc, vc := m.make(c.e, 0, 1, heads, capacity, dim), m.make(c.e, 0, 1, heads, capacity, dim+2)
				positions := m.make(tensor.EncI32, 0, tokens)
				for n := range tokens {
					positions.setInt(40+n, n)
				}
				for i := range in {
					in[i].fill(func() float32 { return m.normal() })
				}
				store := func(p *core.Pool) core.Status {
					return core.KVStore(p, nil, in[0].v(), in[1].v(), positions.v(), nil, kc.v(), vc.v())
				}
				place := func(i int) [3]int { return [3]int{m.r.IntN(tokens), m.r.IntN(heads), m.r.IntN(dim + 2*i)} }
				set := func(i int, x float32, at [3]int) { in[i].set(x, at[:]...) }
				for i := range in {
					set(i, c.within, place(i))
					set(i, float32(math.NaN()), place(i))
				}
				for _, threads := range []int{1, 3} {
					m.ok(store(densePool(t, threads)))
				}
				for i := range 2 { // values first, then keys as well
					i = 1 - i
					first := -1
					for range 3 {
						at := place(i)
						set(i, c.beyond, at)
						if flat := (at[0]*heads+at[1])*(dim+2*i) + at[2]; first < 0 || flat < first {
							first = flat
						}
					}
					want := core.Status{Code: core.ErrValue, Operand: int32(i), Detail: uint64(first)}
					if c.e == tensor.EncF32 {
						want = core.Status{Operand: -1}
					}
					for _, threads := range []int{1, 3} {
						if st := store(densePool(t, threads)); st != want {
							t.Fatalf("%s, %d heads of %d: %+v, want %+v", c.e, heads, dim, st, want)
						}
					}
				}
			}
		}
	}
}

// Whether a run meets itself or another is found without comparing all pairs; here against all pairs.
func TestKVStoreFindsEverySlotUsedTwice(t *testing.T) {
	m := newMaker(t, 8)
	found := 0
	for range 3000 {
		m.scope(func() {
			tokens, capacity, sequences := 1+m.r.IntN(9), 1+m.r.IntN(12), 1+m.r.IntN(2)
			k, kc := m.make(tensor.EncF32, 0, tokens, 1, 1).fill(m.normal), m.make(tensor.EncF32, 0, sequences, 1, capacity, 1)
			vc := m.make(tensor.EncF32, 0, sequences, 1, capacity, 1)
			positions, ids := m.make(tensor.EncI32, 0, tokens), m.make(tensor.EncI32, 0, tokens)
			used, twice := map[[2]int]bool{}, false
			p, s := m.r.IntN(50), 0
			for n := range tokens {
				if p++; m.r.IntN(3) == 0 {
					p, s = m.r.IntN(50), m.r.IntN(sequences)
				}
				positions.setInt(p, n)
				ids.setInt(s, n)
				at := [2]int{s, p % capacity}
				twice = twice || used[at]
				used[at] = true
			}
			st := core.KVStore(densePool(t, 1), nil, k.v(), k.v(), positions.v(), ids.v(), kc.v(), vc.v())
			if want := map[bool]int32{true: core.ErrIndex, false: core.OK}[twice]; st.Code != want {
				m.t.Fatalf("%d tokens, capacity %d: %v, want code %d", tokens, capacity, st, want)
			}
			if twice {
				found++
			}
		})
	}
	if found < 500 || found > 2500 {
		t.Error("one-sided test:", found)
	}
}
