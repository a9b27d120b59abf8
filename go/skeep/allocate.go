package skeep

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// Allocate makes a storage that owns newly allocated, zeroed bytes. resolver.Place decides where they live (outside of
// the Go heap from 256 KiB on), unless WithSpec does. Too little memory is an error that wraps ErrMemory, on the Go
// heap too: see WithHeapLimit.
func Allocate(name string, bytes int64, opts ...Option) (*Storage, error) {
	o := collect(opts)
	return allocate(name, bytes, &o, o.place(name, bytes, tensor.Ambient))
}

func allocate(name string, bytes int64, o *options, spec tensor.AllocationSpec) (*Storage, error) {
	fail := func(err error, detail string) (*Storage, error) {
		return nil, &Error{Op: "allocate", Storage: name, Err: err, Detail: detail}
	}
	if bytes <= 0 {
		return fail(ErrArgument, fmt.Sprintf("%d bytes", bytes))
	}
	if spec.Alignment == 0 {
		spec.Alignment = 64
	}
	if a := spec.Alignment; a < 0 || a&(a-1) != 0 || a > 2<<20 {
		return fail(ErrArgument, fmt.Sprintf("alignment %d is not a power of two up to 2 MiB", a))
	}
	r := &record{name: name, spec: spec, bytes: bytes, trace: o.trace}
	switch spec.Domain {
	case tensor.Heap:
		if limit, held := o.heapRoom(); bytes > limit-held || bytes > math.MaxInt-spec.Alignment {
			return fail(ErrMemory, fmt.Sprintf("cannot allocate %d bytes: storages hold %d of at most %d bytes of the Go heap", bytes, held, limit))
		}
		room := make([]byte, bytes+spec.Alignment-1)
		skip := -uintptr(unsafe.Pointer(unsafe.SliceData(room))) & uintptr(spec.Alignment-1)
		r.memory = room[skip:][:bytes:bytes]
		return r.borrow(o, "allocate", trace.Allocate)
	case tensor.OffHeap:
		if r.collected() {
			makeRoom(bytes, 0)
		}
		handle, st := core.Allocate(uint64(bytes), uint64(spec.Alignment))
		return r.made(o, "allocate", trace.Allocate, handle, st)
	}
	return fail(ErrUnsupported, fmt.Sprintf("domain %d", spec.Domain))
}

// Borrow makes a storage of bytes that the caller owns, without copying them; they may have any alignment. Go memory
// stays pinned until the storage is closed and nobody uses it any more. Other memory must stay valid until CloseContext
// has returned nil. Close never frees borrowed bytes. With ReadOnly they may be constant data of the program, such as
// an embedded model.
//
// The bytes may belong to a mapping that the caller made; reading a page of it that no longer exists is ErrFault. A
// file that was truncated within its last page (zeros are read there) or was changed is not detected for borrowed
// bytes: use Map instead.
func Borrow(name string, bytes []byte, opts ...Option) (*Storage, error) {
	o := collect(opts)
	if len(bytes) == 0 {
		return nil, &Error{Op: "borrow", Storage: name, Err: ErrArgument, Detail: "no bytes"}
	}
	spec := tensor.AllocationSpec{Domain: tensor.Heap, Alignment: 1, Reason: "borrowed"}
	if o.spec != nil {
		spec.Scope = o.spec.Scope
	}
	if o.model != nil {
		spec.Scope = tensor.Model
	}
	r := &record{name: name, spec: spec, bytes: int64(len(bytes)), readonly: o.readonly, foreign: true, trace: o.trace, memory: bytes}
	if err := installGuard("borrow", name); err != nil {
		return nil, err
	}
	return r.borrow(&o, "borrow", trace.Allocate)
}

// borrow pins r.memory and hands it to the core.
func (r *record) borrow(o *options, op string, kind trace.Kind) (*Storage, error) {
	r.pinner = new(runtime.Pinner)
	r.pinner.Pin(unsafe.SliceData(r.memory))
	handle, st := core.Borrow(r.memory, core.DomainHeap, r.readonly)
	s, err := r.made(o, op, kind, handle, st)
	if err != nil {
		r.pinner.Unpin()
	}
	return s, err
}

// Map maps length bytes of an open file read-only, starting at offset, which need not be aligned. Length 0 maps up to
// the end of the file. The file may be closed afterwards. If it is truncated later, accesses return errors that wrap
// ErrFault or ErrChanged.
func Map(name string, f *os.File, offset, length int64, opts ...Option) (*Storage, error) {
	o := collect(opts)
	fail := func(err error, detail string) (*Storage, error) {
		return nil, &Error{Op: "map", Storage: name, Err: err, Detail: detail}
	}
	if f == nil {
		return fail(ErrArgument, "the file is nil")
	}
	if offset < 0 || length < 0 {
		return fail(ErrArgument, fmt.Sprintf("%d bytes at offset %d", length, offset))
	}
	if length == 0 {
		info, err := f.Stat()
		if err != nil {
			return fail(fmt.Errorf("%w: %w", ErrIO, err), "")
		}
		if length = info.Size() - offset; length <= 0 {
			return fail(ErrBounds, fmt.Sprintf("offset %d of %d bytes", offset, info.Size()))
		}
	}
	if o.model == nil && (o.spec == nil || o.spec.Scope == tensor.Ambient) {
		makeRoom(0, 1)
	}
	if err := installGuard("map", name); err != nil {
		return nil, err
	}
	spec := tensor.AllocationSpec{Domain: tensor.Mapped, Alignment: 1, Reason: "pages of a file"}
	if o.spec != nil {
		spec = *o.spec
		spec.Domain = tensor.Mapped
	}
	if o.model != nil {
		spec.Scope = tensor.Model
	}
	r := &record{name: name, spec: spec, bytes: length, readonly: true, trace: o.trace}
	handle, st := core.Map(int(f.Fd()), uint64(offset), uint64(length))
	runtime.KeepAlive(f)
	return r.made(&o, "map", trace.Map, handle, st)
}

// MapFile maps a whole file. The path is the name of the storage.
func MapFile(path string, opts ...Option) (*Storage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{Op: "map", Storage: path, Err: fmt.Errorf("%w: %w", ErrIO, err)}
	}
	defer f.Close()
	return Map(path, f, 0, 0, opts...)
}

// installGuard turns faults of file pages into errors. Each time: somebody may have taken the signal over since the last.
func installGuard(op, name string) error {
	if st := core.FaultGuardInstall(); st.Code != core.OK {
		return statusError(op, name, "", st, nil)
	}
	return nil
}

// made turns what the core made into a Storage.
func (r *record) made(o *options, op string, kind trace.Kind, handle core.Storage, st core.Status) (*Storage, error) {
	if st.Code != core.OK {
		return nil, statusError(op, r.name, "", st, nil)
	}
	info, st := core.InfoOf(handle)
	if st.Code != core.OK {
		return nil, statusError(op, r.name, "", st, nil)
	}
	core.SetName(handle, r.name) // messages of the core have it; a storage just made is open
	r.handle, r.id = handle, info.ID
	s := &Storage{r: r, address: info.Address, bytes: r.bytes}
	r.register()
	s.cleanup = runtime.AddCleanup(s, abandoned, r)
	r.trace.Emit(trace.Event{Kind: kind, Name: r.name, Layer: -1, Bytes: r.bytes, Detail: r.spec.Reason})
	if o.model != nil {
		if err := o.model.adopt(s); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}
