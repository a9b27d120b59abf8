package core_test

import (
	"math"
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

var gates = []func(x float64) float64{
	func(x float64) float64 { return x * sigmoid(x) },
	func(x float64) float64 { return x * sigmoid(2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)) },
	func(x float64) float64 {
		if x == 0 {
			return x
		}
		return x * math.Erfc(-x/math.Sqrt2) / 2
	},
	func(x float64) float64 {
		if x > 0 || x != x {
			return x
		}
		return 0
	},
}

func sigmoid(z float64) float64 {
	if z < 0 {
		return math.Exp(z) / (1 + math.Exp(z))
	}
	return 1 / (1 + math.Exp(-z))
}

func TestGLUAgreesWithFloat64(t *testing.T) {
	m := newMaker(t, 2)
	special := []float32{0, float32(math.Copysign(0, -1)), 88, -88, 88.8, -88.8, -104, -150, 1e4, -1e4, 3e38, -3e38, 1e-45,
		-1e-45, 1e-39, -1e-39, 1e-30, 0.5, -0.5, -5.9, -13.9, -14.1, -19.9, -20.1, -199}
	sources := []func() float32{
		func() float32 { return 4 * m.normal() },
		func() float32 { return 60 * m.normal() },
		func() float32 { return special[m.r.IntN(len(special))] },
		func() float32 { // any finite float
			for {
				if x := math.Float32frombits(m.r.Uint32()); x-x == 0 {
					return x
				}
			}
		},
	}
	for form, act := range gates {
		for i, n := range append(denseLengths, 9000) {
			for kind, source := range sources {
				shape := [][]int{{n}, {7, n}, {2, 3, n}}[(i+kind)%3]
				gate, up, y := m.make(tensor.EncF32, kind, shape...).fill(source), m.make(tensor.EncF32, kind, shape...),
					m.make(tensor.EncF32, kind%2, shape...)
				if kind < 2 {
					up.fill(m.normal)
				} else {
					up.fill(func() float32 { return math.Float32frombits(m.r.Uint32()%(254<<23) | m.r.Uint32()&(1<<31)) })
				}
				m.everywhere(func(p *core.Pool) core.Status {
					return core.GLU(p, nil, gate.v(), up.v(), tensor.GLUForm(form), y.v())
				}, y)
				m.judge(tensor.OpGLU, []*operand{gate, up, y}, y.samples(), func(wrong coretest.Wrong) {
					y.each(func(index []int) {
						g, u := gate.f32(index...), up.f32(index...)
						if want := act(float64(g)) * float64(u); !near(y.f32(index...), want, 4e-7) {
							wrong("form %d: act(%g)·%g = %g, want %g", form, g, u, y.f32(index...), want)
						}
					})
				})
				want := y.bits()
				for _, place := range []*operand{gate, up} {
					restore := m.save(gate, up)
					m.ok(core.GLU(densePool(t, 2), nil, gate.v(), up.v(), tensor.GLUForm(form), place.v()))
					if !slices.Equal(place.bits(), want) {
						t.Fatal("in place differs")
					}
					restore()
				}
			}
		}
		gate, up, y := m.make(tensor.EncF32, 0, 3), m.make(tensor.EncF32, 0, 3).fill(func() float32 { return 2 }), m.make(tensor.EncF32, 0, 3)
		gate.set(float32(math.NaN()), 0)
		gate.set(float32(math.Inf(1)), 1)
		gate.set(float32(math.Inf(-1)), 2)
		m.ok(core.GLU(densePool(t, 1), nil, gate.v(), up.v(), tensor.GLUForm(form), y.v()))
		if a, b, c := y.f32(0), y.f32(1), y.f32(2); a == a || !math.IsInf(float64(b), 1) || c != 0 {
			t.Errorf("form %d: NaN, +inf, -inf give %g %g %g", form, a, b, c)
		}
	}
}

