package model

import "github.com/skeep-project/skeep/go/exec"

// gemma3 norms before and behind attention and feed-forward, and adds to the residual stream what the
// second norm leaves. Windows, rotary bases and scales are facts of the layers. Gemma Team 2025.
func gemma3(c exec.Context, n *network, kv *caches, in inputs) View {
	x, positions := n.begin(c, in)
	for i := range n.layers {
		l := &n.layers[i]
		c.Layer(i)
		if l.Heads > 0 {
			_, normed := c.Norm(x, View{}, l.attnNorm, View{}, n.arch.Eps)
			_, x = c.Norm(l.attention(c, n, normed, positions, kv, i), View{}, l.postAttnNorm, x, n.arch.Eps)
		}
		if l.FF > 0 {
			_, normed := c.Norm(x, View{}, l.ffnNorm, View{}, n.arch.Eps)
			_, x = c.Norm(l.feedForward(c, n, normed), View{}, l.postFFNNorm, x, n.arch.Eps)
		}
	}
	return n.end(c, x, View{}, in)
}
