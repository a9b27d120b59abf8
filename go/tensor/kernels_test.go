package tensor_test

import (
	"testing"

	"github.com/skeep-project/skeep/go/tensor"
)

// The first row that runs here and fits is taken; a row for any encoding or activation fits each.
func TestFind(t *testing.T) {
	row := func(name string, e, a tensor.Encoding, o tensor.Order, runs bool) tensor.KernelInfo {
		return tensor.KernelInfo{Op: tensor.OpMatMulT, Encoding: e, Activation: a, Order: o, Runnable: runs, Name: name}
	}
	panels := tensor.Panels(16)
	kernels := tensor.Kernels{
		row("not here", tensor.Q4_0, tensor.A8, panels, false),
		row("panels", tensor.Q4_0, tensor.A8, tensor.Panels(8), true),
		row("integer", tensor.Q4_0, tensor.A8, tensor.Order{}, true),
		row("any activation", tensor.Q4_0, tensor.AnyEncoding, tensor.Order{}, true),
		row("any", tensor.AnyEncoding, tensor.EncF32, tensor.Order{}, true),
	}
	for want, key := range map[string]struct {
		e, a tensor.Encoding
		o    tensor.Order
	}{
		"":               {tensor.Q4_0, tensor.A8, panels},
		"panels":         {tensor.Q4_0, tensor.A8, tensor.Panels(8)},
		"integer":        {tensor.Q4_0, tensor.A8, tensor.Order{}},
		"any activation": {tensor.Q4_0, tensor.EncF32, tensor.Order{}},
		"any":            {tensor.Q6_K, tensor.EncF32, tensor.Order{}},
	} {
		if k, ok := kernels.Find(tensor.OpMatMulT, key.e, key.a, key.o); k.Name != want || ok != (want != "") {
			t.Errorf("%+v: %q, want %q", key, k.Name, want)
		}
	}
	if got := kernels.Orders(tensor.OpMatMulT, tensor.Q4_0); len(got) != 2 || got[0] != tensor.Panels(8) || got[1] != (tensor.Order{}) {
		t.Errorf("orders %v", got)
	}
}
