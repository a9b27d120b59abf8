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

// judge compares the results of an operation on these operands (C's, in their order, nil for an absent one) and notes
// the row of the kernel table that they select. elements are some of the results, see coretest.Compare.
func (m *maker) judge(op tensor.Op, operands []*operand, elements [][]byte, judge func(wrong coretest.Wrong)) {
	m.t.Helper()
	views := make([]*core.View, len(operands))
	for i, o := range operands {
		views[i] = o.v()
	}
	row, st := core.Select(op, views)
	m.ok(st)
	coretest.Compare(m.t, row, elements, judge)
}

// samples is the memory of the first, the middle and the last element.
func (o *operand) samples() (s [][]byte) {
	n := 0
	o.each(func([]int) { n++ })
	i := 0
	o.each(func(index []int) {
		if i == 0 || i == n/2 || i == n-1 {
			s = append(s, o.at(index...))
		}
		i++
	})
	return s
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
