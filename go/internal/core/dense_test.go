package core_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// The bodies of lower instruction sets: the tests of this file again, in processes that are held to them.
func TestDenseLowerISAs(t *testing.T) {
	const mark = "SKEEP_DENSE_TEST_CHILD"
	if os.Getenv(mark) != "" || testing.Short() {
		t.Skip("the child, or -short")
	}
	rows := rowsOf("attend")[tensor.EncF32] // best first: this process tests the first one
	for _, row := range rows[1:] {
		isa := row.ISA
		c := exec.Command(os.Args[0], "-test.run=^TestDense", "-test.count=1")
		c.Env = append(os.Environ(), "SKEEP_ISA="+isa, mark+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", isa, err, out)
		}
	}
}

// ---- tensors between guard pages ----

// operand is a dense tensor in memory of its own: at an odd address or against a guard page, with gaps between
// its rows that hold NaN.
type operand struct {
	view   core.View
	mem    []byte
	shape  []int
	stride []int // elements
	size   int
}

type maker struct {
	t *testing.T
	r *rand.Rand
	n int
}

func newMaker(t *testing.T, seed uint64) *maker { return &maker{t, rand.New(rand.NewPCG(seed, 77)), 0} }

var denseSizes = map[tensor.Encoding]int{tensor.EncF32: 4, tensor.EncF16: 2, tensor.EncBF16: 2, tensor.EncI32: 4}

// make returns a tensor whose every byte is 0xff (NaN in all formats). gap adds up to so many elements to the
// strides of the outer axes.
func (m *maker) make(e tensor.Encoding, gap int, shape ...int) *operand {
	m.t.Helper()
	o := &operand{shape: shape, stride: make([]int, len(shape)), size: denseSizes[e]}
	step, reach := 1, 1
	for a := len(shape) - 1; a >= 0; a-- {
		o.stride[a] = step
		if a < len(shape)-1 && gap > 0 {
			o.stride[a] += m.r.IntN(gap + 1)
		}
		step = shape[a] * o.stride[a]
		reach += (shape[a] - 1) * o.stride[a]
	}
	n := reach * o.size
	switch m.n++; m.n % 4 {
	case 0:
		o.mem = guarded(m.t, n, false)
	case 1:
		o.mem = guarded(m.t, n, true)
	case 2:
		o.mem = guarded(m.t, n+1, false)[:n]
	default:
		o.mem = guarded(m.t, n+1, true)[1:]
	}
	for i := range o.mem {
		o.mem[i] = 0xff
	}
	s, st := core.Borrow(o.mem, uint32(tensor.OffHeap), false)
	m.ok(st)
	dims := make([]int64, len(shape))
	for a := range shape {
		dims[a] = int64(shape[a])
	}
	o.view, st = core.ViewOf(s, 0, e, tensor.ShapeOf(dims...))
	m.ok(st)
	o.view.Bytes = uint64(n)
	for a := range shape {
		o.view.Layout.Stride[a] = int64(o.stride[a])
	}
	m.t.Cleanup(func() { core.Close(s, nil) })
	return o
}

// scope runs f as a subtest, so that what it makes is unmapped at its end.
func (m *maker) scope(f func()) {
	t := m.t
	t.Run("", func(inner *testing.T) {
		m.t = inner
		f()
	})
	m.t = t
}

func (m *maker) ok(st core.Status) {
	m.t.Helper()
	if st.Code != core.OK {
		m.t.Fatal(st)
	}
}

func (o *operand) v() *core.View {
	if o == nil {
		return nil
	}
	return &o.view
}

func (o *operand) at(index ...int) []byte {
	p := 0
	for a, i := range index {
		p += i * o.stride[a]
	}
	return o.mem[p*o.size:][:o.size]
}

func (o *operand) f32(index ...int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(o.at(index...)))
}
func (o *operand) set(x float32, index ...int) {
	binary.LittleEndian.PutUint32(o.at(index...), math.Float32bits(x))
}
func (o *operand) setInt(x int, index ...int) {
	binary.LittleEndian.PutUint32(o.at(index...), uint32(int32(x)))
}

// value decodes any of the float formats.
func (o *operand) value(index ...int) float64 {
	b := o.at(index...)
	if o.size == 4 {
		return float64(o.f32(index...))
	}
	h := binary.LittleEndian.Uint16(b)
	if o.view.Format.Encoding == tensor.EncBF16 {
		return float64(math.Float32frombits(uint32(h) << 16))
	}
	sign, e, f := 1-2*float64(h>>15), int(h>>10&31), float64(h&1023)
	switch {
	case e == 31 && f != 0:
		return math.NaN()
	case e == 31:
		return math.Inf(int(sign))
	case e == 0:
		return sign * math.Ldexp(f, -24)
	}
	return sign * math.Ldexp(1024+f, e-25)
}

