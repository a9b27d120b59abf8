// Package sample picks the next token from logits. It applies temperature, top-k, top-p and min-p, in this order. The
// same seed and logits always give the same tokens.
package sample

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

// Params says how to pick. The zero Params is greedy.
type Params struct {
	Temperature float64 // logits are divided by it; 0 picks the largest logit
	TopK        int     // keep the k most probable; 0 keeps all
	TopP        float64 // then keep the smallest set of the most probable whose mass reaches p; 0 or 1 keeps all
	MinP        float64 // then keep those of at least p times the largest probability; 0 keeps all
	Seed        uint64  // of rand.NewPCG(Seed, 0)
}

// ErrParams is wrapped by every error about a parameter.
var ErrParams = errors.New("sample: parameter out of range")

// ErrLogits is wrapped by every error about logits: there are none, or one is not a number.
var ErrLogits = errors.New("sample: unusable logits")

// Sampler holds the random state and scratch of one sequence. It is not safe for concurrent use.
type Sampler struct {
	p    Params
	rng  *rand.Rand
	kept []candidate // reused, so that a step allocates nothing once it has grown
}

type candidate struct {
	id int32
	p  float64 // not normalized
}

// New makes a sampler. A parameter out of its range is an error that names it and wraps ErrParams.
func New(p Params) (*Sampler, error) {
	for _, c := range []struct {
		name  string
		value float64
		max   float64
	}{
		{"temperature", p.Temperature, math.MaxFloat64},
		{"top-k", float64(p.TopK), math.MaxInt32},
		{"top-p", p.TopP, 1},
		{"min-p", p.MinP, 1},
	} {
		if !(c.value >= 0 && c.value <= c.max) {
			want := "at least 0"
			if c.max < math.MaxFloat64 {
				want = fmt.Sprintf("0 to %.0f", c.max)
			}
			return nil, fmt.Errorf("%w: %s is %s, want %s", ErrParams, c.name, strconv.FormatFloat(c.value, 'f', -1, 64), want)
		}
	}
	return &Sampler{p: p, rng: rand.New(rand.NewPCG(p.Seed, 0))}, nil
}

// Greedy returns the id of the largest logit; of equal ones, the lowest id.
func Greedy(logits []float32) (int32, error) {
	if len(logits) == 0 {
		return 0, fmt.Errorf("%w: none", ErrLogits)
	}
	best := 0
	for i, v := range logits {
		if v != v {
			return 0, fmt.Errorf("%w: logit of token %d is NaN", ErrLogits, i)
		}
		if v > logits[best] {
			best = i
		}
	}
	if math.IsInf(float64(logits[best]), 0) {
		return 0, fmt.Errorf("%w: the largest, of token %d, is %v", ErrLogits, best, logits[best])
	}
	return int32(best), nil
}

// Next picks a token id from one row of logits, which it does not modify. Of equal logits the lower id is preferred,
// and sums are computed in float64 in the order of ids, so the same seed gives the same ids on every machine that
// computes the same logits. Each call draws one random number, unless the temperature is 0.
func (s *Sampler) Next(logits []float32) (int32, error) {
	best, err := Greedy(logits)
	if err != nil || s.p.Temperature == 0 {
		return best, err
	}
	s.kept = s.kept[:0]
	top := float64(logits[best])
	for i, v := range logits {
		if p := math.Exp((float64(v) - top) / s.p.Temperature); p > 0 {
			s.kept = append(s.kept, candidate{int32(i), p})
		}
	}
	s.truncate()
	var sum float64
	for _, c := range s.kept {
		sum += c.p
	}
	left := s.rng.Float64() * sum
	for _, c := range s.kept {
		if left -= c.p; left < 0 {
			return c.id, nil
		}
	}
	return s.kept[len(s.kept)-1].id, nil
}

// truncate applies top-k, top-p and min-p and leaves what is kept in id order.
func (s *Sampler) truncate() {
	k, p := s.p.TopK, s.p.TopP
	cutK := k > 0 && k < len(s.kept)
	cutP := p > 0 && p < 1
	if !cutK && !cutP && s.p.MinP == 0 {
		return
	}
	slices.SortFunc(s.kept, func(a, b candidate) int {
		if c := cmp.Compare(b.p, a.p); c != 0 {
			return c
		}
		return cmp.Compare(a.id, b.id)
	})
	if cutK {
		s.kept = s.kept[:k]
	}
	if cutP {
		var sum, mass float64
		for _, c := range s.kept {
			sum += c.p
		}
		for i, c := range s.kept {
			if mass += c.p; mass >= p*sum {
				s.kept = s.kept[:i+1]
				break
			}
		}
	}
	least := s.p.MinP * s.kept[0].p
	n := len(s.kept)
	for n > 1 && s.kept[n-1].p < least {
		n--
	}
	s.kept = s.kept[:n]
	slices.SortFunc(s.kept, func(a, b candidate) int { return cmp.Compare(a.id, b.id) })
}
