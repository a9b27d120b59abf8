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

// ropeAngle is the angle of pair i, as include/skeep.h states it.
func ropeAngle(p tensor.RopeParams, i int, position int, factor float64) float64 {
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

func TestRopeAgreesWithFloat64(t *testing.T) {
	m := newMaker(t, 6)
	for i, dim := range []int{2, 8, 20, 64, 80, 128, 256} {
		for variant := range 12 {
			p := tensor.RopeParams{Form: tensor.RopeForm(variant % 2), Dims: uint32(dim), Base: 10000, Scale: 1, AttnFactor: 1}
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
			m.judge(tensor.OpRope, []*operand{x, positions, factors, y}, y.samples(), func(wrong coretest.Wrong) {
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
								wrong("dim %d %+v position %d: y[%d] = %g, want %g ± %g", dim, p, position, j, got, want, bound)
							}
						}
					}
				}
			})
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