// each calls f with every index, in order.
func (o *operand) each(f func(index []int)) {
	index := make([]int, len(o.shape))
	for {
		f(index)
		a := len(index) - 1
		for ; a >= 0; a-- {
			if index[a]++; index[a] < o.shape[a] {
				break
			}
			index[a] = 0
		}
		if a < 0 {
			return
		}
	}
}

func (o *operand) fill(f func() float32) *operand {
	o.each(func(index []int) { o.set(f(), index...) })
	return o
}

// gapsIntact is whether the bytes between the rows still are what make wrote.
func (o *operand) gapsIntact() bool {
	used := make([]bool, len(o.mem)/o.size)
	o.each(func(index []int) {
		p := 0
		for a, i := range index {
			p += i * o.stride[a]
		}
		used[p] = true
	})
	for i, u := range used {
		if !u && slices.ContainsFunc(o.mem[i*o.size:][:o.size], func(b byte) bool { return b != 0xff }) {
			return false
		}
	}
	return true
}

func (m *maker) normal() float32 { return float32(m.r.NormFloat64()) }

var denseThreads = []int{1, 2, 3, 7}

// everywhere runs an operation on pools of several sizes, from the same memory, and insists on the same bytes.
func (m *maker) everywhere(run func(p *core.Pool) core.Status, outputs ...*operand) {
	m.t.Helper()
	before := make([][]byte, len(outputs))
	for i, o := range outputs {
		before[i] = slices.Clone(o.mem)
	}
	var first [][]byte
	for _, threads := range denseThreads {
		p := densePool(m.t, threads)
		for i, o := range outputs {
			copy(o.mem, before[i])
		}
		m.ok(run(p))
		for i, o := range outputs {
			if first == nil || len(first) <= i {
				first = append(first, slices.Clone(o.mem))
			} else if !slices.Equal(first[i], o.mem) {
				m.t.Fatalf("output %d differs between %d and %d threads", i, denseThreads[0], threads)
			}
			if !o.gapsIntact() {
				m.t.Fatalf("output %d: bytes between its rows were written", i)
			}
		}
	}
}

var densePools = map[int]*core.Pool{}

func densePool(t testing.TB, threads int) *core.Pool {
	p := densePools[threads]
	if p == nil {
		var st core.Status
		if p, st = core.NewPool(threads, 0); st.Code != core.OK {
			t.Fatal(st)
		}
		densePools[threads] = p // for all tests of the process
	}
	return p
}

// near is whether got is within relative of want, or within a few of the smallest floats.
func near(got float32, want, relative float64) bool {
	if math.IsNaN(want) {
		return got != got
	}
	if math.Abs(want) > math.MaxFloat32 {
		return math.IsInf(float64(got), 0) == (math.Abs(want) > math.MaxFloat32*(1+relative)) ||
			math.IsInf(float64(got), int(math.Copysign(1, want)))
	}
	return math.Abs(float64(got)-want) <= relative*math.Abs(want)+3*0x1p-149
}

var denseLengths = []int{1, 7, 8, 20, 64, 80, 128, 172, 256, 640}

// ---- rows ----

