package resolver

import (
	"cmp"
	"fmt"

	"github.com/skeep-project/skeep/go/tensor"
)

// Need is a request for memory: for a weight, the KV cache, a step's slab, scratch, or a tensor of the user.
type Need struct {
	Name      string
	Bytes     int64
	Scope     tensor.ScopeKind
	Map       bool // the form wants file pages
	FileBytes bool // the bytes are stored in a file, unchanged
}

// Platform says how the bytes of a model can be accessed.
type Platform struct {
	CanMap    bool   // the source is a file that can be mapped
	InMemory  bool   // the source's bytes are in memory already and outlive the model
	CannotWhy string // the reason, when neither holds
	File      string // whose pages they are, for reasons; "" is "the file"
}

// Place decides in which kind of memory a need is allocated. File pages are used if the form wants them, the platform
// can map the file, and the bytes are stored in the file unchanged. Everything else is off-heap from the profile's
// threshold on, and on the Go heap below it.
func Place(n Need, p Profile, platform Platform) tensor.AllocationSpec {
	spec := tensor.AllocationSpec{Scope: n.Scope, Alignment: 64}
	var why string
	switch {
	case !n.Map || !n.FileBytes: // file pages are not possible
	case platform.InMemory:
		spec.Domain, spec.Alignment = tensor.Heap, 1
		spec.Reason = "already in memory: used in place"
		return spec
	case !platform.CanMap:
		why = ", because " + platform.CannotWhy
	case !p.Map:
		why = ", because profile " + p.Name + " does not map files"
	default:
		spec.Domain, spec.Alignment = tensor.Mapped, 1
		spec.Reason = "mapped from " + cmp.Or(platform.File, "the file") + ": no copy, shared, evictable"
		return spec
	}
	if n.Bytes >= p.Threshold {
		spec.Domain = tensor.OffHeap
		spec.Reason = fmt.Sprintf("outside the Go heap (%s or larger)%s", Size(p.Threshold), why)
	} else {
		spec.Domain = tensor.Heap
		spec.Reason = fmt.Sprintf("on the Go heap (smaller than %s)%s", Size(p.Threshold), why)
	}
	return spec
}
