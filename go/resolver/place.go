package resolver

import (
	"fmt"

	"github.com/skeep-project/skeep/go/tensor"
)

// Need is a wish for memory: of a weight, the KV cache, a step's slab, scratch, or a user's own tensor.
type Need struct {
	Name      string
	Bytes     int64
	Scope     tensor.ScopeKind
	Map       bool // the form asks for file pages
	FileBytes bool // the bytes really are a file's, unchanged
}

// Platform is what the way to the bytes allows.
type Platform struct {
	CanMap    bool   // the source is a file that can be mapped
	InMemory  bool   // the source's bytes are in memory already and outlive the model
	CannotWhy string // why not, when neither
}

// Place decides where a need is met. File pages need three things: the form asks, the platform can, and
// the bytes really are the file's. Everything else is off-heap from the profile's threshold on, and Go
// heap below.
func Place(n Need, p Profile, platform Platform) tensor.AllocationSpec {
	spec := tensor.AllocationSpec{Scope: n.Scope, Alignment: 64}
	var why string
	switch {
	case !n.Map || !n.FileBytes: // not about file pages at all
	case platform.InMemory:
		spec.Domain, spec.Alignment = tensor.Heap, 1
		spec.Reason = "read where it lies in memory"
		return spec
	case !platform.CanMap:
		why = ", since " + platform.CannotWhy
	case !p.Map:
		why = ", since profile " + p.Name + " does not map"
	default:
		spec.Domain, spec.Alignment = tensor.Mapped, 1
		spec.Reason = "the file's own pages: no copy, shared, evictable"
		return spec
	}
	if n.Bytes >= p.Threshold {
		spec.Domain = tensor.OffHeap
		spec.Reason = fmt.Sprintf("off the Go heap from %s on%s", Size(p.Threshold), why)
	} else {
		spec.Domain = tensor.Heap
		spec.Reason = fmt.Sprintf("below %s, Go heap%s", Size(p.Threshold), why)
	}
	return spec
}

// Size writes a byte count for people, in binary units: "1.50 GiB", "640 B".
func Size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/(1<<10), 0
	for v >= 1024 && unit < 3 {
		v, unit = v/1024, unit+1
	}
	digits := 2
	if v >= 100 {
		digits = 0
	} else if v >= 10 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %ciB", digits, v, "KMGT"[unit])
}
