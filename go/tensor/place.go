package tensor

import "fmt"

// Domain is the kind of memory a storage lives in. Numbers equal C's SKEEP_DOMAIN_*.
type Domain uint8

// The memory domains.
const (
	Heap    Domain = 0 // Go memory, pinned from creation to close
	OffHeap Domain = 1 // C-allocated, 64-byte aligned
	Mapped  Domain = 2 // pages of a file, read-only
	Device  Domain = 3 // named, without an implementation
)

var domainNames = [...]string{Heap: "heap", OffHeap: "offheap", Mapped: "mapped", Device: "device"}

// String is the domain's name as the command line spells it.
func (d Domain) String() string {
	if int(d) < len(domainNames) {
		return domainNames[d]
	}
	return fmt.Sprintf("domain %d", uint8(d))
}

// ScopeKind says how long an allocation lives.
type ScopeKind uint8

// The scopes.
const (
	Ambient ScopeKind = iota // until unreachable: garbage collected
	Model                    // until the model closes
	Forward                  // until the step is reset
)

// AllocationSpec says in which kind of memory bytes are allocated, and for how long. resolver.Place returns it.
type AllocationSpec struct {
	Domain    Domain
	Scope     ScopeKind
	Alignment int64 // bytes, a power of two
	Reason    string
}
