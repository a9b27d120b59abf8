package model

import (
	"github.com/skeep-project/skeep/go/exec"
	"github.com/skeep-project/skeep/go/tensor"
)

// decoder computes what an arch.Family describes: attention and feed-forward parts, each with a norm before it, behind it,
// or both, and a residual stream whose sums are fused into the norms where that is possible. Touvron et al. 2023; norms
// behind: Gemma Team 2024, OLMo Team 2025.
func decoder(c exec.Context, n *Network, in Inputs) View {
	c.Layer(-1)
	x := c.Embed(n.embed, c.Input("ids", in.IDs), n.arch.EmbedScale)
	positions := c.Input("positions", in.Positions)
	var delta View // of the part before, not yet added to x
	for i := range n.layers {
		l := &n.layers[i]
		c.Layer(i)
		var normed View
		if l.Heads > 0 {
			x, normed = n.before(c, x, delta, l.attnNorm)
			kCache, vCache := c.Input(l.kName, in.K[i]), c.Input(l.vName, in.V[i])
			x, delta = n.behind(c, x, l.attention(c, n, normed, positions, kCache, vCache), l.postAttnNorm)
		}
		if l.FF > 0 {
			x, normed = n.before(c, x, delta, l.ffnNorm)
			x, delta = n.behind(c, x, l.feedForward(c, n, normed), l.postFFNNorm)
		}
	}
	c.Layer(-1)
	x = c.Last(x, in.Rows)
	if !delta.IsZero() {
		delta = c.Last(delta, in.Rows)
	}
	_, x = c.Norm(x, delta, n.outputNorm, View{}, n.arch.Eps)
	if !n.logitScale.IsZero() {
		x = c.Mul(x, n.logitScale)
	}
	return c.Logits(x, n.head, n.arch.FinalSoftcap)
}

// before adds to x what the part before has left, and norms the sum for the next part if that has a norm.
func (n *Network) before(c exec.Context, x, delta, norm View) (sum, input View) {
	if !norm.IsZero() {
		return c.Norm(x, delta, norm, View{}, n.arch.Eps)
	}
	if !delta.IsZero() {
		x = c.Add(x, delta)
	}
	return x, x
}

// behind is the residual stream after a part's result y. Without a norm, y is left for the next one to add.
func (n *Network) behind(c exec.Context, x, y, norm View) (sum, delta View) {
	if !norm.IsZero() {
		_, x = c.Norm(y, View{}, norm, x, n.arch.Eps)
		return x, View{}
	}
	if !n.residualScale.IsZero() {
		y = c.Mul(y, n.residualScale)
	}
	return x, y
}

// attention is x [T, width] through the layer's heads: project, norm, rotate, store, attend, project.
func (l *layer) attention(c exec.Context, n *Network, x, positions, kCache, vCache View) View {
	qkv := c.Project(x, l.qkv, l.qkvBias)
	q, k, v := qkv[0], qkv[1], qkv[2]
	if l.qkv[1].IsZero() { // fused
		keys, values := l.KVHeads*l.KeyDim, l.KVHeads*l.ValueDim
		q, k, v = c.Narrow(qkv[0], 1, 0, l.Heads*l.KeyDim), c.Narrow(qkv[0], 1, l.Heads*l.KeyDim, keys), c.Narrow(qkv[0], 1, l.Heads*l.KeyDim+keys, values)
	}
	perHead := l.QKNorm && l.qNorm.Shape().Dims[0] == int64(l.KeyDim) // else all heads together
	if l.QKNorm && !perHead {
		_, q = c.Norm(q, View{}, l.qNorm, View{}, n.arch.Eps)
		_, k = c.Norm(k, View{}, l.kNorm, View{}, n.arch.Eps)
	}
	q, k, v = c.Split(q, 1, l.Heads), c.Split(k, 1, l.KVHeads), c.Split(v, 1, l.KVHeads)
	if perHead {
		_, q = c.Norm(q, View{}, l.qNorm, View{}, n.arch.Eps)
		_, k = c.Norm(k, View{}, l.kNorm, View{}, n.arch.Eps)
	}
	if l.Rope.Dims > 0 {
		q, k = c.Rope(q, positions, n.ropeFactors, l.Rope), c.Rope(k, positions, n.ropeFactors, l.Rope)
	}
	kAll, vAll := c.KVStore(k, v, positions, View{}, kCache, vCache)
	a := c.Attend(q, kAll, vAll, positions, View{}, tensor.AttendParams{Scale: l.AttnScale, Softcap: l.AttnSoftcap, Window: uint32(l.Window)})
	return c.Project(c.Merge(a, 1), [3]View{l.out}, [3]View{l.outBias})[0]
}

// feedForward is x [T, width] through the gated unit.
func (l *layer) feedForward(c exec.Context, n *Network, x View) View {
	gu := c.Project(x, l.gateUp, [3]View{})
	gate, up := gu[0], gu[1]
	if l.gateUp[1].IsZero() { // fused
		gate, up = c.Narrow(gu[0], 1, 0, l.FF), c.Narrow(gu[0], 1, l.FF, l.FF)
	}
	return c.MatMulT(c.GLU(gate, up, n.arch.Activation), l.down)
}
