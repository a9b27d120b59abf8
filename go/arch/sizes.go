package arch

import (
	"cmp"
	"slices"

	"github.com/skeep-project/skeep/go/internal/argument"
)

// Sizes is the geometry of a model of any architecture, and what it rests on.
type Sizes struct {
	Geometry
	// Bound says that the architecture is unknown, so that the caches are an upper bound: every layer that has heads
	// keeps the keys and values of each of them for the whole context.
	Bound       bool
	Assumptions []Assumption // in the order of keys; empty if the metadata state everything
	Unknown     []Unknown    // what neither metadata nor tensors tell; the sizes of these terms are too low
}

// Assumption is a value that the metadata leave open. Override sets it.
type Assumption struct {
	Key    string // whole: "gemma2.attention.sliding_window"
	Value  string // in the form that Override takes; a description in parentheses if nothing was read instead
	Reason string // why this value
}

// Unknown is a term of a plan that cannot be computed, and the key that would tell it.
type Unknown struct {
	Term string // "kv", "state", "slab"
	Key  string // whole; Override sets it
}

// Measure reads the geometry of a model of any architecture from its metadata, whether it can run here or not, and
// never refuses one for a key that it does not know. For those that Describe accepts, the caches are the ones that a
// session allocates. The bytes follow by Geometry.KVBytes, StateBytes and LayerBytes (the step memory of architectures
// that do not run here is that of a decoder of the same widths), line by line by those of each Layer; Layer.Formula says
// how. To set something that is assumed, measure the result of Override.
//
//	sizes, err := arch.Measure(header)
//	kv := arch.KV{Context: min(sizes.Context, 4096), Chunk: 512, Sequences: 1}
//	bytes, err := sizes.KVBytes(kv, tensor.FormatOf(tensor.EncF16))
//
// Errors are *Error: a key of the wrong kind, out of range, or in contradiction with another.
func Measure(h Header) (*Sizes, error) {
	if h == nil {
		return nil, argument.Nil("arch: measure", "header")
	}
	m := newMeasure(h)
	if m.model(); m.err != nil {
		return nil, m.err
	}
	if known, err := Describe(h); err == nil {
		m.Geometry = known.Geometry // what a session allocates
	}
	slices.SortStableFunc(m.Assumptions, func(a, b Assumption) int { return cmp.Compare(a.Key, b.Key) })
	return &m.Sizes, nil
}
