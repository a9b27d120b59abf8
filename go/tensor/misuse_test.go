package tensor

import (
	"errors"
	"testing"
)

// The fields of a Layout are public: whatever they hold, a method answers, and with what no layout is, in a *LayoutError.
func TestFieldsThatAreNoLayout(t *testing.T) {
	matrix, err := LayoutOf(FormatOf(Q8_0), ShapeOf(16, 64), Panels(8))
	if err != nil {
		t.Fatal(err)
	}
	dense, err := LayoutOf(Dense(F32), ShapeOf(2, 3), Order{})
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() Layout{
		"rank":               func() Layout { l := dense; l.Rank = 5; return l },
		"rank 255":           func() Layout { l := matrix; l.Rank = 255; return l },
		"no block":           func() Layout { return Layout{Rank: 1, Shape: [MaxRank]int64{4, 1, 1, 1}} },
		"block axis":         func() Layout { l := matrix; l.BlockAxis = 100; return l },
		"row axis":           func() Layout { l := matrix; l.RowAxis = 100; return l },
		"panels of no rows":  func() Layout { l := matrix; l.Order.Panel = 0; return l },
		"panels of no axis":  func() Layout { l := matrix; l.RowAxis = -1; return l },
		"panels of no block": func() Layout { l := matrix; l.BlockAxis = -1; return l },
	} {
		t.Run(name, func(t *testing.T) {
			l := spoil()
			if l.Cells() != 0 || l.Contiguous() || l.GapFree() {
				t.Error(l.Cells(), l.Contiguous(), l.GapFree())
			}
			_, bytes := l.Bytes(FormatOf(Q8_0))
			_, _, cell := l.Cell(make([]int64, l.Rank)...)
			errs := map[string]error{"bytes": bytes, "cell": cell, "check": l.Check(FormatOf(Q8_0))}
			for axis := range 6 {
				_, errs["narrow"] = l.Narrow(axis, 0, 1)
				_, errs["step"] = l.Step(axis, 2)
				_, errs["slice"] = l.Slice(axis, 0, 2, 2)
				_, errs["transpose"] = l.Transpose(0, axis)
				_, errs["unsqueeze"] = l.Unsqueeze(axis)
				_, errs["squeeze"] = l.Squeeze(axis)
				_, errs["split"] = l.Split(axis, 1)
				_, errs["merge"] = l.Merge(axis)
				for op, err := range errs {
					var at *LayoutError
					if !errors.As(err, &at) {
						t.Errorf("%s %d: %v", op, axis, err)
					}
				}
			}
		})
	}
}
