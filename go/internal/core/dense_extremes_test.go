package core_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// anywhere returns floats of both signs from the whole range, subnormal ones and zeros too.
func (m *maker) anywhere() float32 {
	switch m.r.IntN(12) {
	case 0:
		return 0
	case 1:
		return float32(math.Copysign(math.MaxFloat32, float64(m.normal())))
	}
	return float32(math.Ldexp(float64(m.normal()), m.r.IntN(277)-149))
}

// finite is anywhere without what rounds to infinity.
func (m *maker) finite() float32 {
	for {
		if x := m.anywhere(); !math.IsInf(float64(x), 0) {
			return x
		}
	}
}

// The weighted mean of finite values is finite, also where their sum is not; rows beside them keep their bits.
func TestDenseAttendSumsThatOverflow(t *testing.T) {
	m := newMaker(t, 21)
	for _, e := range []tensor.Encoding{tensor.EncF32, tensor.EncBF16} {
		for _, c := range []struct {
			value         float32
			dim, n, group int
		}{{3e38, 8, 2, 1}, {3e38, 20, 5, 3}, {1e37, 64, 64, 4}, {1e37, 16, 1200, 2}, {3e36, 8, 5000, 1}, {math.MaxFloat32, 8, 1300, 1}} {
			name := fmt.Sprint(e, " ", c)
			s := attentionShape{dim: c.dim, vDim: c.dim, kvHeads: 1, group: c.group, capacity: c.n, sequences: 1, e: e,
				p: core.AttendParams{Scale: 0.01}, first: []int{max(0, c.n-40)}, tokens: []int{min(c.n, 40)}}
			a := m.attention(s)
			v := m.make(tensor.EncF32, 0, c.n, 1, c.dim).fill(m.normal)
			for j := range c.n { // the odd elements are ordinary
				for d := 0; d < c.dim; d += 2 {
					x := float64(c.value) * (1 - 0.1*m.r.Float64()*float64(d))
					if e == tensor.EncBF16 {
						x = min(x, 3.3e38)
					}
					v.set(float32(x), j, 0, d)
				}
			}
			positions := m.make(tensor.EncI32, 0, c.n)
			for j := range c.n {
				positions.setInt(j, j)
			}
			k := m.make(tensor.EncF32, 0, c.n, 1, c.dim).fill(m.normal)
			store := func() {
				m.ok(core.KVStore(densePool(t, 1), nil, k.v(), v.v(), positions.v(), nil, a.kc.v(), a.vc.v()))
			}
			store()
			m.everywhere(a.run, a.y)
			for _, token := range []int{0, s.tokens[0] / 2, s.tokens[0] - 1} {
				for head := range c.group {
					want, bound := a.wantEach(token, head)
					for d, w := range want {
						if got := float64(a.y.f32(token, head, d)); !(math.Abs(got-w) <= bound[d]) {
							t.Fatalf("%s: y[%d %d %d] = %g, want %g", name, token, head, d, got, w)
						}
					}
				}
			}
			m.alone(a)
			// An ordinary element has the bits that it has beside ordinary ones.
			before := a.y.bits()
			for j := range c.n {
				for d := 0; d < c.dim; d += 2 {
					v.set(1, j, 0, d)
				}
			}
			store()
			m.ok(a.run(densePool(t, 2)))
			for i, bits := range a.y.bits() {
				if i%c.dim%2 == 1 && bits != before[i] {
					t.Fatalf("%s: element %d is %g, beside sums that overflow %g", name, i, math.Float32frombits(bits), math.Float32frombits(before[i]))
				}
			}
			// A value that is infinite reaches the mean.
			for d := range c.dim {
				v.set(float32(math.Inf(-1)), 0, 0, d)
			}
			store()
			m.ok(a.run(densePool(t, 2)))
			if got := float64(a.y.f32(s.tokens[0]-1, 0, 0)); !math.IsInf(got, -1) {
				t.Errorf("%s: the mean with an infinite value is %g", name, got)
			}
		}
	}
}