func TestDenseNorm(t *testing.T) {
	m := newMaker(t, 1)
	for i, n := range append(denseLengths, 5000) {
		for options := range 8 {
			shape := [][]int{{n}, {3, n}, {5, 3, n}, {2, 2, 3, n}, {70, n}}[(i+options)%5]
			gap := options % 3
			x, w, y := m.make(tensor.EncF32, gap, shape...).fill(m.normal), m.make(tensor.EncF32, 0, n).fill(m.normal),
				m.make(tensor.EncF32, gap, shape...)
			var before, after, sum *operand
			if options&1 != 0 {
				before = m.make(tensor.EncF32, gap, shape...).fill(m.normal)
			}
			if options&2 != 0 {
				after = m.make(tensor.EncF32, gap, shape...).fill(m.normal)
			}
			outputs := []*operand{y}
			if options&4 != 0 {
				sum = m.make(tensor.EncF32, gap, shape...)
				outputs = append(outputs, sum)
			}
			const eps = 1e-5
			m.everywhere(func(p *core.Pool) core.Status {
				return core.Norm(p, nil, x.v(), before.v(), w.v(), after.v(), eps, sum.v(), y.v())
			}, outputs...)
			// Rows of the reference, in float64 over the float32 sum.
			check := func(x, before, after, sum, y *operand) {
				t.Helper()
				var row []float32
				y.each(func(index []int) {
					s := x.f32(index...)
					if before != nil {
						s += before.f32(index...)
					}
					if sum != nil && sum.f32(index...) != s {
						t.Fatalf("sum%v = %g, want %g", index, sum.f32(index...), s)
					}
					if row = append(row, s); len(row) < n {
						return
					}
					mean := 0.0
					for _, s := range row {
						mean += float64(s) * float64(s) / float64(n)
					}
					at := slices.Clone(index)
					for j, s := range row {
						at[len(at)-1] = j
						want := float64(s) / math.Sqrt(mean+eps) * float64(w.f32(j))
						bound := 4e-7 * math.Abs(want)
						if after != nil {
							want += float64(after.f32(at...))
							bound += 1e-7 * math.Abs(want)
						}
						if got := float64(y.f32(at...)); !(math.Abs(got-want) <= bound) {
							t.Fatalf("shape %v options %d: y%v = %g, want %g", shape, options, at, got, want)
						}
					}
					row = row[:0]
				})
			}
			check(x, before, after, sum, y)
			// In place, each way that is allowed, gives the same bits.
			want := y.bits()
			for _, place := range []struct{ sum, y *operand }{{x, y}, {before, y}, {nil, x}, {nil, before}, {nil, after},
				{x, before}, {before, x}, {x, after}} {
				if place.y == nil || place.y == y && place.sum == nil {
					continue
				}
				saved := m.save(x, before, after, y)
				m.ok(core.Norm(densePool(t, 2), nil, x.v(), before.v(), w.v(), after.v(), eps, place.sum.v(), place.y.v()))
				if !slices.Equal(place.y.bits(), want) {
					t.Fatalf("shape %v options %d: in place differs", shape, options)
				}
				saved()
			}
		}
	}
	// The mean is formed in double: neither overflow nor a lost tail.
	x := m.make(tensor.EncF32, 0, 1, 4096).fill(func() float32 { return 1e30 })
	w := m.make(tensor.EncF32, 0, 4096).fill(func() float32 { return 2 })
	m.ok(core.Norm(densePool(t, 1), nil, x.v(), nil, w.v(), nil, 0, nil, x.v()))
	if got := x.f32(0, 4095); math.Abs(float64(got)-2) > 1e-6 {
		t.Error(got)
	}
	x.set(float32(math.NaN()), 0, 5)
	m.ok(core.Norm(densePool(t, 1), nil, x.v(), nil, w.v(), nil, 0, nil, x.v()))
	if got := x.f32(0, 4095); got == got {
		t.Error("NaN did not spread over its row")
	}
}

// bits are the elements, in order, as stored.
func (o *operand) bits() (b []uint32) {
	o.each(func(index []int) { b = append(b, binary.LittleEndian.Uint32(o.at(index...))) })
	return b
}

func (m *maker) save(operands ...*operand) (restore func()) {
	saved := map[*operand][]byte{}
	for _, o := range operands {
		if o != nil {
			saved[o] = slices.Clone(o.mem)
		}
	}
	return func() {
		for o, b := range saved {
			copy(o.mem, b)
		}
	}
}

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

func TestDenseGLU(t *testing.T) {
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
					return core.GLU(p, nil, gate.v(), up.v(), uint32(form), y.v())
				}, y)
				y.each(func(index []int) {
					g, u := gate.f32(index...), up.f32(index...)
					if want := act(float64(g)) * float64(u); !near(y.f32(index...), want, 4e-7) {
						t.Fatalf("form %d: act(%g)·%g = %g, want %g", form, g, u, y.f32(index...), want)
					}
				})
				want := y.bits()
				for _, place := range []*operand{gate, up} {
					restore := m.save(gate, up)
					m.ok(core.GLU(densePool(t, 2), nil, gate.v(), up.v(), uint32(form), place.v()))
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
		m.ok(core.GLU(densePool(t, 1), nil, gate.v(), up.v(), uint32(form), y.v()))
		if a, b, c := y.f32(0), y.f32(1), y.f32(2); a == a || !math.IsInf(float64(b), 1) || c != 0 {
			t.Errorf("form %d: NaN, +inf, -inf give %g %g %g", form, a, b, c)
		}
	}
}

