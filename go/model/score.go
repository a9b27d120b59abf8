package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/skeep-project/skeep/go/skeep"
)

// LogSumExp is ln Σ exp(x), so that x[i] - LogSumExp(x) is the log-probability of id i. The sum is computed in float64
// in the order of ids. It is -∞ for an empty slice.
func LogSumExp(logits []float32) float64 {
	if len(logits) == 0 {
		return math.Inf(-1)
	}
	top := float64(slices.Max(logits))
	if math.IsInf(top, 0) {
		return top
	}
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - top)
	}
	return top + math.Log(sum)
}

// Divergence compares the predictions of two models position by position.
type Divergence struct {
	KL      []float64 // Kullback-Leibler divergence of the second model from the first, in nats, at each position
	SameTop int       // number of positions where both have the same most probable id
}

// Quantile is the smallest divergence that a fraction q of all positions does not exceed.
func (d *Divergence) Quantile(q float64) float64 {
	if len(d.KL) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d.KL))
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(q*float64(len(sorted))))-1))]
}

// Mean is the average divergence.
func (d *Divergence) Mean() (mean float64) {
	for _, kl := range d.KL {
		mean += kl / float64(len(d.KL))
	}
	return mean
}

// NegativeLogLikelihoods returns -ln p(id | the ids before it), in nats, for every id except the first.
func (m *Model) NegativeLogLikelihoods(ctx context.Context, ids []int32) (nll []float64, err error) {
	s, err := m.NewSession()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = s.Score(ctx, ids, func(i int, logits []float32) error {
		if i+1 < len(ids) {
			nll = append(nll, LogSumExp(logits)-float64(logits[ids[i+1]]))
		}
		return nil
	})
	return nll, err
}

// Compare runs ids (at least one) through two models with the same vocabulary and compares their predictions at every
// position.
func Compare(ctx context.Context, exact, other *Model, ids []int32) (d Divergence, err error) {
	if exact == nil || other == nil {
		return d, &skeep.Error{Op: "compare", Err: skeep.ErrArgument, Detail: "the model is nil"}
	}
	if len(ids) == 0 {
		return d, errNoTokens
	}
	a, err := exact.NewSession()
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	b, err := other.NewSession()
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if a, b := exact.arch.Vocab, other.arch.Vocab; a != b {
		return d, fmt.Errorf("%w: vocabularies of %d and %d tokens cannot be compared", ErrOption, a, b)
	}
	const rows = 16 // logits of so many places are held at a time
	held := make([]float32, 0, rows*exact.arch.Vocab)
	for part := range slices.Chunk(ids, rows) {
		held = held[:0]
		keep := func(_ int, logits []float32) error { held = append(held, logits...); return nil }
		if err := a.Score(ctx, part, keep); err != nil {
			return d, err
		}
		err := b.Score(ctx, part, func(i int, logits []float32) error {
			d.add(held[i*exact.arch.Vocab:][:exact.arch.Vocab], logits)
			return nil
		})
		if err != nil {
			return d, err
		}
	}
	return d, nil
}

func (d *Divergence) add(p, q []float32) {
	lp, lq := LogSumExp(p), LogSumExp(q)
	kl := 0.0
	bestP, bestQ := 0, 0
	for i := range p {
		ln := float64(p[i]) - lp
		kl += math.Exp(ln) * (ln - (float64(q[i]) - lq))
		if p[i] > p[bestP] {
			bestP = i
		}
		if q[i] > q[bestQ] {
			bestQ = i
		}
	}
	d.KL = append(d.KL, kl)
	if bestP == bestQ {
		d.SameTop++
	}
}
