package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/tensor"
)

// Every tensor of the file counts once as bytes, except a table that is only looked up in; every matrix of a layer
// multiplies all tokens, the output layer one; of the caches counts what the windows let tokens see.
func TestWorkCountsWhatAStepReadsAndMultiplies(t *testing.T) {
	for _, family := range []string{"llama", "qwen2", "gemma3"} {
		s := newSmall(family)
		f32 := tensor.EncF32
		m, err := OpenBytes(t.Context(), family, s.file(t, nil), Options{KV: &f32})
		require.NoError(t, err)
		const embed, head = "token_embd.weight", "output.weight"
		bytes, layers, last := 0, 0, len(s.weights[embed])
		if own, ok := s.weights[head]; ok {
			bytes -= 4 * len(s.weights[embed])
			last = len(own)
		}
		for name, w := range s.weights {
			bytes += 4 * len(w)
			if len(s.shapes[name]) == 2 && name != embed && name != head {
				layers += len(w)
			}
		}
		for _, x := range []struct{ position, tokens, local, global int }{{0, 1, 1, 1}, {9, 1, 6, 10}, {9, 3, 8, 12}, {2, 4, 6, 6}} {
			seen := 0
			for i := range s.facts.layers {
				if s.facts.local != nil && s.facts.local(i) {
					seen += x.local
				} else {
					seen += x.global
				}
			}
			w := m.Work(x.position, x.tokens)
			require.Equal(t, Work{
				Weights:    int64(bytes),
				KV:         int64(2 * 4 * s.facts.kvHeads * s.facts.dim * seen),
				Operations: int64(2 * (x.tokens*layers + last)),
			}, w, "%s at %d, %d tokens", family, x.position, x.tokens)
		}
		require.Equal(t, int64(bytes), m.TokenBytes())
		require.NoError(t, m.Close())
	}
}