func TestDenseAddMul(t *testing.T) {
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
					op := core.Add
					if name == "mul" {
						op = core.Mul
					}
					m.everywhere(func(p *core.Pool) core.Status { return op(p, nil, a.v(), b.v(), y.v()) }, y)
					y.each(func(index []int) {
						other := index
						if !wide {
							other = index[len(index)-1:]
						}
						if want := f(a.f32(index...), b.f32(other...)); y.f32(index...) != want {
							t.Fatalf("%s %v: %g, want %g", name, index, y.f32(index...), want)
						}
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

func TestDenseSoftmax(t *testing.T) {
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
						t.Fatalf("n %d scale %g: y%v = %g, want %g", n, scale, at, got, want)
					}
				}
				row = row[:0]
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
func TestDenseExp(t *testing.T) {
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

func TestDenseSoftcap(t *testing.T) {
	m := newMaker(t, 5)
	for i, n := range append(denseLengths, 9000) {
		for _, limit := range []float32{30, 50, 1e-3, 1} {
			x, y := m.make(tensor.EncF32, i%3, 3, n).fill(func() float32 {
				return float32(m.r.NormFloat64() * math.Exp2(float64(m.r.IntN(40)-25)) * float64(limit))
			}), m.make(tensor.EncF32, i%2, 3, n)
			m.everywhere(func(p *core.Pool) core.Status { return core.Softcap(p, nil, x.v(), limit, y.v()) }, y)
			y.each(func(index []int) {
				v := x.f32(index...)
				if want := float64(limit) * math.Tanh(float64(v)/float64(limit)); !near(y.f32(index...), want, 4e-7) {
					t.Fatalf("softcap(%g, %g) = %g, want %g", v, limit, y.f32(index...), want)
				}
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

// ---- positions ----

// ropeAngle is the angle of pair i, as include/skeep.h states it.
func ropeAngle(p core.RopeParams, i int, position int, factor float64) float64 {
	dims := float64(p.Dims)
	mix := 0.0
	if p.ExtFactor != 0 {
		pair := func(beta float32) float64 {
			return dims * math.Log(float64(p.OriginalContext)/(2*math.Pi*float64(beta))) / (2 * math.Log(float64(p.Base)))
		}
		low, high := max(0, math.Floor(pair(p.BetaFast))), min(dims-1, math.Ceil(pair(p.BetaSlow)))
		mix = float64(p.ExtFactor) * (1 - min(1, max(0, (float64(i)-low)/max(0.001, high-low))))
	}
	return float64(position) * ((1-mix)*float64(p.Scale) + mix) * math.Pow(float64(p.Base), -2*float64(i)/dims) / factor
}

func TestDenseRope(t *testing.T) {
	m := newMaker(t, 6)
	for i, dim := range []int{2, 8, 20, 64, 80, 128, 256} {
		for variant := range 12 {
			p := core.RopeParams{Form: uint32(variant % 2), Dims: uint32(dim), Base: 10000, Scale: 1, AttnFactor: 1}
			if variant%3 == 1 {
				p.Dims = uint32(max(2, dim/4*2))
				p.Base, p.Scale = 1e6, 0.25
			}
			if variant%3 == 2 {
				p.Scale, p.ExtFactor, p.AttnFactor, p.BetaFast, p.BetaSlow, p.OriginalContext = 0.125, 1, 1.2079442, 32, 1, 4096
			}
			tokens, heads := []int{1, 3, 130}[(i+variant)%3], []int{1, 4, 7}[variant%3]
			x, y := m.make(tensor.EncF32, variant%3, tokens, heads, dim).fill(m.normal), m.make(tensor.EncF32, variant%2, tokens, heads, dim)
			positions := m.make(tensor.EncI32, 0, tokens)
			for k := range tokens {
				positions.setInt([]int{k, 1000000 - k, m.r.IntN(1 << 20), m.r.IntN(5000)}[m.r.IntN(4)], k)
			}
			var factors *operand
			if variant >= 6 {
				factors = m.make(tensor.EncF32, 0, int(p.Dims)/2).fill(func() float32 { return 1 + 8*m.r.Float32() })
			}
			m.everywhere(func(pool *core.Pool) core.Status {
				return core.Rope(pool, nil, x.v(), positions.v(), factors.v(), p, y.v())
			}, y)
			for k := range tokens {
				position := int(int32(binary.LittleEndian.Uint32(positions.at(k))))
				for h := range heads {
					for j := range dim {
						got, want, bound := float64(y.f32(k, h, j)), float64(x.f32(k, h, j)), 0.0
						if half := int(p.Dims) / 2; j < int(p.Dims) {
							pair, other, sign := j/2, j^1, float64(2*(j%2)-1)
							if p.Form == 1 {
								pair, other, sign = j%half, (j+half)%int(p.Dims), float64(2*(j/half)-1)
							}
							factor := 1.0
							if factors != nil {
								factor = float64(factors.f32(pair))
							}
							sin, cos := math.Sincos(ropeAngle(p, pair, position, factor))
							o := float64(x.f32(k, h, other))
							bound = 4e-7 * (math.Abs(want) + math.Abs(o)) * float64(p.AttnFactor)
							want = (want*cos + sign*o*sin) * float64(p.AttnFactor)
						}
						if !(math.Abs(got-want) <= bound) {
							t.Fatalf("dim %d %+v position %d: y[%d] = %g, want %g ± %g", dim, p, position, j, got, want, bound)
						}
					}
				}
			}
			want := y.bits()
			m.ok(core.Rope(densePool(t, 2), nil, x.v(), positions.v(), factors.v(), p, x.v()))
			if !slices.Equal(x.bits(), want) {
				t.Fatal("in place differs")
			}
			positions.setInt(-1, tokens-1)
			before := slices.Clone(y.mem)
			st := core.Rope(densePool(t, 2), nil, x.v(), positions.v(), factors.v(), p, y.v())
			if st != (core.Status{Code: core.ErrIndex, Operand: 1, Detail: uint64(tokens - 1)}) || !slices.Equal(before, y.mem) {
				t.Fatal(st)
			}
		}
	}
}

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

func TestDenseKVStore(t *testing.T) {
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
			for _, c := range []struct{ in, cache *operand }{{k, kc}, {v, vc}} {
				c.cache.each(func(index []int) {
					n, stored := where[[2]int{index[0], index[2]}]
					got := c.cache.value(index...)
					if !stored {
						if slices.ContainsFunc(c.cache.at(index...), func(b byte) bool { return b != 0xff }) {
							t.Fatalf("slot %v was written", index)
						}
					} else if want := rounded(c.in.f32(n, index[1], index[3]), e); !same(got, want) {
						t.Fatalf("%v%v = %g, want %g of %g", e, index, got, want, c.in.f32(n, index[1], index[3]))
					}
				})
			}
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
func TestDenseKVStoreRefusesWhatTheCacheCannotHold(t *testing.T) {
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
func TestDenseKVStoreFindsEverySlotUsedTwice(t *testing.T) {
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

// attention is one case of skeep_attend and its caches.
type attention struct {
	q, kc, vc, positions, ids, y *operand
	p                            core.AttendParams
	group                        int
}

type attentionShape struct {
	dim, vDim, kvHeads, group, capacity, sequences int
	e                                              tensor.Encoding
	p                                              core.AttendParams
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
	tokens, heads := a.q.shape[0], a.q.shape[1]
	for n := range tokens * heads {
		if tokens*heads > 20 && n < tokens*heads-4 && m.r.IntN(tokens*heads) > 16 {
			continue
		}
		token, head := n/heads, n%heads
		want, bound := a.want(token, head, 0, 0)
		for d, w := range want {
			if got := float64(a.y.f32(token, head, d)); !(math.Abs(got-w) <= bound) {
				m.t.Fatalf("token %d head %d: y[%d] = %g, want %g ± %g", token, head, d, got, w, bound)
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

func TestDenseAttend(t *testing.T) {
	m := newMaker(t, 9)
	window := func(n uint32) core.AttendParams { return core.AttendParams{Scale: 0.3, Window: n} }
	full := core.AttendParams{Scale: 0.3}
	for i, s := range []attentionShape{
		{dim: 1, vDim: 1, kvHeads: 1, group: 1, capacity: 7, p: full, first: []int{0}, tokens: []int{7}},
		{dim: 8, vDim: 8, kvHeads: 2, group: 4, capacity: 64, p: full, first: []int{0}, tokens: []int{64}},
		{dim: 20, vDim: 20, kvHeads: 3, group: 1, capacity: 100, p: full, first: []int{61}, tokens: []int{39}},
		{dim: 64, vDim: 64, kvHeads: 2, group: 8, capacity: 160, p: full, first: []int{0}, tokens: []int{130}},
		{dim: 64, vDim: 64, kvHeads: 2, group: 1, capacity: 40, p: window(9), first: []int{0}, tokens: []int{30}},
		{dim: 64, vDim: 64, kvHeads: 2, group: 4, capacity: 40, p: window(9), first: []int{1000}, tokens: []int{31}},
		{dim: 80, vDim: 80, kvHeads: 1, group: 8, capacity: 64, p: window(64), first: []int{777}, tokens: []int{1}},
		{dim: 80, vDim: 20, kvHeads: 1, group: 4, capacity: 64, p: window(33), first: []int{90}, tokens: []int{32}},
		{dim: 128, vDim: 128, kvHeads: 2, group: 4, capacity: 700, p: core.AttendParams{Scale: 0.1, Softcap: 3}, first: []int{600}, tokens: []int{5}},
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

// row is index i of the outermost axis, an axis of extent 1.
func (o *operand) row(i int) *operand {
	r := *o
	r.shape = slices.Clone(o.shape)
	r.shape[0] = 1
	r.mem = o.mem[i*o.stride[0]*o.size:]
	r.view.Layout.Shape[0] = 1
	r.view.Layout.Offset += int64(i * o.stride[0])
	return &r
}

// Sizes at random, most of them small.
func TestDenseAttendRandom(t *testing.T) {
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

// A position that the ring has overwritten is refused, exactly from the first one on.
func TestDenseAttendRing(t *testing.T) {
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
			p: core.AttendParams{Scale: 1, Window: uint32(c.window)}, first: []int{c.first}, tokens: []int{c.tokens}})
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
		p: core.AttendParams{Scale: 1, Window: 20}, first: []int{500, 10}, tokens: []int{3, 10}})
	m.ok(a.run(densePool(t, 2)))
	a.check(m)
}

// Values that nobody may see do not reach a result, and those that are seen do.
func TestDenseAttendSpecialValues(t *testing.T) {
	m := newMaker(t, 12)
	s := attentionShape{dim: 16, vDim: 16, kvHeads: 1, group: 1, capacity: 64, sequences: 1, p: core.AttendParams{Scale: 1},
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

// ---- refusals ----

func TestDenseRefusals(t *testing.T) {
	m := newMaker(t, 13)
	p := densePool(t, 2)
	f := func(shape ...int) *operand { return m.make(tensor.EncF32, 0, shape...).fill(m.normal) }
	ints := func(n int) *operand {
		o := m.make(tensor.EncI32, 0, n)
		for i := range n {
			o.setInt(i, i)
		}
		return o
	}
	half := func(shape ...int) *operand { return m.make(tensor.EncF16, 0, shape...) }
	stepped := func(shape ...int) *operand { // every other element of the last axis
		shape[len(shape)-1] *= 2
		o := f(shape...)
		o.view.Layout.Shape[len(shape)-1] /= 2
		o.view.Layout.Stride[len(shape)-1] = 2
		return o
	}
	rope := core.RopeParams{Dims: 8, Base: 10000, Scale: 1, AttnFactor: 1}
	attend := core.AttendParams{Scale: 1}
	nan := float32(math.NaN())
	type call = func(y *operand) core.Status
	for _, c := range []struct {
		name string
		y    *operand
		run  call
		want core.Status
	}{
		{"norm w", f(3, 8), func(y *operand) core.Status { return core.Norm(p, nil, f(3, 8).v(), nil, f(7).v(), nil, 0, nil, y.v()) },
			core.Status{Code: core.ErrShape, Operand: 2, Detail: 0}},
		{"norm w absent", f(3, 8), func(y *operand) core.Status { return core.Norm(p, nil, f(3, 8).v(), nil, nil, nil, 0, nil, y.v()) },
			core.Status{Code: core.ErrArgument, Operand: 2}},
		{"norm x absent", f(3, 8), func(y *operand) core.Status { return core.Norm(p, nil, nil, nil, f(8).v(), nil, 0, nil, y.v()) },
			core.Status{Code: core.ErrArgument, Operand: 0}},
		{"norm y absent", nil, func(y *operand) core.Status { return core.Norm(p, nil, f(3, 8).v(), nil, f(8).v(), nil, 0, nil, nil) },
			core.Status{Code: core.ErrArgument, Operand: 5}},
		{"norm before", f(3, 8), func(y *operand) core.Status {
			return core.Norm(p, nil, f(3, 8).v(), f(4, 8).v(), f(8).v(), nil, 0, nil, y.v())
		}, core.Status{Code: core.ErrShape, Operand: 1, Detail: 0}},
		{"norm half", f(3, 8), func(y *operand) core.Status {
			return core.Norm(p, nil, half(3, 8).v(), nil, f(8).v(), nil, 0, nil, y.v())
		}, core.Status{Code: core.ErrFormat, Operand: 0, Detail: uint64(tensor.EncF16)}},
		{"norm layout", f(3, 8), func(y *operand) core.Status {
			return core.Norm(p, nil, stepped(3, 8).v(), nil, f(8).v(), nil, 0, nil, y.v())
		}, core.Status{Code: core.ErrLayout, Operand: 0, Detail: 1}},
		{"norm eps", f(3, 8), func(y *operand) core.Status {
			return core.Norm(p, nil, f(3, 8).v(), nil, f(8).v(), nil, -1, nil, y.v())
		},
			core.Status{Code: core.ErrArgument, Operand: -1, Detail: 6}},
		{"norm outputs", f(3, 8), func(y *operand) core.Status {
			return core.Norm(p, nil, f(3, 8).v(), nil, f(8).v(), nil, 0, y.v(), y.v())
		}, core.Status{Code: core.ErrOverlap, Operand: 4, Detail: 5}},
		{"norm sum is after", f(3, 8), func(y *operand) core.Status {
			after := f(3, 8)
			return core.Norm(p, nil, f(3, 8).v(), nil, f(8).v(), after.v(), 0, after.v(), y.v())
		}, core.Status{Code: core.ErrOverlap, Operand: 4, Detail: 3}},
		{"rank", f(3, 8), func(y *operand) core.Status { return core.Softmax(p, nil, f(2, 3, 8).v(), 1, y.v()) },
			core.Status{Code: core.ErrShape, Operand: 1, Detail: 2}},
		{"softmax scale", f(3, 8), func(y *operand) core.Status { return core.Softmax(p, nil, f(3, 8).v(), nan, y.v()) },
			core.Status{Code: core.ErrArgument, Operand: -1, Detail: 3}},
		{"softcap", f(3, 8), func(y *operand) core.Status { return core.Softcap(p, nil, f(3, 8).v(), 0, y.v()) },
			core.Status{Code: core.ErrArgument, Operand: -1, Detail: 3}},
		{"glu form", f(3, 8), func(y *operand) core.Status { return core.GLU(p, nil, f(3, 8).v(), f(3, 8).v(), 4, y.v()) },
			core.Status{Code: core.ErrArgument, Operand: -1, Detail: 4}},
		{"glu up", f(3, 8), func(y *operand) core.Status { return core.GLU(p, nil, f(3, 8).v(), f(8).v(), 0, y.v()) },
			core.Status{Code: core.ErrShape, Operand: 1, Detail: 1}},
		{"add b", f(3, 8), func(y *operand) core.Status { return core.Add(p, nil, f(3, 8).v(), f(3).v(), y.v()) },
			core.Status{Code: core.ErrShape, Operand: 1, Detail: 0}},
		{"mul y is b", nil, func(*operand) core.Status {
			b := f(3, 8)
			return core.Mul(p, nil, f(3, 8).v(), b.v(), b.v())
		}, core.Status{Code: core.ErrOverlap, Operand: 2, Detail: 1}},
		{"no pool", f(3, 8), func(y *operand) core.Status { return core.Add(nil, nil, f(3, 8).v(), f(3, 8).v(), y.v()) },
			core.NoPool},
		{"rope odd dims", f(2, 1, 8), func(y *operand) core.Status {
			bad := rope
			bad.Dims = 7
			return core.Rope(p, nil, f(2, 1, 8).v(), ints(2).v(), nil, bad, y.v())
		}, core.Status{Code: core.ErrArgument, Operand: -1, Detail: 4}},
		{"rope dims", f(2, 1, 6), func(y *operand) core.Status {
			return core.Rope(p, nil, f(2, 1, 6).v(), ints(2).v(), nil, rope, y.v())
		}, core.Status{Code: core.ErrArgument, Operand: -1, Detail: 4}},
		{"rope positions", f(2, 1, 8), func(y *operand) core.Status {
			return core.Rope(p, nil, f(2, 1, 8).v(), ints(3).v(), nil, rope, y.v())
		}, core.Status{Code: core.ErrShape, Operand: 1, Detail: 0}},
		{"rope positions format", f(2, 1, 8), func(y *operand) core.Status {
			return core.Rope(p, nil, f(2, 1, 8).v(), f(2).v(), nil, rope, y.v())
		}, core.Status{Code: core.ErrFormat, Operand: 1, Detail: uint64(tensor.EncF32)}},
		{"rope factors", f(2, 1, 8), func(y *operand) core.Status {
			return core.Rope(p, nil, f(2, 1, 8).v(), ints(2).v(), f(3).v(), rope, y.v())
		}, core.Status{Code: core.ErrShape, Operand: 2, Detail: 0}},
		{"store heads", f(1, 2, 4, 8), func(y *operand) core.Status {
			return core.KVStore(p, nil, f(2, 3, 8).v(), f(2, 2, 8).v(), ints(2).v(), nil, y.v(), f(1, 2, 4, 8).v())
		}, core.Status{Code: core.ErrShape, Operand: 0, Detail: 1}},
		{"store capacity", f(1, 2, 4, 8), func(y *operand) core.Status {
			return core.KVStore(p, nil, f(2, 2, 8).v(), f(2, 2, 8).v(), ints(2).v(), nil, y.v(), f(1, 2, 5, 8).v())
		}, core.Status{Code: core.ErrShape, Operand: 5, Detail: 2}},
		{"store mixed", f(1, 2, 4, 8), func(y *operand) core.Status {
			return core.KVStore(p, nil, f(2, 2, 8).v(), f(2, 2, 8).v(), ints(2).v(), nil, y.v(), half(1, 2, 4, 8).v())
		}, core.Status{Code: core.ErrFormat, Operand: 5, Detail: uint64(tensor.EncF16)}},
		{"store integers", nil, func(*operand) core.Status {
			c := m.make(tensor.EncI32, 0, 1, 2, 4, 8)
			return core.KVStore(p, nil, f(2, 2, 8).v(), f(2, 2, 8).v(), ints(2).v(), nil, c.v(), c.v())
		}, core.Status{Code: core.ErrOverlap, Operand: 4, Detail: 5}},
		{"attend heads", f(2, 3, 8), func(y *operand) core.Status {
			return core.Attend(p, nil, f(2, 3, 8).v(), f(1, 2, 4, 8).v(), f(1, 2, 4, 8).v(), ints(2).v(), nil, attend, y.v())
		}, core.Status{Code: core.ErrShape, Operand: 0, Detail: 1}},
		{"attend head_dim", f(2, 2, 8), func(y *operand) core.Status {
			return core.Attend(p, nil, f(2, 2, 7).v(), f(1, 2, 4, 8).v(), f(1, 2, 4, 8).v(), ints(2).v(), nil, attend, y.v())
		}, core.Status{Code: core.ErrShape, Operand: 0, Detail: 2}},
		{"attend y", f(2, 2, 8), func(y *operand) core.Status {
			return core.Attend(p, nil, f(2, 2, 8).v(), f(1, 2, 4, 8).v(), f(1, 2, 4, 7).v(), ints(2).v(), nil, attend, y.v())
		}, core.Status{Code: core.ErrShape, Operand: 5, Detail: 2}},
		{"attend caches absent", f(2, 2, 8), func(y *operand) core.Status {
			return core.Attend(p, nil, f(2, 2, 8).v(), f(1, 2, 4, 8).v(), nil, ints(2).v(), nil, attend, y.v())
		}, core.Status{Code: core.ErrArgument, Operand: 2}},
		{"attend sequence", f(2, 2, 8), func(y *operand) core.Status {
			return core.Attend(p, nil, f(2, 2, 8).v(), f(1, 2, 4, 8).v(), f(1, 2, 4, 8).v(), ints(2).v(), ints(2).v(), attend, y.v())
		}, core.Status{Code: core.ErrIndex, Operand: 4, Detail: 1}},
		{"attend scale", f(2, 2, 8), func(y *operand) core.Status {
			return core.Attend(p, nil, f(2, 2, 8).v(), f(1, 2, 4, 8).v(), f(1, 2, 4, 8).v(), ints(2).v(), nil, core.AttendParams{Scale: nan}, y.v())
		}, core.Status{Code: core.ErrArgument, Operand: -1, Detail: 0}},
		{"attend huge head", f(1, 1, 1<<18), func(y *operand) core.Status {
			return core.Attend(p, nil, f(1, 1, 1<<18).v(), f(1, 1, 1, 1<<18).v(), f(1, 1, 1, 1<<18).v(), ints(1).v(), nil, attend, y.v())
		}, core.Status{Code: core.ErrMemory, Operand: -1, Detail: 138413544}},
	} {
		var before []byte
		if c.y != nil {
			before = slices.Clone(c.y.mem)
		}
		st := c.run(c.y)
		if c.want.Code == core.ErrMemory {
			c.want.Detail = st.Detail // a size: only that it is there
		}
		if st != c.want {
			t.Errorf("%s: %+v (%s), want %+v", c.name, st, st, c.want)
		}
		if c.y != nil && !slices.Equal(before, c.y.mem) {
			t.Errorf("%s: the output was written", c.name)
		}
	}
	// A packed cache is refused by its encoding.
	kernelless := f(1, 2, 4, 32)
	kernelless.view.Format = tensor.Format{DType: tensor.F32, Encoding: tensor.Q8_0}
	kernelless.view.Layout.Block, kernelless.view.Layout.BlockAxis = 32, 3
	kernelless.view.Layout.Stride = [4]int64{8, 4, 1, 1}
	st := core.KVStore(p, nil, f(2, 2, 32).v(), f(2, 2, 32).v(), ints(2).v(), nil, kernelless.v(), f(1, 2, 4, 32).v())
	if st.Code != core.ErrNoKernel || st.Operand != 4 || st.Detail>>32 != uint64(tensor.Q8_0) {
		t.Error(st)
	}
	if !errors.As(st.Err(), new(core.Status)) || !strings.Contains(fmt.Sprint(st), "Q8_0") {
		t.Error(st)
	}
}

// Steps keep the first error; later operations do nothing.
func TestDenseInAStep(t *testing.T) {
	m := newMaker(t, 14)
	step, st := core.NewStep(0)
	m.ok(st)
	defer step.Destroy()
	p := densePool(t, 2)
	m.ok(step.Begin())
	a, b, y := m.make(tensor.EncF32, 0, 3, 8).fill(m.normal), m.make(tensor.EncF32, 0, 3, 8).fill(m.normal), m.make(tensor.EncF32, 0, 3, 8)
	m.ok(core.Add(p, step, a.v(), b.v(), y.v()))
	first := core.Softcap(p, step, a.v(), -1, y.v())
	before := slices.Clone(y.mem)
	if st := core.Mul(p, step, a.v(), b.v(), y.v()); st != first || !slices.Equal(before, y.mem) {
		t.Error(st)
	}
	if st, op := step.Status(); st != first || op != 1 {
		t.Error(st, op)
	}
	if st := step.End(); st != first {
		t.Error(st)
	}
}

// No operation allocates.
func TestDenseAllocations(t *testing.T) {
	m := newMaker(t, 15)
	a := m.attention(attentionShape{dim: 64, vDim: 64, kvHeads: 2, group: 2, capacity: 64, sequences: 1, e: tensor.EncF16,
		p: core.AttendParams{Scale: 1}, first: []int{20}, tokens: []int{1}})
	step, st := core.NewStep(0)
	m.ok(st)
	defer step.Destroy()
	p := densePool(t, 2)
	m.ok(step.Begin())
	if n := testing.AllocsPerRun(100, func() {
		core.Attend(p, step, a.q.v(), a.kc.v(), a.vc.v(), a.positions.v(), a.ids.v(), a.p, a.y.v())
		core.GLU(p, step, a.q.v(), a.q.v(), 0, a.y.v())
		core.Rope(p, step, a.q.v(), a.positions.v(), nil, core.RopeParams{Dims: 64, Base: 1e4, Scale: 1, AttnFactor: 1}, a.y.v())
	}); n != 0 {
		t.Error(n)
	}
	m.ok(step.End())
}
