package core_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// TestIndicesThatChangeMeanwhile runs every operation on index data that another thread switches between right ones and
// numbers far out of range: it is right or refused, and nothing outside of its tensors is touched (they lie at guard
// pages).
func TestIndicesThatChangeMeanwhile(t *testing.T) {
	const T, n, capacity = 600, 40, 700 // more tokens than are read at a time
	m := newMaker(t, 21)
	p := densePool(t, 2)
	ints := func(f func(i int) int) *operand {
		o := m.make(tensor.EncI32, 0, T)
		for i := range T {
			o.setInt(f(i), i)
		}
		return o
	}
	f := func(shape ...int) *operand { return m.make(tensor.EncF32, 0, shape...).fill(m.normal) }
	table, x, q, k, v := f(50, n), f(T, 2, n), f(T, 2, n), f(T, 1, n), f(T, 1, n)
	factors := m.make(tensor.EncF32, 0, n/2).fill(func() float32 { return 1 + m.r.Float32() })
	ids, positions, sequences := ints(func(i int) int { return i * i % 50 }), ints(func(i int) int { return i }), ints(func(int) int { return 1 })
	rope := tensor.RopeParams{Dims: n, Base: 100, Scale: 1, AttnFactor: 1}
	kCache, vCache := f(2, 1, capacity, n), f(2, 1, capacity, n)
	for name, c := range map[string]struct {
		y    []*operand
		flip []*operand
		run  func() core.Status
	}{
		"embed":  {[]*operand{m.make(tensor.EncF32, 0, T, n)}, []*operand{ids}, nil},
		"rope":   {[]*operand{m.make(tensor.EncF32, 0, T, 2, n)}, []*operand{positions, factors}, nil},
		"store":  {[]*operand{kCache, vCache}, []*operand{positions, sequences}, nil},
		"attend": {[]*operand{m.make(tensor.EncF32, 0, T, 2, n)}, []*operand{positions, sequences}, nil},
	} {
		switch name {
		case "embed":
			c.run = func() core.Status { return core.Embed(p, nil, table.v(), ids.v(), 1, c.y[0].v()) }
		case "rope":
			c.run = func() core.Status { return core.Rope(p, nil, x.v(), positions.v(), factors.v(), rope, c.y[0].v()) }
		case "store":
			c.run = func() core.Status {
				return core.KVStore(p, nil, k.v(), v.v(), positions.v(), sequences.v(), kCache.v(), vCache.v())
			}
		case "attend":
			c.run = func() core.Status {
				return core.Attend(p, nil, q.v(), kCache.v(), vCache.v(), positions.v(), sequences.v(), tensor.AttendParams{Scale: 0.3}, c.y[0].v())
			}
		}
		t.Run(name, func(t *testing.T) {
			m.ok(c.run())
			var want [][]byte
			for _, y := range c.y {
				want = append(want, bytes.Clone(y.mem))
			}
			right, refused := 0, 0
			for _, o := range c.flip {
				var at int32 = int32(o.shape[0] - 1) // the last is read last
				word := (*uint32)(unsafe.Pointer(&o.at(int(at))[0]))
				good := *word
				var stop atomic.Bool
				var done sync.WaitGroup
				done.Go(func() {
					for i := uint32(0); !stop.Load(); i++ {
						bad := []uint32{1 << 30, 0x80000000, math.MaxInt32, 0xfffffff0}[i%4]
						if name == "attend" || name == "rope" || name == "store" && o == positions {
							bad |= 1 << 31 // a large position is one, too
						}
						if o == factors {
							bad = math.Float32bits([]float32{0, 1e-30, float32(math.NaN())}[i%3])
						}
						for range i % 512 {
							store(word, bad)
						}
						for range i % 1024 {
							store(word, good)
						}
					}
				})
				for range 200 {
					switch st := c.run(); st.Code {
					case core.OK:
						right++
						for i, y := range c.y {
							if !bytes.Equal(y.mem, want[i]) {
								t.Fatalf("output %d is wrong, without an error", i)
							}
						}
					case core.ErrIndex, core.ErrValue:
						refused++
					default:
						t.Fatal(st)
					}
				}
				stop.Store(true)
				done.Wait()
				binary.LittleEndian.PutUint32(o.at(int(at)), good)
			}
			t.Logf("%d right, %d refused", right, refused)
		})
	}
}

