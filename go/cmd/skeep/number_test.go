package main

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is no number in JSON is a string there; an object is written whatever a model predicts.
func TestResultsThatAreNotFiniteAreWrittenAsJSON(t *testing.T) {
	kl := number(math.NaN())
	var out bytes.Buffer
	require.NoError(t, write(&out, "json", table{}, perplexityResult{Tokens: 3, NLL: number(math.Inf(1)), Perplexity: 2.5, KLMean: &kl}))
	var got map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Equal(t, map[string]any{"tokens": 3.0, "nll": "+Inf", "perplexity": 2.5, "kl_mean": "NaN"}, got)
}
