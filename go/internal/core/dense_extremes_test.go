package core_test

import (
	"fmt"
	"math"
	"math/rand/v2"
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
				p: tensor.AttendParams{Scale: 0.01}, first: []int{max(0, c.n-40)}, tokens: []int{min(c.n, 40)}}
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

// The products of a turn may overflow under a magnitude above 1 where their difference does not.
func TestDenseRopeAnywhere(t *testing.T) {
	m := newMaker(t, 23)
	const heads, dim = 20, 8
	x, y, position := m.make(tensor.EncF32, 0, 1, heads, dim), m.make(tensor.EncF32, 0, 1, heads, dim), m.make(tensor.EncI32, 0, 1)
	for i := range 300 {
		large := m.finite()
		x.fill(m.finite)
		if i%2 == 1 {
			x.fill(func() float32 { return large * (1 - m.r.Float32()/100) })
		}
		p := tensor.RopeParams{Form: tensor.RopeForm(i / 2 % 2), Dims: dim, Base: 10, Scale: 1, AttnFactor: 1}
		if i%3 > 0 {
			p.AttnFactor = float32(math.Ldexp(float64(m.normal()), m.r.IntN(270)-145))
		}
		if i%4 == 3 { // subnormal elements, which a large factor makes normal
			x.fill(func() float32 { return float32(math.Ldexp(float64(m.normal()), -147+m.r.IntN(12))) })
		}
		at := m.r.IntN(1000)
		position.setInt(at, 0)
		m.ok(core.Rope(densePool(t, 1), nil, x.v(), position.v(), nil, p, y.v()))
		for h := range heads {
			for j := range dim {
				pair, other, sign := j/2, j^1, float64(2*(j%2)-1)
				if p.Form == 1 {
					pair, other, sign = j%(dim/2), (j+dim/2)%dim, float64(2*(j/(dim/2))-1)
				}
				sin, cos := math.Sincos(ropeAngle(p, pair, at, 1))
				u, v, magnitude := float64(x.f32(0, h, j)), float64(x.f32(0, h, other)), float64(p.AttnFactor)
				m.close(y.f32(0, h, j), (u*cos+sign*v*sin)*magnitude, 4e-7*(math.Abs(u)+math.Abs(v))*math.Abs(magnitude),
					fmt.Sprintf("%g and %g at %d, times %g,", u, v, at, magnitude))
			}
		}
	}
}

// act(gate) is below 1 for many gates whose product with a huge factor is a float though the product with the gate is not.
func TestDenseGLUOfHugeFactors(t *testing.T) {
	m := newMaker(t, 26)
	const n = 4000
	gate, up, y := m.make(tensor.EncF32, 0, n), m.make(tensor.EncF32, 0, n), m.make(tensor.EncF32, 0, n)
	for form, act := range gates {
		for range 10 {
			gate.fill(func() float32 { return 8 - 28*m.r.Float32() })
			up.fill(func() float32 {
				return float32(math.Copysign(math.MaxFloat32*(1-m.r.Float64()/4), float64(m.normal())))
			})
			m.ok(core.GLU(densePool(t, 1), nil, gate.v(), up.v(), tensor.GLUForm(form), y.v()))
			for i := range n {
				g, u := float64(gate.f32(i)), float64(up.f32(i))
				want := act(g) * u
				m.close(y.f32(i), want, 4e-7*math.Abs(want), fmt.Sprintf("form %d: act(%g)·%g", form, g, u))
			}
		}
	}
}

// A score that is a float counts as what it is, also where q·k or its terms are not floats.
func TestDenseAttendScoresWhoseProductsOverflow(t *testing.T) {
	m := newMaker(t, 27)
	for i, e := range []tensor.Encoding{tensor.EncF32, tensor.EncBF16, tensor.EncF32, tensor.EncBF16, tensor.EncF32} {
		for _, dim := range []int{4, 16, 20, 64} {
			for _, group := range []int{1, 3, 12} {
				const n = 150
				s := attentionShape{dim: dim, vDim: 8, kvHeads: 1, group: group, capacity: n, sequences: 1, e: e, first: []int{n - 5}, tokens: []int{5}}
				a := m.attention(s)
				large := 90 + m.r.IntN(35) // powers of two of q and k
				small := 2 + m.r.IntN(120)
				switch i {
				case 0, 1: // a scale that leads back
					a.p.Scale = float32(math.Ldexp(1, -large-small))
				case 2: // the softcap leads back
					a.p.Scale, a.p.Softcap = 0.25, 3
				case 3: // nothing counts
					a.p.Scale = 0
				case 4: // terms cancel
					small, a.p.Scale = 126-large, 0.25
				}
				odd := func(token int) bool { return token%2 == 1 }
				for token := range 5 {
					for h := 0; odd(token) && h < group; h++ {
						for d := range dim {
							a.q.set(float32(math.Ldexp(float64(m.r.IntN(3)-1), large)), token, h, d)
						}
					}
				}
				k, positions := m.make(tensor.EncF32, 0, n, 1, dim), m.make(tensor.EncI32, 0, n)
				for j := range n {
					positions.setInt(j, j)
					for d := range dim {
						x := math.Ldexp(float64(m.r.IntN(3)-1), small)
						if j%3 == 0 {
							x = 0
						}
						k.set(float32(x), j, 0, d)
					}
				}
				if i == 4 { // all sums are zero, their halves are not floats
					for token := range 5 {
						for h := 0; odd(token) && h < group; h++ {
							for d := range dim {
								a.q.set(float32(math.Ldexp(1, large)), token, h, d)
							}
						}
					}
					for j := range n {
						for d := range dim {
							x := math.Ldexp(1.5, small)
							if d < dim/2 == (j%2 == 0) {
								x = -x
							}
							k.set(float32(x), j, 0, d)
						}
					}
				}
				m.ok(core.KVStore(densePool(t, 1), nil, k.v(), m.make(tensor.EncF32, 0, n, 1, 8).fill(m.normal).v(), positions.v(), nil, a.kc.v(), a.vc.v()))
				m.everywhere(a.run, a.y)
				for token := range 5 {
					for h := range group {
						if !odd(token) && i != 3 && i != 4 {
							continue // their scores are nothing next to one another
						}
						want, bound := a.wantEach(token, h)
						for d, w := range want {
							if got := float64(a.y.f32(token, h, d)); !(math.Abs(got-w) <= bound[d]) {
								t.Fatalf("kind %d %v dim %d group %d: y[%d %d %d] = %g, want %g ± %g", i, e, dim, group, token, h, d, got, w, bound[d])
							}
						}
					}
				}
				m.alone(a)
			}
		}
	}
}

