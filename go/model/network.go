package model

import (
	"fmt"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/exec"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// View is the tensor type of model code.
type View = skeep.View

// network is the weights of a model, by what they are for. Absent ones are zero Views.
type network struct {
	arch        *arch.Model
	embed       View
	outputNorm  View
	head        View // the embedding table when the head is tied
	ropeFactors View
	layers      []layer
}

type layer struct {
	*arch.Layer
	attnNorm, ffnNorm, postAttnNorm, postFFNNorm View
	qkv, qkvBias                                 [3]View
	qNorm, kNorm                                 View
	out, outBias                                 View
	gateUp                                       [3]View // the third is absent
	down                                         View
}

// caches are a sequence's keys and values, a pair per layer; zero Views in layers without attention.
type caches struct{ k, v []View }

// inputs is what changes from step to step. All are I32 views.
type inputs struct {
	ids, positions View
	tokens         int // rows of the step
	logits         int // how many of the last rows logits are wanted for
}

// A family computes the logits [inputs.logits, vocab] of one step: the same code for every context.
type family func(c exec.Context, n *network, kv *caches, in inputs) View

// families says which function computes an architecture that package arch describes.
var families = map[string]family{
	"llama":  decoder,
	"qwen2":  decoder,
	"qwen3":  decoder,
	"gemma3": gemma3,
}

func newNetwork(m *arch.Model, w *load.Weights) (*network, error) {
	if m.Experts > 0 {
		return nil, fmt.Errorf("%w: architecture %s with experts", ErrUnsupported, m.Arch)
	}
	get := func(r tensor.Role, layer int, kind tensor.Kind) View {
		id := tensor.IDOf(r, layer)
		id.Kind = kind
		v, _ := w.View(id.String()) // arch has checked that required ones are there
		return v
	}
	model := func(r tensor.Role) View { return get(r, -1, tensor.Weight) }
	n := &network{arch: m, embed: model(tensor.TokenEmbed), outputNorm: model(tensor.OutputNorm), head: model(tensor.Output),
		ropeFactors: model(tensor.RopeFreqs), layers: make([]layer, len(m.Layers))}
	if m.TiedHead {
		n.head = n.embed
	}
	for i := range n.layers {
		weight := func(r tensor.Role) View { return get(r, i, tensor.Weight) }
		bias := func(r tensor.Role) View { return get(r, i, tensor.Bias) }
		n.layers[i] = layer{
			Layer:    &m.Layers[i],
			attnNorm: weight(tensor.AttnNorm), ffnNorm: weight(tensor.FFNNorm),
			postAttnNorm: weight(tensor.PostAttnNorm), postFFNNorm: weight(tensor.PostFFNNorm),
			qkv:     [3]View{weight(tensor.AttnQ), weight(tensor.AttnK), weight(tensor.AttnV)},
			qkvBias: [3]View{bias(tensor.AttnQ), bias(tensor.AttnK), bias(tensor.AttnV)},
			qNorm:   weight(tensor.AttnQNorm), kNorm: weight(tensor.AttnKNorm),
			out: weight(tensor.AttnOutput), outBias: bias(tensor.AttnOutput),
			gateUp: [3]View{weight(tensor.FFNGate), weight(tensor.FFNUp)}, down: weight(tensor.FFNDown),
		}
	}
	return n, nil
}

// attention is x [T, width], normed, through the layer's heads: project, norm, rotate, store, attend, project.
func (l *layer) attention(c exec.Context, n *network, x View, positions View, kv *caches, i int) View {
	qkv := c.Project(x, l.qkv, l.qkvBias)
	q, k, v := c.Split(qkv[0], 1, l.Heads), c.Split(qkv[1], 1, l.KVHeads), c.Split(qkv[2], 1, l.KVHeads)
	if l.QKNorm {
		_, q = c.Norm(q, View{}, l.qNorm, View{}, n.arch.Eps)
		_, k = c.Norm(k, View{}, l.kNorm, View{}, n.arch.Eps)
	}
	q, k = c.Rope(q, positions, n.ropeFactors, l.Rope), c.Rope(k, positions, n.ropeFactors, l.Rope)
	kAll, vAll := c.KVStore(k, v, positions, View{}, kv.k[i], kv.v[i])
	a := c.Attend(q, kAll, vAll, positions, View{}, tensor.AttendParams{Scale: l.AttnScale, Softcap: l.AttnSoftcap, Window: uint32(l.Window)})
	return c.Project(c.Merge(a, 1), [3]View{l.out}, [3]View{l.outBias})[0]
}

// feedForward is x [T, width], normed, through the gated unit.
func (l *layer) feedForward(c exec.Context, n *network, x View) View {
	gu := c.Project(x, l.gateUp, [3]View{})
	return c.MatMulT(c.GLU(gu[0], gu[1], n.arch.Activation), l.down)
}

// begin names the step's inputs and embeds its tokens.
func (n *network) begin(c exec.Context, in inputs) (x, positions View) {
	c.Layer(-1)
	ids := c.Input("ids", in.ids)
	return c.Embed(n.embed, ids, n.arch.EmbedScale), c.Input("positions", in.positions)
}

// end is the logits of the wanted rows of the residual stream x + delta.
func (n *network) end(c exec.Context, x, delta View, in inputs) View {
	c.Layer(-1)
	if in.logits < in.tokens {
		x = c.Narrow(x, 0, in.tokens-in.logits, in.logits)
		if !delta.IsZero() {
			delta = c.Narrow(delta, 0, in.tokens-in.logits, in.logits)
		}
	}
	_, x = c.Norm(x, delta, n.outputNorm, View{}, n.arch.Eps)
	return c.Logits(x, n.head, n.arch.FinalSoftcap)
}