func TestAddAndMulRoundOnce(t *testing.T) {
	m := newMaker(t, 3)
	for i, n := range append(denseLengths, 9000) {
		for _, shape := range [][]int{{n}, {5, n}, {3, 2, n}, {2, 3, 2, n}, {1, 4, 1, n}} {
			for _, wide := range []bool{true, false} {
				gap := i % 3
				a, y := m.make(tensor.EncF32, gap, shape...).fill(m.normal), m.make(tensor.EncF32, (i+1)%3, shape...)
				b := m.make(tensor.EncF32, 0, n).fill(m.normal)
				if wide {
					b = m.make(tensor.EncF32, gap, shape...).fill(m.normal)
				}
				for name, f := range map[string]func(a, b float32) float32{
					"add": func(a, b float32) float32 { return a + b },
					"mul": func(a, b float32) float32 { return a * b },
				} {
					op, number := core.Add, tensor.OpAdd
					if name == "mul" {
						op, number = core.Mul, tensor.OpMul
					}
					m.everywhere(func(p *core.Pool) core.Status { return op(p, nil, a.v(), b.v(), y.v()) }, y)
					m.judge(number, []*operand{a, b, y}, y.samples(), func(wrong coretest.Wrong) {
						y.each(func(index []int) {
							other := index
							if !wide {
								other = index[len(index)-1:]
							}
							if want := f(a.f32(index...), b.f32(other...)); y.f32(index...) != want {
								wrong("%s %v: %g, want %g", name, index, y.f32(index...), want)
							}
						})
					})
					want := y.bits()
					restore := m.save(a)
					m.ok(op(densePool(t, 3), nil, a.v(), b.v(), a.v()))
					if !slices.Equal(a.bits(), want) {
						t.Fatal("in place differs")
					}
					restore()
				}
			}
		}
	}
}

func TestSoftmaxAgreesWithFloat64(t *testing.T) {
	m := newMaker(t, 4)
	for i, n := range append(denseLengths, 40000) {
		for _, scale := range []float32{1, 0.125, 30, -2, 0} {
			shape := [][]int{{n}, {9, n}, {2, 3, n}}[i%3]
			offset := []float32{0, 1e4, -1e4}[i%3]
			x, y := m.make(tensor.EncF32, i%2, shape...).fill(func() float32 {
				if n > 1 && scale > 0 && m.r.IntN(10) == 0 {
					return float32(math.Inf(-1))
				}
				return offset + m.normal()
			}), m.make(tensor.EncF32, i%2, shape...)
			m.everywhere(func(p *core.Pool) core.Status { return core.Softmax(p, nil, x.v(), scale, y.v()) }, y)
			m.judge(tensor.OpSoftmax, []*operand{x, y}, y.samples(), func(wrong coretest.Wrong) {
				var row []float64
				y.each(func(index []int) {
					if row = append(row, float64(scale)*float64(x.f32(index...))); len(row) < n {
						return
					}
					top, sum := slices.Max(row), 0.0
					for _, s := range row {
						sum += math.Exp(s - top)
					}
					at := slices.Clone(index)
					for j, s := range row {
						at[len(at)-1] = j
						want := math.Exp(s-top) / sum
						// The argument of exp is rounded twice, relative to the distance from the top.
						bound := 5e-7
						if !math.IsInf(s, 0) {
							bound += (top - s) * 1.3e-7
						}
						if got := y.f32(at...); !near(got, want, bound) {
							wrong("n %d scale %g: y%v = %g, want %g", n, scale, at, got, want)
						}
					}
					row = row[:0]
				})
			})
			want := y.bits()
			m.ok(core.Softmax(densePool(t, 2), nil, x.v(), scale, x.v()))
			if !slices.Equal(x.bits(), want) {
				t.Fatal("in place differs")
			}
		}
	}
	// Differences that overflow, and scales that lead them back; a masked element beside them.
	for _, c := range []struct{ high, low, scale float32 }{
		{3e38, -3e38, 1e-38}, {-3e38, 3e38, -1e-38}, {1.6e38, -1.8e38, 1e-38}, {3e38, 1e37, 1e-38}, {math.MaxFloat32, -math.MaxFloat32, 5e-39},
		{0x1p103, -math.MaxFloat32, 1e-38}, {1, -math.MaxFloat32, 1e-38}, {3e38, -3e38, 1e-45}, {3e38, -3e38, 0}, {3e38, -3e38, 1e-20},
		{1e-45, -3e-45, math.MaxFloat32}, {1, -1, math.MaxFloat32}, {1, -1, 0.5},
	} {
		for _, n := range []int{2, 9, 24} {
			x, y, masked := m.make(tensor.EncF32, 0, n), m.make(tensor.EncF32, 0, n), n > 2 && c.scale > 0
			for i := range n {
				x.set(c.low, i)
			}
			x.set(c.high, n-1)
			others := float64(n - 1)
			if masked {
				x.set(float32(math.Inf(-1)), 1)
				others--
			}
			m.everywhere(func(p *core.Pool) core.Status { return core.Softmax(p, nil, x.v(), c.scale, y.v()) }, y)
			distance := float64(c.scale) * (float64(c.high) - float64(c.low))
			low := math.Exp(-distance)
			sum, bound := 1+others*low, 5e-7+distance*1.3e-7
			if got := y.f32(n - 1); !near(got, 1/sum, bound) {
				t.Errorf("%v of %d: the highest is %g, want %g", c, n, got, 1/sum)
			}
			if got := y.f32(0); !near(got, low/sum, bound) {
				t.Errorf("%v of %d: the lowest is %g, want %g", c, n, got, low/sum)
			}
			if masked && y.f32(1) != 0 {
				t.Errorf("%v of %d: the masked one is %g", c, n, y.f32(1))
			}
		}
	}
	for _, x := range []float64{math.Inf(-1), math.NaN()} { // nothing to choose from has no distribution
		o := m.make(tensor.EncF32, 0, 9).fill(func() float32 { return float32(x) })
		m.ok(core.Softmax(densePool(t, 1), nil, o.v(), 1, o.v()))
		o.each(func(index []int) {
			if got := o.f32(index...); got == got {
				t.Errorf("softmax of all %g is %g", x, got)
			}
		})
	}
}

