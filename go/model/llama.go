package model

import "github.com/skeep-project/skeep/go/exec"

// decoder is the Llama form, which many families share: norms before attention and feed-forward, and a
// residual stream whose sums are fused into the norms that follow them. Touvron et al. 2023.
func decoder(c exec.Context, n *network, kv *caches, in inputs) View {
	x, positions := n.begin(c, in)
	var delta View // of the part before, not yet added to x
	for i := range n.layers {
		l := &n.layers[i]
		c.Layer(i)
		var normed View
		if l.Heads > 0 {
			x, normed = c.Norm(x, delta, l.attnNorm, View{}, n.arch.Eps)
			delta = l.attention(c, n, normed, positions, kv, i)
		}
		if l.FF > 0 {
			x, normed = c.Norm(x, delta, l.ffnNorm, View{}, n.arch.Eps)
			delta = l.feedForward(c, n, normed)
		}
	}
	return n.end(c, x, delta, in)
}