// wantEach is want with a bound for each element.
func (a *attention) wantEach(token, head int) (y, bound []float64) {
	whole := a.vc.shape[3]
	bound = make([]float64, whole)
	y, _ = a.want(token, head, 0, 0)
	for d := range whole {
		one := *a
		one.vc = a.vc.column(d)
		_, bound[d] = one.want(token, head, 0, 0)
	}
	return y, bound
}

// column is element i of the innermost axis, an axis of extent 1.
func (o *operand) column(i int) *operand {
	c := *o
	c.shape = append([]int(nil), o.shape...)
	c.shape[len(c.shape)-1] = 1
	c.mem = o.mem[i*o.size:]
	return &c
}

// norms compares y with float64: every result that is a normal float, from operands anywhere in the range.
func (m *maker) norms(n int, eps float32, x, before, w, after func() float32) {
	m.t.Helper()
	xs, ws, y := m.make(tensor.EncF32, 0, 3, n).fill(x), m.make(tensor.EncF32, 0, n).fill(w), m.make(tensor.EncF32, 0, 3, n)
	var bs, as *operand
	if before != nil {
		bs = m.make(tensor.EncF32, 0, 3, n).fill(before)
	}
	if after != nil {
		as = m.make(tensor.EncF32, 0, 3, n).fill(after)
	}
	m.ok(core.Norm(densePool(m.t, 1), nil, xs.v(), bs.v(), ws.v(), as.v(), eps, nil, y.v()))
	for r := range 3 {
		row, mean := make([]float64, n), 0.0
		for i := range row {
			s := xs.f32(r, i)
			if bs != nil {
				s += bs.f32(r, i)
			}
			row[i] = float64(s)
			mean += float64(s) * float64(s) / float64(n)
		}
		for i, s := range row {
			want := s / math.Sqrt(mean+float64(eps)) * float64(ws.f32(i))
			bound := 1e-7 * math.Abs(want)
			if as != nil {
				want += float64(as.f32(r, i))
				bound += 1e-7 * math.Abs(want)
			}
			m.close(y.f32(r, i), want, bound, fmt.Sprintf("norm of %g (eps %g, w %g)", s, eps, ws.f32(i)))
		}
	}
}

// close fails unless got is want within bound, or both overflow; a result below the normal floats may be off by some of
// the smallest.
func (m *maker) close(got float32, want, bound float64, what string) {
	m.t.Helper()
	switch g := float64(got); {
	case math.IsNaN(want) && math.IsNaN(g):
	case math.Abs(want)+bound > math.MaxFloat32 && math.Copysign(math.MaxFloat32, want)*math.Copysign(1, g) > 0 && math.Abs(g) > 0.99*math.MaxFloat32:
	case math.Abs(g-want) <= bound+0x1p-148:
	default:
		m.t.Fatalf("%s is %g, want %g ± %g", what, got, want, bound)
	}
}

func constant(x float32) func() float32 { return func() float32 { return x } }

func TestDenseNormAnywhere(t *testing.T) {
	m := newMaker(t, 22)
	m.norms(8, 1e30, constant(1e-30), nil, constant(1e30), nil)
	m.norms(20, math.MaxFloat32, constant(1e-44), nil, constant(math.MaxFloat32), nil)
	m.norms(8, 0, constant(1e-44), nil, constant(1e-38), constant(1e-37))
	m.norms(8, 0, constant(3e38), nil, constant(3e38), constant(-2e38))
	for i := range 300 {
		var before, after func() float32
		if i%2 == 1 {
			after = m.finite
		}
		if i%3 == 1 {
			before = func() float32 { return 0x1p-40 * m.finite() }
		}
		m.norms(1+m.r.IntN(40), float32(math.Abs(float64(m.finite()))), m.finite, before, m.finite, after)
	}
}
