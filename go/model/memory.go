package model

import (
	"errors"

	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// Memory measures the current memory use.
func (s *Session) Memory() (Memory, error) {
	if err := s.openFor("memory"); err != nil {
		return Memory{}, err
	}
	p, err := trace.Probe()
	c := skeep.Stats()
	m := Memory{Heap: p.GoHeap, OffHeap: c.Bytes[tensor.OffHeap], Mapped: c.Bytes[tensor.Mapped], Resident: p.Resident, Private: p.Anonymous, Huge: p.Huge}
	slab := s.eager.Slab()
	m.Slab, m.SlabPeak = slab.Bytes, slab.Peak
	for _, list := range [][]View{s.kv.k, s.kv.v} {
		for _, v := range list {
			if !v.IsZero() {
				m.KV += v.Bytes()
			}
		}
	}
	for _, file := range s.m.weights.Mappings() {
		n, residentErr := file.Resident()
		err = errors.Join(err, residentErr)
		m.MappedResident += n
	}
	return m, err
}

// Forms returns how many weights the model has in which form. Weights that it does not use are not counted. It is zero in
// Options.Prepare, when no weights are loaded.
func (m *Model) Forms() (f Forms) {
	if m.net == nil {
		return f
	}
	for _, d := range m.resolution.Decisions {
		into := &f.Stored
		switch {
		case !d.IsWeight || d.Form.Action == resolver.Skip:
			continue
		case d.Form.Action == resolver.Dequantize:
			into = &f.Dequantized
		case d.Form.Action == resolver.Requantize:
			into = &f.Requantized
		case d.Form.Residency == resolver.PackPages:
			into = &f.Packed
		case d.Form.Reordered():
			into = &f.Feed
		}
		into.Weights++
		into.Bytes += d.Form.Bytes
	}
	f.Reordering = m.weights.Reordered().Elapsed.Seconds()
	return f
}

// Forms is how many weights have which form.
type Forms struct {
	Stored      FormCount `json:"stored"`      // as in the file
	Feed        FormCount `json:"feed"`        // private copies in feed order
	Packed      FormCount `json:"packed"`      // pages of a pack, in feed order
	Dequantized FormCount `json:"dequantized"` // decoded once, at load
	Requantized FormCount `json:"requantized"` // encoded once, at load
	Reordering  float64   `json:"reordering"`  // seconds that the load took to make the copies in feed order
}

// FormCount is a number of weights, and their bytes in this form.
type FormCount struct {
	Weights int   `json:"weights"`
	Bytes   int64 `json:"bytes"`
}

// Work is what a step has to do at least.
type Work struct {
	Weights    int64 // bytes of the weights of products, of their biases and of norms, each read once
	KV         int64 // bytes of the caches that are read
	Operations int64 // multiplications and additions of products with weights
}

// Work is that of a step that adds so many tokens to a sequence of position tokens and computes the logits of the last
// one. A table that is both looked up in and multiplied counts once; rows that are only looked up do not count. It is
// zero in Options.Prepare, when no weights are loaded.
func (m *Model) Work(position, tokens int) (w Work) {
	if m.net == nil {
		return w
	}
	read := func(views ...View) {
		for _, v := range views {
			if !v.IsZero() {
				w.Weights += v.Bytes()
			}
		}
	}
	multiply := func(rows int, views ...View) {
		read(views...)
		for _, v := range views {
			if !v.IsZero() {
				n, _ := v.Shape().Elements() // of a loaded tensor
				w.Operations += 2 * int64(rows) * n
			}
		}
	}
	for i := range m.net.layers {
		l := &m.net.layers[i]
		multiply(tokens, l.qkv[:]...)
		multiply(tokens, l.gateUp[:]...)
		multiply(tokens, l.out, l.down)
		read(l.qkvBias[:]...)
		read(l.outBias, l.attnNorm, l.ffnNorm, l.postAttnNorm, l.postFFNNorm, l.qNorm, l.kNorm)
		if l.Heads == 0 {
			continue
		}
		seen := position + tokens
		if l.Window > 0 {
			seen -= max(0, position-l.Window+1)
		}
		for _, dim := range []int{l.KeyDim, l.ValueDim} {
			n, _ := m.kvFormat.Bytes(tensor.ShapeOf(int64(seen), int64(l.KVHeads), int64(dim))) // smaller than the caches
			w.KV += n
		}
	}
	multiply(1, m.net.head)
	read(m.net.outputNorm)
	return w
}

// TokenBytes is the number of weight bytes that are read to compute one token: Work's Weights.
func (m *Model) TokenBytes() int64 { return m.Work(0, 1).Weights }