// store is a store that the race detector does not watch: the kernels read in C.
//
//go:norace
//go:noinline
func store(p *uint32, v uint32) { *(*uint32)(p) = v }

// TestParametersOutOfRangeAreRefused refuses each parameter that makes no sense, by its place, before anything is written.
func TestParametersOutOfRangeAreRefused(t *testing.T) {
	m := newMaker(t, 22)
	p := densePool(t, 1)
	f := func(shape ...int) *operand { return m.make(tensor.EncF32, 0, shape...).fill(m.normal) }
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	y := f(3, 8)
	ids := m.make(tensor.EncI32, 0, 3)
	for i := range 3 {
		ids.setInt(i, i)
	}
	each := func(name string, detail uint64, run func(v float32) core.Status, values ...float32) {
		t.Helper()
		before := y.bits()
		for _, v := range values {
			if st := run(v); st != (core.Status{Code: core.ErrArgument, Operand: -1, Detail: detail}) {
				t.Errorf("%s %g: %+v", name, v, st)
			}
		}
		for i, b := range y.bits() {
			if b != before[i] {
				t.Fatalf("%s: y was written", name)
			}
		}
	}
	each("embed scale", 4, func(v float32) core.Status { return core.Embed(p, nil, f(4, 8).v(), ids.v(), v, y.v()) }, nan, inf, -inf)
	each("norm eps", 6, func(v float32) core.Status {
		return core.Norm(p, nil, f(3, 8).v(), nil, f(8).v(), nil, v, nil, y.v())
	}, nan, inf, -inf, -1, -1e-42)
	each("softmax scale", 3, func(v float32) core.Status { return core.Softmax(p, nil, f(3, 8).v(), v, y.v()) }, nan, inf, -inf)
	each("softcap", 3, func(v float32) core.Status { return core.Softcap(p, nil, f(3, 8).v(), v, y.v()) }, nan, inf, -inf, 0, -1)
	yRope, x := f(3, 1, 8), f(3, 1, 8)
	rope := func(set func(r *tensor.RopeParams, v float32)) func(v float32) core.Status {
		return func(v float32) core.Status {
			r := tensor.RopeParams{Dims: 8, Base: 10000, Scale: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1, OriginalContext: 4096}
			set(&r, v)
			return core.Rope(p, nil, x.v(), ids.v(), nil, r, yRope.v())
		}
	}
	each("rope base", 8, rope(func(r *tensor.RopeParams, v float32) { r.Base = v }), nan, inf, 0, -1, 1e-9, 1e-38)
	each("rope scale", 12, rope(func(r *tensor.RopeParams, v float32) { r.Scale = v }), nan, inf, 1e20, -1e20, 3000)
	each("rope ext_factor", 16, rope(func(r *tensor.RopeParams, v float32) { r.ExtFactor, r.Scale = v, 0.25 }), nan, inf, 1e20, -1e20)
	each("rope attn_factor", 20, rope(func(r *tensor.RopeParams, v float32) { r.AttnFactor = v }), nan, inf)
	each("rope beta_fast", 24, rope(func(r *tensor.RopeParams, v float32) { r.ExtFactor, r.BetaFast = 1, v }), nan, inf, 0, -1)
	each("rope beta_slow", 28, rope(func(r *tensor.RopeParams, v float32) { r.ExtFactor, r.BetaSlow = 1, v }), nan, inf, 0, -1)
	each("rope original_context", 32, rope(func(r *tensor.RopeParams, v float32) { r.ExtFactor, r.OriginalContext = 1, 0 }), 0)
	q, cache := f(3, 2, 8), f(1, 2, 16, 8)
	attend := func(set func(a *tensor.AttendParams, v float32)) func(v float32) core.Status {
		return func(v float32) core.Status {
			a := tensor.AttendParams{Scale: 1}
			set(&a, v)
			return core.Attend(p, nil, q.v(), cache.v(), cache.v(), ids.v(), nil, a, f(3, 2, 8).v())
		}
	}
	each("attend scale", 0, attend(func(a *tensor.AttendParams, v float32) { a.Scale = v }), nan, inf, -inf)
	each("attend softcap", 4, attend(func(a *tensor.AttendParams, v float32) { a.Softcap = v }), nan, inf, -1)

	// A position whose angles leave the range where they can be reduced, and factors that do.
	fast := rope(func(r *tensor.RopeParams, v float32) { r.Scale = v })
	m.ok(fast(2000))
	ids.setInt(1<<30, 2)
	if st := fast(100); st != (core.Status{Code: core.ErrIndex, Operand: 1, Detail: 2}) {
		t.Error(st)
	}
	m.ok(fast(1))
	ids.setInt(2, 2)
	for _, bad := range []float32{0, nan, 1e-20, -1e-20} {
		factors := m.make(tensor.EncF32, 0, 4).fill(func() float32 { return 1 })
		factors.set(bad, 2)
		st := core.Rope(p, nil, x.v(), ids.v(), factors.v(), tensor.RopeParams{Dims: 8, Base: 10000, Scale: 1, AttnFactor: 1}, yRope.v())
		if st != (core.Status{Code: core.ErrValue, Operand: 2, Detail: 2}) {
			t.Error(bad, st)
		}
	}
}

