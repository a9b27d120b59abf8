package gguf

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/tokenizer"
)

// The side arrays of a vocabulary are read with it, so a file with wrong ones is refused at load.
// Case A15.
func TestWrongSideArraysOfAVocabularyAreRefused(t *testing.T) {
	const n = 100
	tokens, scores, types := make([]string, n), make([]float32, n), make([]int32, n)
	for i := range tokens {
		tokens[i], scores[i], types[i] = fmt.Sprintf("t%d", i), -float32(i), 1
	}
	tokens[0], types[0] = "<unk>", 2
	bytes := make([]any, n)
	for i := range bytes {
		bytes[i] = uint8(i)
	}
	for _, c := range []struct {
		model, key string // the array that is wrong; none at first
		val        any
	}{
		{"llama", "", nil},
		{"llama", "tokenizer.ggml.scores", scores[:3]},
		{"llama", "tokenizer.ggml.scores", list{0, bytes}},
		{"llama", "tokenizer.ggml.scores", "none"},
		{"llama", "tokenizer.ggml.token_type", types[:n-1]},
		{"llama", "tokenizer.ggml.token_type", scores},
		{"gpt2", "tokenizer.ggml.merges", []string{"t1 0", "t10"}},
		{"gpt2", "tokenizer.ggml.merges", types},
	} {
		s := spec{kv: []kv{{"general.architecture", "llama"}, {"tokenizer.ggml.model", c.model}, {"tokenizer.ggml.pre", "gpt-2"}}}
		for _, k := range []kv{{"tokenizer.ggml.tokens", tokens}, {"tokenizer.ggml.scores", scores}, {"tokenizer.ggml.token_type", types}, {"tokenizer.ggml.merges", []string{}}} {
			if k.key == c.key {
				k.val = c.val
			}
			s.kv = append(s.kv, k)
		}
		f := mustRead(t, s.build()) // the file itself is well formed
		_, err := tokenizer.New(f, tokenizer.Options{})
		if c.key == "" {
			require.NoError(t, err)
			continue
		}
		var e *tokenizer.Error
		require.ErrorAs(t, err, &e, "%s: %v", c.key, c.val)
		require.Equal(t, c.key, e.Key)
		require.ErrorIs(t, err, tokenizer.ErrInvalid)
	}
}
