package skeep

import (
	"sync"

	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
	"golang.org/x/sys/unix"
)

// Option adjusts the creation of a storage.
type Option func(*options)

type options struct {
	spec      *tensor.AllocationSpec
	model     *ModelScope
	threshold int64
	heapLimit int64 // 0: the model scope's, or the machine's
	readonly  bool
	strict    bool
	trace     *trace.Recorder
}

// WithSpec places a storage as spec says, instead of asking resolver.Place. Its scope is the storage's:
// garbage collection ends Ambient ones only.
func WithSpec(spec tensor.AllocationSpec) Option { return func(o *options) { o.spec = &spec } }

// In makes a storage in a ModelScope, which closes it.
func In(s *ModelScope) Option { return func(o *options) { o.model = s } }

// WithThreshold is the size from which resolver.Place leaves the Go heap; without it
// resolver.DefaultThreshold.
func WithThreshold(bytes int64) Option { return func(o *options) { o.threshold = bytes } }

// WithHeapLimit is how many bytes all storages together may hold of the Go heap (those of Borrow count) when another
// one is made there; one that would exceed it is an error that wraps ErrMemory. Without it, the limit of the ModelScope
// that the storage is made in, or else the machine's memory: where the Go runtime finds none, it ends the process.
func WithHeapLimit(bytes int64) Option { return func(o *options) { o.heapLimit = bytes } }

// ReadOnly forbids writes to borrowed bytes.
func ReadOnly() Option { return func(o *options) { o.readonly = true } }

// WithTrace records creation, close and (for a ForwardScope) overflows.
func WithTrace(r *trace.Recorder) Option { return func(o *options) { o.trace = r } }

func collect(opts []Option) options {
	o := options{threshold: resolver.DefaultThreshold}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// installed is the memory of the machine, in bytes.
var installed = sync.OnceValue(func() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 1 << 30
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit))
})

// heapRoom is the bytes of the Go heap that storages may hold, and those that they hold now.
func (o *options) heapRoom() (limit, held int64) {
	if limit = o.heapLimit; limit == 0 && o.model != nil {
		limit = o.model.o.heapLimit
	}
	if limit == 0 {
		limit = installed()
	}
	return limit, Stats().Bytes[tensor.Heap]
}

// place asks the resolver, unless it is told.
func (o *options) place(name string, bytes int64, scope tensor.ScopeKind) tensor.AllocationSpec {
	if o.model != nil {
		scope = tensor.Model
	}
	if o.spec == nil {
		need := resolver.Need{Name: name, Bytes: bytes, Scope: scope}
		return resolver.Place(need, resolver.Profile{Threshold: o.threshold}, resolver.Platform{})
	}
	spec := *o.spec
	if o.model != nil {
		spec.Scope = scope
	}
	return spec
}
