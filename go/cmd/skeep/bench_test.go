package main

import (
	"testing"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/model"
	"github.com/stretchr/testify/require"
)

// Three repetitions of 1, 2 and 3 tokens per second, on a machine that reads a byte and multiplies once per second.
func TestBenchDerivesMeanDeviationAndShares(t *testing.T) {
	m, err := model.OpenBytes(t.Context(), "tiny", embedded.Model(), model.Options{})
	require.NoError(t, err)
	defer m.Close()
	r := benchResult{Read: readLimit{BytesPerSecond: 1e6}, Multiply: 1e9}
	generated := benchTest{Generated: 3, Rates: []float64{1, 2, 3}}
	generated.finish(m, r)
	require.Equal(t, 2.0, generated.Rate)
	require.Equal(t, 1.0, generated.Deviation)
	bytes, operations := 0.0, 0.0
	for i := range 3 {
		bytes += float64(m.Work(i, 1).Weights+m.Work(i, 1).KV) / 3
		operations += float64(m.Work(i, 1).Operations) / 3
	}
	require.InEpsilon(t, bytes, generated.Bytes, 1e-12)
	require.InEpsilon(t, 2*bytes/1e6, generated.Share, 1e-12)
	require.InEpsilon(t, 2*operations, generated.Operations, 1e-12)

	prompt := benchTest{Prompt: 4, Rates: []float64{8}}
	prompt.finish(m, r)
	require.Zero(t, prompt.Deviation)
	require.Zero(t, prompt.Share)
	require.InEpsilon(t, 2*float64(m.Work(0, 4).Operations)/1e9, prompt.ShareOfPeak, 1e-12)
	unknown := benchTest{Prompt: 4, Rates: []float64{8}}
	unknown.finish(m, benchResult{Read: r.Read})
	require.Zero(t, unknown.ShareOfPeak)
}

func TestInBillions(t *testing.T) {
	for n, want := range map[int64]string{1_100_048_384: "1.10B", 268_098_176: "268.10M", 2_345_678: "2.35M", 17: "0.02K"} {
		require.Equal(t, want, inBillions(n))
	}
}
