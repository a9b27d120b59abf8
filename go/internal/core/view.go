// Package core is the cgo boundary: thin typed functions over the C ABI of include/skeep.h, and
// nothing else. Descriptors and frames live in C memory; addresses cross as integers.
package core

import "github.com/skeep-project/skeep/go/tensor"

// View has the memory layout of C's skeep_view (a test compares every offset). It is a plain value
// that owns nothing.
type View struct {
	Data       uintptr // address of the tensor's first byte
	Bytes      uint64  // reachable from Data
	Cell       uintptr // liveness slot
	Generation uint64  // of the slot when the view was made
	Storage    uint64  // id of the root storage
	Value      uint32  // value number; its two top bits say of what: ValueResult, ValueWeight, …
	Format     tensor.Format
	Layout     tensor.Layout
	_          [3]uint64
}

// The kinds of values, in the two top bits of View.Value: results of ops are numbered within a step,
// weights by their place in the model, inputs and caches by their binding.
const (
	ValueResult uint32 = 0 << 30
	ValueWeight uint32 = 1 << 30
	ValueInput  uint32 = 2 << 30
	ValueCache  uint32 = 3 << 30
)
