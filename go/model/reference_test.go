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

// models is the folder of real model files that tests may use.
func models(t testing.TB) string {
	dir := os.Getenv("SKEEP_TEST_MODELS")
	if dir == "" {
		t.Skip("SKEEP_TEST_MODELS is not set: no real model files")
	}
	return dir
}

// greedy is a continuation that another implementation computed in single precision, with the distance
// of the best logit to the second.
type greedy struct {
	File         string    `json:"file"`
	Prompt       string    `json:"prompt"`
	PromptIDs    []int32   `json:"prompt_ids"`
	ExactIDs     []int32   `json:"exact_ids"`
	ExactMargins []float64 `json:"exact_margins"`
}

// decisive is how many ids of g are certain: those before the first margin below margin.
func (g greedy) decisive(margin float64) []int32 {
	for i, m := range g.ExactMargins {
		if m < margin {
			return g.ExactIDs[:i]
		}
	}
	return g.ExactIDs
}

func continuation(t testing.TB, m *Model, ids []int32, n int) (out []int32) {
	s, err := m.NewSession()
	require.NoError(t, err)
	for token, err := range s.Generate(context.Background(), ids, GenerateOptions{MaxTokens: n}) {
		require.NoError(t, err)
		out = append(out, token.ID)
	}
	require.NoError(t, s.Close())
	return out
}

// TestGreedyContinuations compares with ids that another implementation computed. F32 and F16 files agree
// in every id, in both modes; packed ones as far as the margins are decisive.
func TestGreedyContinuations(t *testing.T) {
	dir := models(t)
	b, err := os.ReadFile(filepath.Join(dir, "greedy.json"))
	require.NoError(t, err)
	var all []greedy
	require.NoError(t, json.Unmarshal(b, &all))
	require.NotEmpty(t, all)
	for _, exact := range []bool{true, false} {
		compared := 0
		for _, g := range all {
			m, err := Open(context.Background(), filepath.Join(dir, g.File), Options{Exact: exact, Context: 512})
			require.NoError(t, err)
			ids := m.Tokenizer().Encode(g.Prompt, tokenizer.EncodeOptions{BOS: true})
			require.Equal(t, g.PromptIDs, ids, g.Prompt)
			want := g.ExactIDs
			if g.File == "stories260K-Q8_0.gguf" || g.File == "stories260K-Q4_0.gguf" {
				want = g.decisive(map[bool]float64{true: 0.01, false: 0.1}[exact])
			}
			require.Equal(t, want, continuation(t, m, ids, len(g.ExactIDs))[:len(want)], "%s, exact %v, %q", g.File, exact, g.Prompt)
			compared += len(want)
			require.NoError(t, m.Close())
		}
		t.Logf("exact %v: %d ids of %d continuations agree", exact, compared, len(all))
	}
}
