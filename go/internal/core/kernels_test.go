package core_test

import (
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

// The lookup of Go is that of C, over all that can be asked.
func TestFindIsThatOfC(t *testing.T) {
	kernels := core.Kernels()
	encodings := []tensor.Encoding{tensor.AnyEncoding, 4, 511, 512} // no encoding, retired, unknown
	for e := range tensor.Encodings() {
		encodings = append(encodings, e.ID)
	}
	orders := []tensor.Order{{}, {Family: tensor.InputBlockMajor}, tensor.Panels(8), tensor.Panels(16), {Version: 1}}
	for _, k := range kernels {
		if !slices.Contains(orders, k.Order) {
			orders = append(orders, k.Order)
		}
	}
	found := map[tensor.Op]int{}
	for op := tensor.Op(0); op < 32; op++ {
		for _, e := range encodings {
			for _, a := range encodings {
				for _, o := range orders {
					k, ok := kernels.Find(op, e, a, o)
					switch row := coretest.FindKernel(op, e, a, o); {
					case ok != (row >= 0), ok && k != kernels[row]:
						t.Errorf("%v, %v by %v in %v: %+v, row %d in C", op, e, a, o, k, row)
					case ok:
						found[op]++
					}
				}
			}
		}
	}
	for _, k := range kernels {
		if k.Runnable && found[k.Op] == 0 {
			t.Errorf("no row of %v was found", k.Op)
		}
	}
}
