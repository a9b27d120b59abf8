package core_test

import (
	"math"
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

var denseLengths = []int{1, 7, 8, 20, 64, 80, 128, 172, 256, 640}

func TestNormAgreesWithFloat64(t *testing.T) {
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
			m.judge(tensor.OpNorm, []*operand{x, before, w, after, sum, y}, y.samples(), func(wrong coretest.Wrong) {
				var row []float32
				y.each(func(index []int) {
					s := x.f32(index...)
					if before != nil {
						s += before.f32(index...)
					}
					if sum != nil && sum.f32(index...) != s {
						wrong("sum%v = %g, want %g", index, sum.f32(index...), s)
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
							wrong("shape %v options %d: y%v = %g, want %g", shape, options, at, got, want)
						}
					}
					row = row[:0]
				})
			})
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
