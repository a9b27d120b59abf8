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
	Value      uint32  // value number: which value of a step, of Go or C, this is
	Format     tensor.Format
	Layout     tensor.Layout
	_          [3]uint64
}
