package model

import (
	"fmt"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// View is the tensor type of model code.
type View = skeep.View

// Network is the weights of a model, by what they are for. It is immutable.
type Network struct {
	arch        *arch.Model
	weights     map[tensor.ID]View
	embed       View
	outputNorm  View
	head        View // the embedding table when the head is tied
	ropeFactors View
	layers      []layer
	// Rows of one number each, as wide as the residual stream; absent when the number is 1.
	residualScale, logitScale View
}

// layer is the weights of a layer; absent ones are zero Views.
type layer struct {
	*arch.Layer
	attnNorm, ffnNorm, postAttnNorm, postFFNNorm View
	qkv, qkvBias                                 [3]View // of all three in the first, when they are fused
	qNorm, kNorm                                 View
	out, outBias                                 View
	gateUp                                       [3]View // both in the first, when they are fused; the third is absent
	down                                         View
	kName, vName                                 string // of the caches
}

// caches are a sequence's keys and values, a pair per layer; zero Views in layers without attention.
type caches struct{ k, v []View }

// newNetwork looks up the weights. Rows of constants are made in scope. context is the maximum of positions.
func newNetwork(m *arch.Model, w *load.Weights, scope skeep.Scope, context int) (n *Network, err error) {
	if m.Experts > 0 {
		return nil, fmt.Errorf("%w: architecture %s with experts", ErrUnsupported, m.Arch)
	}
	n = &Network{arch: m, weights: map[tensor.ID]View{}, layers: make([]layer, len(m.Layers))}
	for _, t := range m.Tensors {
		if v, ok := w.View(t.ID.String()); ok { // arch has checked that required ones are there
			n.weights[t.ID] = v
		}
	}
	model := func(r tensor.Role) View { return n.Weight(tensor.IDOf(r, -1)) }
	n.embed, n.outputNorm, n.head = model(tensor.TokenEmbed), model(tensor.OutputNorm), model(tensor.Output)
	n.ropeFactors = model(tensor.RopeFreqs)
	if long := model(tensor.RopeFactorsLong); !long.IsZero() && context > m.ShortContext {
		n.ropeFactors = long
	} else if short := model(tensor.RopeFactorsShort); !short.IsZero() {
		n.ropeFactors = short
	}
	if n.residualScale, err = constant(scope, "residual_scale", m.ResidualScale, m.Width); err != nil {
		return nil, err
	}
	if n.logitScale, err = constant(scope, "logit_scale", m.LogitScale, m.Width); err != nil {
		return nil, err
	}
	for i := range n.layers {
		weight := func(r tensor.Role) View { return n.Weight(tensor.IDOf(r, i)) }
		bias := func(r tensor.Role) View {
			return n.Weight(tensor.ID{Layer: tensor.IDOf(r, i).Layer, Role: r, Kind: tensor.Bias})
		}
		l := layer{
			Layer:    &m.Layers[i],
			attnNorm: weight(tensor.AttnNorm), ffnNorm: weight(tensor.FFNNorm),
			postAttnNorm: weight(tensor.PostAttnNorm), postFFNNorm: weight(tensor.PostFFNNorm),
			qkv:     [3]View{weight(tensor.AttnQ), weight(tensor.AttnK), weight(tensor.AttnV)},
			qkvBias: [3]View{bias(tensor.AttnQ), bias(tensor.AttnK), bias(tensor.AttnV)},
			qNorm:   weight(tensor.AttnQNorm), kNorm: weight(tensor.AttnKNorm),
			out: weight(tensor.AttnOutput), outBias: bias(tensor.AttnOutput),
			gateUp: [3]View{weight(tensor.FFNGate), weight(tensor.FFNUp)}, down: weight(tensor.FFNDown),
			kName: fmt.Sprintf("kv.%d.k", i), vName: fmt.Sprintf("kv.%d.v", i),
		}
		if fused := weight(tensor.AttnQKV); !fused.IsZero() {
			l.qkv, l.qkvBias = [3]View{fused}, [3]View{bias(tensor.AttnQKV)}
		}
		if l.gateUp[0].IsZero() {
			l.gateUp = [3]View{l.gateUp[1]}
		}
		n.layers[i] = l
	}
	return n, nil
}

// constant is a row of n times x, or absent when x is 1.
func constant(scope skeep.Scope, name string, x float32, n int) (View, error) {
	if x == 1 {
		return View{}, nil
	}
	v, err := scope.Alloc(name, tensor.Dense(tensor.F32), tensor.ShapeOf(int64(n)))
	if err != nil {
		return View{}, err
	}
	row := make([]float32, n)
	for i := range row {
		row[i] = x
	}
	return v, v.WriteFloat32s(row)
}
