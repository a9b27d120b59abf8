package skeep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
	"golang.org/x/sys/unix"
)

// Storage is bytes in one memory domain with one owner: itself (Allocate, Map), the caller (Borrow), or
// another Storage (Alias, View). All methods are safe for concurrent use.
//
// Close ends it and returns: every view of it, of its aliases and of its marks is refused from then on, with an
// error that wraps ErrClosed, and whoever is reading its bytes at that moment keeps them until then. CloseContext
// waits for that. Which end is automatic depends on the scope, see the package comment. The zero Storage has no bytes
// and is closed.
type Storage struct {
	r       *record
	parent  *Storage // kept reachable by an alias; nil for the owner
	tensor  string   // name of an alias
	address uintptr
	bytes   int64
	closed  atomic.Bool // an alias that was closed by itself
	names   *slabNames  // of the tensors in a forward slab
	cleanup runtime.Cleanup
}

// unmade is the owner of the bytes of a zero Storage.
var unmade = func() *record {
	r := &record{readonly: true, gone: make(chan struct{})}
	r.closed.Store(true)
	close(r.gone)
	return r
}()

func (s *Storage) owner() *record {
	if s.r == nil {
		return unmade
	}
	return s.r
}

var (
	_ io.ReaderAt = (*Storage)(nil)
	_ io.WriterAt = (*Storage)(nil)
	_ io.Closer   = (*Storage)(nil)
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

// Allocate makes a storage of zeroed bytes. Where they live is resolver.Place's answer (outside of the
// Go heap from 256 KiB on) or that of WithSpec. The storage owns them. More than there is, is an error that wraps
// ErrMemory, on the Go heap as outside of it: see WithHeapLimit.
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
			return fail(ErrMemory, fmt.Sprintf("%d bytes wanted, storages hold %d of the %d that they may take of the Go heap", bytes, held, limit))
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

// Borrow makes a storage of bytes that the caller owns and keeps the contents of in place, at any alignment:
// Go memory (pinned until nobody uses it after the close) or memory outside of the Go heap, which CloseContext tells
// when to give back. Close never frees them. With ReadOnly they may be a program's constant data, such as an embedded
// model.
//
// Bytes of a mapping that the caller made are read like others, and a page of them that is gone is ErrFault. Whether its
// file was cut within its last page (zeros are read there) or changed cannot be told from bytes: Map the file instead.
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

// Map maps length bytes of an open file from offset (any value) on, read-only; length 0 is up to the end.
// The file may be closed afterwards. When it is truncated later, accesses are errors that wrap ErrFault
// or ErrChanged.
func Map(name string, f *os.File, offset, length int64, opts ...Option) (*Storage, error) {
	o := collect(opts)
	fail := func(err error, detail string) (*Storage, error) {
		return nil, &Error{Op: "map", Storage: name, Err: err, Detail: detail}
	}
	if offset < 0 || length < 0 {
		return fail(ErrArgument, fmt.Sprintf("%d bytes from %d", length, offset))
	}
	if length == 0 {
		info, err := f.Stat()
		if err != nil {
			return fail(fmt.Errorf("%w: %w", ErrIO, err), "")
		}
		if length = info.Size() - offset; length <= 0 {
			return fail(ErrBounds, fmt.Sprintf("from %d of %d bytes", offset, info.Size()))
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

// MapFile maps a whole file under its path as name.
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

// Alias makes a storage of a part of s. It owns nothing and keeps s reachable, not open: closing s ends
// it. Closing the alias alone refuses new views of it and frees nothing.
func (s *Storage) Alias(name string, offset, bytes int64) (*Storage, error) {
	return s.alias("alias", name, offset, bytes)
}

func (s *Storage) alias(op, name string, offset, bytes int64) (*Storage, error) {
	if err := s.open(op, name); err != nil {
		return nil, err
	}
	if offset < 0 || bytes <= 0 || offset > s.bytes || bytes > s.bytes-offset {
		return nil, s.errorOf(op, name, ErrBounds, fmt.Sprintf("%d bytes from %d of %d", bytes, offset, s.bytes))
	}
	return &Storage{r: s.r, parent: s, tensor: name, address: s.address + uintptr(offset), bytes: bytes}, nil
}

// Name is the name of the owner of the bytes.
func (s *Storage) Name() string { return s.owner().name }

// Tensor is the name of an alias; an owner has none.
func (s *Storage) Tensor() string { return s.tensor }

// ID is the owner's number, never reused in a process.
func (s *Storage) ID() uint64 { return s.owner().id }

// Domain is where the bytes live.
func (s *Storage) Domain() tensor.Domain { return s.owner().spec.Domain }

// Spec is how the bytes were placed, with the reason.
func (s *Storage) Spec() tensor.AllocationSpec { return s.owner().spec }

// Size is the number of bytes.
func (s *Storage) Size() int64 { return s.bytes }

// Writable reports whether the bytes may be written to.
func (s *Storage) Writable() bool { return !s.owner().readonly }

// Closed reports whether the storage, or the owner of its bytes, has been closed. Close may happen right
// after an answer of false.
func (s *Storage) Closed() bool { return s.closed.Load() || s.owner().closed.Load() }

func (s *Storage) open(op, tensor string) error {
	if s.Closed() {
		return s.errorOf(op, tensor, ErrClosed, "")
	}
	return nil
}

// Close ends the storage: it refuses every view from now on and returns, also inside of a step that uses it. When the
// storage owns its bytes they are freed here, or by whoever uses them last. A second close is ErrClosed.
func (s *Storage) Close() error { return s.CloseIn(nil) }

// CloseIn is Close within the caller's running step (or nil), which gives its own pins back here instead of at its end.
func (s *Storage) CloseIn(step *Step) error {
	if s.parent == nil {
		return s.ended(core.Close(s.owner().handle, step.inside()))
	}
	if s.Closed() || s.closed.Swap(true) {
		return s.errorOf("close", s.tensor, ErrClosed, "")
	}
	return nil
}

// CloseContext is Close that waits until nobody uses the bytes any more and they are freed. When ctx ends earlier it
// returns an error that wraps ErrBusy and ctx's cause; the storage is closed all the same. Within a step that uses the
// storage it waits in vain. When the storage was closed before, or by another goroutine at the same time, it waits
// just so and returns ErrClosed then. An alias has no bytes to wait for.
func (s *Storage) CloseContext(ctx context.Context) error {
	err := s.CloseIn(nil)
	if s.parent != nil || err != nil && !errors.Is(err, ErrClosed) {
		return err
	}
	gone := s.owner().gone
	select {
	case <-gone: // whatever ctx says
		return err
	default:
	}
	select {
	case <-gone:
		return err
	case <-ctx.Done():
		left, _ := core.Left(s.owner().handle)
		return s.errorOf("close", s.tensor, fmt.Errorf("%w: %w", ErrBusy, ended.Err(ctx)), fmt.Sprintf("%d uses are left", left))
	}
}

// TryClose is Close that changes nothing and returns ErrBusy when somebody uses the bytes.
func (s *Storage) TryClose() error {
	if s.parent != nil {
		return s.Close()
	}
	return s.ended(core.TryClose(s.owner().handle))
}

// ended is the end of every close of an owner. Which of several at once ends it is the core's word alone.
func (s *Storage) ended(st core.Status) error {
	switch {
	case s.r == nil || st.Code == core.ErrClosed:
		s.owner().closed.Store(true)
		return s.errorOf("close", s.tensor, ErrClosed, "")
	case st.Code == core.OK:
		s.owner().closed.Store(true)
		s.cleanup.Stop()
		s.r.end()
		return nil
	}
	return s.status("close", st)
}

// Verify returns an error that wraps ErrChanged when a mapped file is no longer what it was when it was
// mapped.
func (s *Storage) Verify() error {
	st := core.Verify(s.owner().handle)
	runtime.KeepAlive(s)
	return s.status("verify", st)
}

// Advice tells the system how a range of a mapped file will be used.
type Advice uint32

// The advice. DontNeed drops clean pages, which come back from the file when they are read again.
const (
	Normal     Advice = 0
	Sequential Advice = 1
	WillNeed   Advice = 2
	DontNeed   Advice = 3
)

// Advise gives advice about a byte range of a mapped storage.
func (s *Storage) Advise(offset, bytes int64, a Advice) error {
	if offset < 0 || bytes < 0 || offset > s.bytes || bytes > s.bytes-offset {
		return s.errorOf("advise", s.tensor, ErrBounds, fmt.Sprintf("%d bytes from %d of %d", bytes, offset, s.bytes))
	}
	root := s.root()
	st := core.Advise(s.owner().handle, uint64(offset)+uint64(s.address-root.address), uint64(bytes), uint32(a))
	runtime.KeepAlive(root)
	return s.status("advise", st)
}

// Lock keeps the pages of a mapped file in memory until it is closed. The system limits how much a process
// may lock (RLIMIT_MEMLOCK): the error then tells the limit.
func (s *Storage) Lock() error {
	if err := s.open("lock", s.tensor); err != nil {
		return err
	}
	var err error
	v := s.whole()
	if refused := v.touch("lock", false, func(memory []byte) { err = unix.Mlock(memory) }); refused != nil || err == nil {
		return refused
	}
	var limit unix.Rlimit
	detail := err.Error()
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil {
		detail = fmt.Sprintf("%v: %d bytes wanted, %d allowed (ulimit -l)", err, s.bytes, limit.Cur)
	}
	return s.errorOf("lock", s.tensor, ErrMemory, detail)
}

// Resident is how many bytes of a mapped file (of the whole mapping, for an alias) are in memory now.
func (s *Storage) Resident() (int64, error) {
	n, st := core.Resident(s.owner().handle)
	runtime.KeepAlive(s)
	return int64(n), s.status("resident", st)
}

func (s *Storage) root() *Storage {
	for s.parent != nil {
		s = s.parent
	}
	return s
}

// ReadAt copies bytes out, as io.ReaderAt says.
func (s *Storage) ReadAt(p []byte, offset int64) (int, error) {
	n, err := s.at("read", p, offset, false)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// WriteAt copies bytes in, as io.WriterAt says. Bytes that do not fit are an error that wraps ErrBounds,
// and none is written then.
func (s *Storage) WriteAt(p []byte, offset int64) (int, error) { return s.at("write", p, offset, true) }

func (s *Storage) at(op string, p []byte, offset int64, write bool) (int, error) {
	if err := s.open(op, s.tensor); err != nil {
		return 0, err
	}
	if offset < 0 || write && (offset > s.bytes || int64(len(p)) > s.bytes-offset) {
		return 0, s.errorOf(op, s.tensor, ErrBounds, fmt.Sprintf("%d bytes from %d of %d", len(p), offset, s.bytes))
	}
	if offset >= s.bytes {
		return 0, nil
	}
	n := min(int64(len(p)), s.bytes-offset)
	if n == 0 {
		return 0, nil
	}
	v := s.whole()
	err := v.touch(op, write, func(memory []byte) {
		if write {
			copy(memory[offset:], p)
		} else {
			copy(p[:n], memory[offset:])
		}
	})
	if err != nil {
		return 0, err
	}
	return int(n), nil
}

// whole is all bytes of s as something to touch.
func (s *Storage) whole() View {
	return s.viewAt(0, s.bytes, s.owner().handle, tensor.Format{}, tensor.Layout{})
}

// View makes a view of a tensor whose bytes begin at offset, gap-free and row-major. name is the tensor's
// name in errors and traces; with an empty one the view goes without and makes no alias.
func (s *Storage) View(name string, offset int64, f tensor.Format, shape tensor.Shape) (View, error) {
	l, err := tensor.LayoutOf(f, shape, tensor.Order{})
	if err != nil {
		return View{}, s.errorOf("view", name, err, "")
	}
	return s.ViewLayout(name, offset, f, l)
}

// ViewLayout is View for any layout. Errors wrap ErrClosed, ErrBounds or an error of package tensor.
func (s *Storage) ViewLayout(name string, offset int64, f tensor.Format, l tensor.Layout) (View, error) {
	if err := l.Check(f); err != nil {
		return View{}, s.errorOf("view", name, err, "")
	}
	bytes, err := l.Bytes(f)
	if err != nil {
		return View{}, s.errorOf("view", name, err, "")
	}
	if name != "" {
		if s, err = s.alias("view", name, offset, bytes); err != nil {
			return View{}, err
		}
		offset = 0
	} else if err := s.open("view", name); err != nil {
		return View{}, err
	}
	if offset < 0 || offset > s.bytes || bytes > s.bytes-offset {
		return View{}, s.errorOf("view", name, ErrBounds, fmt.Sprintf("%d bytes from %d of %d", bytes, offset, s.bytes))
	}
	return s.viewAt(offset, bytes, s.owner().handle, f, l), nil
}

// viewAt joins checked parts; cell is the owner's slot or that of a mark.
func (s *Storage) viewAt(offset, bytes int64, cell core.Storage, f tensor.Format, l tensor.Layout) View {
	return View{
		desc: core.View{
			Data: s.address + uintptr(offset), Bytes: uint64(bytes),
			Cell: cell.Cell, Generation: cell.Generation, Storage: s.owner().id,
			Format: f, Layout: l,
		},
		storage: s,
	}
}

func (s *Storage) errorOf(op, tensor string, err error, detail string) error {
	e := &Error{Op: op, Storage: s.owner().name, Tensor: tensor, Detail: detail, Err: err}
	if memoryDebug {
		e.Created = stackText(s.owner().stack())
	}
	return e
}

func (s *Storage) status(op string, st core.Status) error {
	if st.Code == core.OK {
		return nil
	}
	return statusError(op, s.owner().name, s.tensor, st, s.owner())
}

// statusError says in Go's words what the core answered. r may be nil.
func statusError(op, storage, tensor string, st core.Status, r *record) *Error {
	switch st {
	case core.NoPool: // whichever operand is at hand is not to blame
		return &Error{Op: op, Err: ErrArgument, Detail: st.String(), sentence: true}
	case core.PoolClosed:
		return &Error{Op: op, Storage: "pool", Err: ErrClosed}
	}
	e := &Error{Op: op, Storage: storage, Tensor: tensor, Err: sentinels[st.Code], Detail: st.String(), sentence: true}
	switch st.Code {
	case core.ErrClosed, core.ErrFault, core.ErrChanged, core.ErrReadOnly: // by number and address there, by name here
		e.Detail, e.sentence = "", false
	case core.ErrIO:
		e.Err, e.Detail, e.sentence = fmt.Errorf("%w: %w", ErrIO, syscall.Errno(st.Detail)), "", false
	}
	if e.Err == nil {
		e.Err = ErrArgument
	}
	if memoryDebug && r != nil {
		e.Created = stackText(r.stack())
	}
	return e
}
