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
	m := Memory{Heap: p.GoHeap, OffHeap: c.Bytes[tensor.OffHeap], Mapped: c.Bytes[tensor.Mapped], Resident: p.Resident, Private: p.Anonymous, Slab: s.eager.Slab().Bytes}
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
	Dequantized FormCount `json:"dequantized"` // decoded once, at load
	Reordering  float64   `json:"reordering"`  // seconds that the load took to make the copies in feed order
}

// FormCount is a number of weights, and their bytes in this form.
type FormCount struct {
	Weights int   `json:"weights"`
	Bytes   int64 `json:"bytes"`
}

// TokenBytes is the number of weight bytes that are read to compute one token: each weight of a product once, and the
// embedding rows that are looked up. It is 0 in Options.Prepare, when no weights are loaded.
func (m *Model) TokenBytes() (n int64) {
	if m.net == nil {
		return 0
	}
	add := func(views ...View) {
		for _, v := range views {
			if !v.IsZero() {
				n += v.Bytes()
			}
		}
	}
	for _, l := range m.net.layers {
		add(l.qkv[:]...)
		add(l.gateUp[:]...)
		add(l.out, l.down, l.attnNorm, l.ffnNorm, l.postAttnNorm, l.postFFNNorm, l.qNorm, l.kNorm)
	}
	add(m.net.head, m.net.outputNorm)
	return n
}
