package model

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/skeep-project/skeep/go/tokenizer"
	"github.com/stretchr/testify/require"
)

// gemma opens Gemma 3 270M, and reads a file of what it should say from the folder of real models.
func gemma(t *testing.T, o Options, facts string, into any) *Model {
	dir, path := models(t), os.Getenv("SKEEP_TEST_GEMMA")
	if path == "" {
		t.Skip("SKEEP_TEST_GEMMA is not set: no Gemma 3 270M (253 MB)")
	}
	b, err := os.ReadFile(filepath.Join(dir, "gemma3-270m", facts))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into))
	m, err := Open(context.Background(), path, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// TestGemmaExactContinuations: exact mode gives the ids of a separate single-precision program up to the
// first margin below 0.01, and its first logits. One prompt is longer than the window.
func TestGemmaExactContinuations(t *testing.T) {
	var all []struct {
		greedy
		FirstLogits [][2]float64 `json:"exact_first_logits"`
	}
	m := gemma(t, Options{Exact: true, Context: 1024}, "greedy.json", &all)
	require.NotEmpty(t, all)
	longest := 0
	for _, g := range all {
		ids := m.Tokenizer().Encode(g.Prompt, tokenizer.EncodeOptions{BOS: true})
		require.Equal(t, g.PromptIDs, ids, g.Prompt)
		longest = max(longest, len(ids))
		s := session(t, m)
		logits, err := s.Append(context.Background(), ids...)
		require.NoError(t, err)
		for _, f := range g.FirstLogits {
			require.InDelta(t, f[1], logits[int(f[0])], 2e-3, g.Prompt)
		}
		require.NoError(t, s.Close())
		want := g.decisive(0.01)
		require.Equal(t, want, continuation(t, m, ids, len(g.ExactIDs))[:len(want)], g.Prompt)
	}
	require.Greater(t, longest, m.Arch().Layers[0].Window)
}

// TestGemmaFastAgainstExact: negative log-likelihoods of the exact mode agree with a separate program's,
// and 8-bit activations with an F16 cache stay as close as a widely used runtime does.
func TestGemmaFastAgainstExact(t *testing.T) {
	var text struct {
		Text string    `json:"text"`
		IDs  []int32   `json:"ids"`
		NLL  []float64 `json:"nll"`
		Top1 []int32   `json:"top1"`
	}
	exact := gemma(t, Options{Exact: true, Context: 512}, "text.json", &text)
	fast := gemma(t, Options{Context: 512}, "text.json", &text)
	require.Equal(t, text.IDs, exact.Tokenizer().Encode(text.Text, tokenizer.EncodeOptions{BOS: true}))
	nll, err := exact.NegativeLogLikelihoods(context.Background(), text.IDs)
	require.NoError(t, err)
	require.Len(t, nll, len(text.NLL))
	for i := range nll {
		require.InDelta(t, text.NLL[i], nll[i], 1e-3, "place %d", i)
	}
	d, err := Compare(context.Background(), exact, fast, text.IDs)
	require.NoError(t, err)
	t.Logf("KL mean %.5f, median %.5f, 99th percentile %.5f; another best id in %d of %d places", d.Mean(), d.Quantile(0.5), d.Quantile(0.99), len(d.KL)-d.SameTop, len(d.KL))
	require.LessOrEqual(t, d.Mean(), 0.005)
	require.LessOrEqual(t, len(d.KL)-d.SameTop, 12)
}