// TestNormAndSoftcapAtBothEndsOfTheRange compares norm and softcap with float64 at both ends of the range of a float.
func TestNormAndSoftcapAtBothEndsOfTheRange(t *testing.T) {
	m := newMaker(t, 23)
	for _, size := range []float32{1e-45, 1e-42, 1e-39, 1e-30, 1, 1e30, 1e38} {
		for _, n := range []int{1, 7, 8, 33} {
			x, w, y := m.make(tensor.EncF32, 0, 2, n), m.make(tensor.EncF32, 0, n).fill(m.normal), m.make(tensor.EncF32, 0, 2, n)
			x.fill(func() float32 { return size * (1 + m.r.Float32()) })
			for _, eps := range []float32{0, 1e-45, 1e-5} {
				m.everywhere(func(p *core.Pool) core.Status {
					return core.Norm(p, nil, x.v(), nil, w.v(), nil, eps, nil, y.v())
				}, y)
				for r := range 2 {
					var mean float64
					for i := range n {
						mean += float64(x.f32(r, i)) * float64(x.f32(r, i)) / float64(n)
					}
					for i := range n {
						want := float64(x.f32(r, i)) / math.Sqrt(mean+float64(eps)) * float64(w.f32(i))
						if got := float64(y.f32(r, i)); !(math.Abs(got-want) <= 4e-7*math.Abs(want)+0x1p-148) {
							t.Fatalf("norm of %g with eps %g: %g, want %g", x.f32(r, i), eps, got, want)
						}
					}
				}
			}
			for _, limit := range []float32{1e-45, 1e-30, 1, 50, 1e30, 3e38} {
				m.everywhere(func(p *core.Pool) core.Status { return core.Softcap(p, nil, x.v(), limit, y.v()) }, y)
				y.each(func(index []int) {
					want := float64(limit) * math.Tanh(float64(x.f32(index...))/float64(limit))
					if got := float64(y.f32(index...)); !(math.Abs(got-want) <= 1e-6*math.Abs(want)+0x1p-148) {
						t.Fatalf("softcap of %g at %g: %g, want %g", x.f32(index...), limit, got, want)
					}
				})
			}
		}
	}
}
