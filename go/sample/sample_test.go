package sample_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/skeep-project/skeep/go/sample"
	"github.com/stretchr/testify/require"
)

func TestGreedyTieGoesToLowerID(t *testing.T) {
	id, err := sample.Greedy([]float32{-1, 3, 3, 2})
	require.NoError(t, err)
	require.EqualValues(t, 1, id)
}

func TestUnusableLogits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	s, err := sample.New(sample.Params{Temperature: 1})
	require.NoError(t, err)
	for _, logits := range [][]float32{nil, {nan}, {1, nan}, {inf, 0}, {-inf, -inf}} {
		_, err := s.Next(logits)
		require.ErrorIs(t, err, sample.ErrLogits, "%v", logits)
	}
	id, err := s.Next([]float32{-inf, 0, -inf})
	require.NoError(t, err)
	require.EqualValues(t, 1, id)
}

func TestParams(t *testing.T) {
	for _, p := range []sample.Params{{Temperature: -1}, {Temperature: math.NaN()}, {TopK: -1}, {TopP: 1.5}, {MinP: -0.1}} {
		_, err := sample.New(p)
		require.True(t, errors.Is(err, sample.ErrParams), "%+v", p)
	}
}

// counts draws n tokens and returns how often each came.
func counts(t *testing.T, p sample.Params, logits []float32, n int) []float64 {
	s, err := sample.New(p)
	require.NoError(t, err)
	c := make([]float64, len(logits))
	for range n {
		id, err := s.Next(logits)
		require.NoError(t, err)
		c[id] += 1 / float64(n)
	}
	return c
}

func TestDistributions(t *testing.T) {
	// Probabilities 0.1, 0.4, 0.3, 0.2 at temperature 1.
	logits := make([]float32, 4)
	for i, p := range []float64{0.1, 0.4, 0.3, 0.2} {
		logits[i] = float32(math.Log(p))
	}
	for _, c := range []struct {
		p    sample.Params
		want []float64
	}{
		{sample.Params{Temperature: 1}, []float64{0.1, 0.4, 0.3, 0.2}},
		{sample.Params{Temperature: 0.5}, []float64{1. / 30, 16. / 30, 9. / 30, 4. / 30}},
		{sample.Params{Temperature: 1, TopK: 2}, []float64{0, 4. / 7, 3. / 7, 0}},
		{sample.Params{Temperature: 1, TopK: 1}, []float64{0, 1, 0, 0}},
		{sample.Params{Temperature: 1, TopP: 0.65}, []float64{0, 4. / 7, 3. / 7, 0}},
		{sample.Params{Temperature: 1, TopP: 0.75}, []float64{0, 4. / 9, 3. / 9, 2. / 9}},
		{sample.Params{Temperature: 1, MinP: 0.6}, []float64{0, 4. / 7, 3. / 7, 0}},
		{sample.Params{Temperature: 1, TopK: 3, TopP: 0.5, MinP: 0.9}, []float64{0, 1, 0, 0}},
	} {
		got := counts(t, c.p, logits, 20000)
		for i := range got {
			require.InDelta(t, c.want[i], got[i], 0.02, "%+v", c.p)
			require.Equal(t, c.want[i] == 0, got[i] == 0, "%+v", c.p)
		}
	}
}

func TestEqualProbabilitiesKeepTheLowerIDs(t *testing.T) {
	got := counts(t, sample.Params{Temperature: 1, TopK: 2}, make([]float32, 5), 100)
	require.Zero(t, got[2]+got[3]+got[4])
	require.NotZero(t, got[0])
	require.NotZero(t, got[1])
}

func TestSameSeedSameIDsWithoutAllocation(t *testing.T) {
	logits := make([]float32, 1000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range logits {
		logits[i] = r.Float32() * 10
	}
	p := sample.Params{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, Seed: 7}
	a, err := sample.New(p)
	require.NoError(t, err)
	b, err := sample.New(p)
	require.NoError(t, err)
	for range 200 {
		x, err := a.Next(logits)
		require.NoError(t, err)
		y, err := b.Next(logits)
		require.NoError(t, err)
		require.Equal(t, x, y)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = a.Next(logits) }))
}

func ExampleSampler_Next() {
	s, err := sample.New(sample.Params{Temperature: 0.7, TopK: 2, Seed: 42})
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := s.Next([]float32{0.5, 8, -3})
	fmt.Println(id, err)
	// Output: 1 <nil>
}