// exp within 2 ulp down to the subnormals, seen through exp(x) / (1 + exp(x)).
func TestExpIsNearDownToSubnormals(t *testing.T) {
	m := newMaker(t, 16)
	const n = 20000
	x, y := m.make(tensor.EncF32, 0, n, 2), m.make(tensor.EncF32, 0, n, 2)
	for i := range n {
		x.set(0, i, 0)
		x.set(-103*float32(i)/n, i, 1)
	}
	m.ok(core.Softmax(densePool(t, 2), nil, x.v(), 1, y.v()))
	for i := range n {
		e := math.Exp(float64(x.f32(i, 1)))
		if got, want := y.f32(i, 1), e/(1+e); !near(got, want, 2.6e-7) || i > 0 && got > y.f32(i-1, 1) {
			t.Fatalf("exp(%g): %g, want %g", x.f32(i, 1), got, want)
		}
	}
}

func TestSoftcapAgreesWithFloat64(t *testing.T) {
	m := newMaker(t, 5)
	for i, n := range append(denseLengths, 9000) {
		for _, limit := range []float32{30, 50, 1e-3, 1} {
			x, y := m.make(tensor.EncF32, i%3, 3, n).fill(func() float32 {
				return float32(m.r.NormFloat64() * math.Exp2(float64(m.r.IntN(40)-25)) * float64(limit))
			}), m.make(tensor.EncF32, i%2, 3, n)
			m.everywhere(func(p *core.Pool) core.Status { return core.Softcap(p, nil, x.v(), limit, y.v()) }, y)
			m.judge(tensor.OpSoftcap, []*operand{x, y}, y.samples(), func(wrong coretest.Wrong) {
				y.each(func(index []int) {
					v := x.f32(index...)
					if want := float64(limit) * math.Tanh(float64(v)/float64(limit)); !near(y.f32(index...), want, 4e-7) {
						wrong("softcap(%g, %g) = %g, want %g", v, limit, y.f32(index...), want)
					}
				})
			})
			want := y.bits()
			m.ok(core.Softcap(densePool(t, 2), nil, x.v(), limit, x.v()))
			if !slices.Equal(x.bits(), want) {
				t.Fatal("in place differs")
			}
		}
	}
	x := m.make(tensor.EncF32, 0, 3)
	x.set(float32(math.Inf(1)), 0)
	x.set(float32(math.Inf(-1)), 1)
	m.ok(core.Softcap(densePool(t, 1), nil, x.v(), 30, x.v()))
	if a, b, c := x.f32(0), x.f32(1), x.f32(2); a != 30 || b != -30 || c == c {
		t.Error(a, b, c)
	}
}