func TestDenseSoftcapAnywhere(t *testing.T) {
	m := newMaker(t, 24)
	x, y := m.make(tensor.EncF32, 0, 50), m.make(tensor.EncF32, 0, 50)
	for range 500 {
		limit := float32(math.Abs(float64(m.finite())))
		if limit == 0 {
			continue
		}
		x.fill(m.finite)
		m.ok(core.Softcap(densePool(t, 1), nil, x.v(), limit, y.v()))
		for i := range 50 {
			v := float64(x.f32(i))
			want := float64(limit) * math.Tanh(v/float64(limit))
			m.close(y.f32(i), want, 4e-7*math.Abs(want), fmt.Sprintf("softcap(%g, %g)", v, limit))
		}
	}
}

func TestDenseSoftmaxAnywhere(t *testing.T) {
	m := newMaker(t, 25)
	for i := range 500 {
		n := 1 + m.r.IntN(20)
		x, y := m.make(tensor.EncF32, 0, n), m.make(tensor.EncF32, 0, n)
		scale := m.finite()
		exponent := m.r.IntN(277) - 149
		x.fill(func() float32 { return float32(math.Ldexp(2*m.r.Float64()-1, exponent)) })
		if i%2 == 0 { // so that the differences count
			scale = float32(min(math.MaxFloat32, math.Ldexp(float64(m.normal()), 2-exponent)))
		}
		if i%7 == 0 {
			x.fill(m.finite)
		}
		if math.IsInf(float64(scale), 0) {
			continue
		}
		m.ok(core.Softmax(densePool(t, 1), nil, x.v(), scale, y.v()))
		top, sum := math.Inf(-1), 0.0
		for j := range n {
			top = max(top, float64(scale)*float64(x.f32(j)))
		}
		for j := range n {
			sum += math.Exp(float64(scale)*float64(x.f32(j)) - top)
		}
		for j := range n {
			away := top - float64(scale)*float64(x.f32(j))
			want := math.Exp(-away) / sum
			m.close(y.f32(j), want, want*(5e-7+min(away, 1e6)*1.3e-7), fmt.Sprintf("softmax of %g under %g, %g away,", x.f32(j), scale, away))
		}
	}
}

// Scales of weights near the end of the range meet activations so small that the product is an ordinary number.
func TestMatMulOfHugeScalesAndTinyActivations(t *testing.T) {
	r := rand.New(rand.NewPCG(28, 1))
	const n, out = 96, 5
	w := weightsOf(t, r, tensor.MXFP4, out, n)
	for b := 0; b < len(w.bytes); b += 17 {
		w.bytes[b] = byte(240 + r.IntN(13))
	}
	x, a, y, terms := newTensor(t, tensor.EncF32, 1, n), newTensor(t, tensor.A8, 1, n), newTensor(t, tensor.EncF32, 1, out), newTensor(t, tensor.EncF32, 1, out)
	for k := range n {
		putDense(x.bytes, tensor.EncF32, k, float32(math.Ldexp(r.NormFloat64(), -100)))
	}
	pool := densePool(t, 1)
	ok(t, core.QuantizeRows(pool, nil, &x.View, &a.View))
	ok(t, core.MatMulT(pool, nil, &a.View, &w.View, &y.View))
	got := floats(y.bytes)
	values := newTensor(t, tensor.EncF32, 1, out)
	ok(t, core.ReferenceMatMulT(&a.View, &w.View, &values.View, &terms.View))
	for o, want := range floats(values.bytes) {
		if bound := float64(floats(terms.bytes)[o]) * 0x1p-20; !(math.Abs(float64(got[o]-want)) <= bound) || want == 0 {
			t.Errorf("y[%d] = %g, want %g ± %g", o, got[o], want, bound)
		}
	}
}

// The terms of scale and offset are floats next to any scale of the activations, though their products with it are not.
func TestMatMulOfOffsetsThatCancel(t *testing.T) {
	w := newTensor(t, tensor.Q4_1, 1, 32)
	copy(w.bytes, []byte{0x00, 0x3c, 0x00, 0xcb}) // scale 1, offset -14
	for i := 4; i < 20; i++ {
		w.bytes[i] = 0xff // 15 - 14
	}
	x, a, y := newTensor(t, tensor.EncF32, 1, 32), newTensor(t, tensor.A8, 1, 32), newTensor(t, tensor.EncF32, 1, 1)
	putDense(x.bytes, tensor.EncF32, 3, 3e38)
	pool := densePool(t, 1)
	ok(t, core.QuantizeRows(pool, nil, &x.View, &a.View))
	ok(t, core.MatMulT(pool, nil, &a.View, &w.View, &y.View))
	if got := floats(y.bytes)[0]; math.Abs(float64(got)/3e38-1) > 1e-5 {
		t.Errorf("y = %g, want 3e38", got)
	}
}
