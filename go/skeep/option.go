package skeep

import (
	"sync"

	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
	"golang.org/x/sys/unix"
)

// Option adjusts the creation of a storage. A nil Option changes nothing.
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

// WithSpec places a storage as spec says, instead of asking resolver.Place. spec.Scope becomes the scope of the
// storage: garbage collection frees Ambient storages only.
func WithSpec(spec tensor.AllocationSpec) Option { return func(o *options) { o.spec = &spec } }

// In makes a ModelScope the owner of the storage: the scope closes it.
func In(s *ModelScope) Option { return func(o *options) { o.model = s } }

// WithThreshold sets the size from which resolver.Place puts memory outside of the Go heap. The default is
// resolver.DefaultThreshold.
func WithThreshold(bytes int64) Option { return func(o *options) { o.threshold = bytes } }

// WithHeapLimit limits the bytes of the Go heap that all storages together may hold, borrowed Go memory included. A new
// storage that would exceed the limit is an error that wraps ErrMemory. The default is the limit of the storage's
// ModelScope, or else the machine's memory. The limit exists because the Go runtime ends the process when it runs out
// of memory.
func WithHeapLimit(bytes int64) Option { return func(o *options) { o.heapLimit = bytes } }

// ReadOnly forbids writes to borrowed bytes.
func ReadOnly() Option { return func(o *options) { o.readonly = true } }

// WithTrace records creation, close and (for a ForwardScope) overflows.
func WithTrace(r *trace.Recorder) Option { return func(o *options) { o.trace = r } }

func collect(opts []Option) options {
	o := options{threshold: resolver.DefaultThreshold}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
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
