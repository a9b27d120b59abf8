// Package load loads the tensors of a model as a resolver.Resolution says. It maps each file once and makes mapped
// tensors aliases of that mapping; it copies or decodes only the tensors for which the resolution says so. It makes no
// decision of its own: what cannot be done as decided is an error.
package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/internal/argument"
	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/load/pack"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
	"golang.org/x/sys/unix"
)

// Source is where the bytes of a model come from: an open file (or split set), or a file in memory.
type Source struct {
	File      *gguf.File
	Memory    []byte // the whole file if it is in memory, else nil; borrowed until the scope closes
	NotMapped error  // why the file cannot be mapped, as Open found out; nil if it can
}

// Open opens the file at path as a source and checks whether the file system can map it. The caller must close File,
// after the load or at any later time.
func Open(path string, o gguf.Options) (Source, error) {
	f, err := gguf.Open(path, o)
	if err != nil {
		return Source{}, err
	}
	s := Source{File: f}
	for _, p := range f.Parts() {
		if s.NotMapped = mappable(p.OSFile()); s.NotMapped != nil {
			break
		}
	}
	return s, nil
}

// mappable is why the pages of a file cannot be mapped, nil when they can.
func mappable(f *os.File) error {
	page, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("load: the file system cannot map %s: %w", f.Name(), err)
	}
	return unix.Munmap(page)
}

// Bytes reads the header of a GGUF file in memory. b must stay valid and unchanged while a scope that loaded it is
// open. If b belongs to a mapping that the caller made, reading a page that no longer exists is an error that wraps
// skeep.ErrFault; a file that was truncated within its last page, or changed, is not detected. Open detects both.
func Bytes(name string, b []byte) (Source, error) {
	f, err := gguf.Read(memory(b), int64(len(b)), gguf.Options{Name: name})
	return Source{File: f, Memory: b}, err
}

// memory reads bytes that may be pages of a file, of which some may be gone.
type memory []byte

func (m memory) ReadAt(p []byte, offset int64) (n int, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			if _, ok := fault.(interface{ Addr() uintptr }); !ok {
				panic(fault)
			}
			n, err = 0, fmt.Errorf("load: at byte %d: %w", offset, skeep.ErrFault)
		}
	}()
	return bytes.NewReader(m).ReadAt(p, offset)
}

// Platform says how the bytes of the source can be accessed, for resolver.Place. A source without a File cannot be
// accessed, and Load refuses it.
func (s Source) Platform() resolver.Platform {
	switch {
	case s.File == nil:
		return resolver.Platform{CannotWhy: "the source has no file"}
	case s.File.ByteOrder().String() != "LittleEndian":
		return resolver.Platform{CannotWhy: "the file is big-endian"}
	case s.Memory != nil:
		return resolver.Platform{InMemory: true}
	case s.NotMapped != nil:
		return resolver.Platform{CannotWhy: strings.TrimPrefix(s.NotMapped.Error(), "load: ")}
	}
	for _, p := range s.File.Parts() {
		if p.OSFile() == nil {
			return resolver.Platform{CannotWhy: "it is not an operating system file"}
		}
	}
	return resolver.Platform{CanMap: true}
}

// Options configure a load.
type Options struct {
	Pool  *skeep.Pool     // for decoding and repacking; required if the resolution contains either
	Trace *trace.Recorder // may be nil
	// Direct reads copied tensors without the page cache (O_DIRECT). If the file system does not support that, they are
	// read as usual and Note is called.
	Direct bool
	Note   func(text string)
	// Available is how many bytes of memory can be had; 0: unknown. If the copies of re-ordered weights need more, Load
	// fails before it reads any payload.
	Available int64
	// Pack is the open pack that the resolution was made with; nil if there was none. It may be closed after the load.
	Pack *pack.Pack
	// Progress is called before each weight that is not used in place, and at the end.
	Progress func(Progress)
}

// Progress says how far a load is. Bytes are those of the weights that are not used in place, in their new forms; before the
// load, while a pack is made or looked for, those of the model that were read.
type Progress struct {
	Work        string // "loading"; before that "reading" or "packing"
	Tensor      string // the next one; "" at the end
	Done, Total int64
}

// Work is what a load has done with some of the weights.
type Work struct {
	Weights int
	Bytes   int64
	Elapsed time.Duration
}

// Weights holds the loaded tensors of a model. It is safe for concurrent use.
type Weights struct {
	views     map[string]skeep.View
	maps      []*skeep.Storage
	reordered Work
}

// View returns a loaded tensor by name. ok is false if the resolution skipped it or it does not exist.
func (w *Weights) View(name string) (v skeep.View, ok bool) {
	v, ok = w.views[name]
	return v, ok
}

// Mappings lists the mapped files that weights alias: parts of the model, and the pack.
func (w *Weights) Mappings() []*skeep.Storage { return w.maps }

// Reordered is how many weights are private copies in feed order, and how long it took to make them.
func (w *Weights) Reordered() Work { return w.reordered }

// loader is one load.
type loader struct {
	Source
	Options
	into   *skeep.ModelScope
	parts  map[int]*skeep.Storage // by part: the mapping, or the borrowed memory
	packed *skeep.Storage         // the mapping of the pack, once it is needed
	out    *Weights
	pages  bool        // whether what is converted may be read from file pages
	direct *directFile // of the part read last, in a direct load
}

// Load loads every tensor in the form and memory that the resolution decided. All storages belong to the scope into,
// which the caller must close, also when Load fails. Canceling ctx ends the load between two tensors. Errors name the
// tensor. A value that is too large for the decided form is an *OverflowError. A file that changed since its header was
// read is an error that names it and wraps skeep.ErrChanged, or skeep.ErrFault if a mapped page no longer exists. A
// source without a File, and a nil resolution or scope, are errors that wrap skeep.ErrArgument.
//
// Weights that are converted are read from file pages where these can be mapped and the profile allows it, and the
// pages are given back after each weight: at no time does a process hold more than one of them twice.
func Load(ctx context.Context, s Source, r *resolver.Resolution, into *skeep.ModelScope, o Options) (w *Weights, err error) {
	switch {
	case s.File == nil:
		return nil, argument.Nil("load", "file of the source")
	case r == nil:
		return nil, argument.Nil("load", "resolution")
	case into == nil:
		return nil, argument.Nil("load", "scope")
	}
	l := &loader{Source: s, Options: o, into: into, parts: map[int]*skeep.Storage{}, out: &Weights{views: map[string]skeep.View{}}}
	defer func() { err = errors.Join(err, l.closeDirect()) }()
	progress, err := l.begin(r)
	if err != nil {
		return nil, err
	}
	for i, t := range s.File.Tensors() {
		if err := ended.Err(ctx); err != nil {
			return nil, fmt.Errorf("load: %w", err)
		}
		d, known := r.Decision(t.Name)
		if !known {
			return nil, fmt.Errorf("load: tensor %q: the resolution has no decision for it", t.Name)
		}
		if d.Form.Action == resolver.Skip {
			continue
		}
		copied := !l.used(d) && d.Form.Residency != resolver.PackPages
		if copied && o.Progress != nil {
			progress.Tensor = t.Name
			o.Progress(progress)
		}
		start := time.Now()
		v, err := l.tensor(t, d)
		if errors.Is(err, gguf.ErrChanged) || errors.Is(err, pack.ErrChanged) {
			err = fmt.Errorf("%w: %w", skeep.ErrChanged, err)
		}
		if err != nil {
			return nil, fmt.Errorf("load: tensor %q: %w", t.Name, err)
		}
		if got := v.Domain(); got != d.Spec.Domain {
			return nil, fmt.Errorf("load: tensor %q: it is in %s memory, but %s was decided", t.Name, got, d.Spec.Domain)
		}
		l.out.views[t.Name] = v.WithValue(skeep.ValueWeight | uint32(i))
		o.Trace.Emit(trace.Event{Kind: trace.Load, Name: "weight", Tensor: t.Name, Layer: -1, Bytes: v.Bytes(), Detail: d.Reason, Start: start, Elapsed: time.Since(start)})
		if copied {
			progress.Done += d.Form.Bytes
		}
		if d.Form.Copied() {
			w := &l.out.reordered
			w.Weights, w.Bytes, w.Elapsed = w.Weights+1, w.Bytes+v.Bytes(), w.Elapsed+time.Since(start)
		}
	}
	if progress.Tensor = ""; o.Progress != nil && progress.Total > 0 {
		o.Progress(progress)
	}
	return l.out, nil
}

// begin sees how weights may be read, sums what is to be done, and checks that there is memory for it.
func (l *loader) begin(r *resolver.Resolution) (p Progress, err error) {
	p.Work = "loading"
	l.pages = r.Profile.Map && l.Platform().CanMap
	reordered := int64(0)
	for _, d := range r.Decisions {
		if d.IsWeight && d.Form.Action != resolver.Skip && d.Form.Residency != resolver.PackPages && !l.used(d) {
			p.Total += d.Form.Bytes
		}
		if d.Form.Copied() {
			reordered += d.Form.Bytes
		}
	}
	if l.Available > 0 && reordered > l.Available {
		return p, fmt.Errorf("load: %w: copies of weights in feed order take %s, and %s are available; as stored they need none", skeep.ErrMemory,
			resolver.Size(reordered), resolver.Size(l.Available))
	}
	return p, nil
}

// used reports whether a decision is to use the bytes of the source where they lie.
func (l *loader) used(d resolver.Decision) bool {
	return d.Form.Residency == resolver.FilePages && (d.Spec.Domain == tensor.Mapped || l.Memory != nil && d.Borrowed())
}

// tensor brings one tensor into its form and place.
func (l *loader) tensor(t arch.TensorInfo, d resolver.Decision) (skeep.View, error) {
	if l.used(d) {
		return l.stored(t)
	}
	switch {
	case d.Form.Residency == resolver.PackPages:
		return l.fromPack(t, d)
	case d.Form.Action == resolver.Keep && !d.Form.Reordered():
		return l.read(t, d.Spec, l.into)
	}
	from, err := l.source(t)
	if err != nil {
		return skeep.View{}, err
	}
	v, err := l.convert(t.Name, from.view, d)
	return v, errors.Join(err, from.close())
}

// convert decodes, encodes or re-orders a tensor, as was decided.
func (l *loader) convert(name string, from skeep.View, d resolver.Decision) (v skeep.View, err error) {
	c := skeep.Copier{Pool: l.Pool, Trace: l.Trace, Layer: -1}
	to := l.into.Placing(d.Spec)
	switch {
	case d.Form.Action == resolver.Dequantize:
		if v, err = c.Materialize(name, from, tensor.FormatOf(d.Form.Encoding), to); err == nil {
			err = overflow(from, v)
		}
		return v, err
	case d.Form.Action == resolver.Keep:
		return c.Prepack(name, from, d.Form.Order, to)
	case d.Form.Order == tensor.Order{}:
		return c.Encode(name, from, tensor.FormatOf(d.Form.Encoding), to)
	}
	scope := skeep.NewModelScope("load", skeep.WithTrace(l.Trace)) // for the rows, until they are re-ordered
	if v, err = c.Encode(name, from, tensor.FormatOf(d.Form.Encoding), scope.Placing(passing(d.Form.Bytes))); err == nil {
		v, err = c.Prepack(name, v, d.Form.Order, to)
	}
	return v, errors.Join(err, scope.Close())
}

// temporary is a view that serves one conversion.
type temporary struct {
	view  skeep.View
	scope *skeep.ModelScope // nil when the view is of the source itself
}

// close ends a conversion: the copy of the stored form is freed, or the pages of the file are given back.
func (t temporary) close() error {
	if t.scope != nil {
		return t.scope.Close()
	}
	advise(t.view, skeep.DontNeed)
	return nil
}

// advise gives advice about the bytes of a view if they are file pages. The system may refuse it: pages that the process
// has locked stay.
func advise(v skeep.View, a skeep.Advice) {
	if s := v.Storage(); s != nil && v.Domain() == tensor.Mapped {
		_ = s.Advise(0, s.Size(), a)
	}
}

// passing is where bytes are kept until a conversion ends: large ones outside of the Go heap, which gives them back to the
// system at once. Small ones would leave gaps in the heap of C, which that keeps.
func passing(bytes int64) tensor.AllocationSpec {
	spec := tensor.AllocationSpec{Domain: tensor.OffHeap, Alignment: 64}
	if bytes < 2<<20 {
		spec.Domain = tensor.Heap
	}
	return spec
}

// source is the stored form of a tensor for a conversion: the file's bytes where they may be read in
// place, else a copy that ends with the conversion.
func (l *loader) source(t arch.TensorInfo) (temporary, error) {
	if l.pages || l.Platform().InMemory {
		v, err := l.stored(t)
		advise(v, skeep.WillNeed)
		return temporary{view: v}, err
	}
	scope := skeep.NewModelScope("load", skeep.WithTrace(l.Trace))
	v, err := l.read(t, passing(t.Bytes), scope)
	if err != nil {
		return temporary{}, errors.Join(err, scope.Close())
	}
	return temporary{v, scope}, nil
}

// fromPack is a tensor's bytes where the pack has them: an alias of its mapping.
func (l *loader) fromPack(t arch.TensorInfo, d resolver.Decision) (skeep.View, error) {
	if l.Pack == nil || !l.Pack.Serves(t.Name, t.Encoding, d.Form.Order) {
		return skeep.View{}, errors.New("it was decided to be in a pack, and the load has none that serves it")
	}
	w, _ := l.Pack.Tensor(t.Name)
	if l.packed == nil {
		s, err := skeep.Map(l.Pack.Path, l.Pack.OSFile(), 0, l.Pack.Bytes, skeep.In(l.into), skeep.WithTrace(l.Trace))
		if changed := l.Pack.Unchanged(); changed != nil { // after the mapping, as for parts
			return skeep.View{}, changed
		}
		if err != nil {
			return skeep.View{}, err
		}
		l.packed, l.out.maps = s, append(l.out.maps, s)
	}
	layout, err := tensor.LayoutOf(tensor.FormatOf(t.Encoding), t.Shape, w.Order)
	if err != nil {
		return skeep.View{}, err
	}
	return l.packed.ViewLayout(t.Name, w.Offset, tensor.FormatOf(t.Encoding), layout)
}

// stored is a tensor's bytes where the source has them: an alias of the part's mapping or memory.
func (l *loader) stored(t arch.TensorInfo) (skeep.View, error) {
	at, err := l.File.Extent(t.Name)
	if err != nil {
		return skeep.View{}, err
	}
	part := l.parts[at.Part]
	if part == nil {
		if part, err = l.part(at.Part); err != nil {
			return skeep.View{}, err
		}
		l.parts[at.Part] = part
	}
	alias, err := part.Alias(t.Name, at.Offset, at.Bytes)
	if err != nil {
		return skeep.View{}, err
	}
	return alias.View(t.Name, 0, tensor.FormatOf(t.Encoding), t.Shape)
}

// part maps or borrows the whole of one part, so that offsets are the file's own.
func (l *loader) part(i int) (*skeep.Storage, error) {
	p := l.File.Parts()[i]
	name := p.Path
	if name == "" {
		name = l.File.Name()
	}
	options := []skeep.Option{skeep.In(l.into), skeep.WithTrace(l.Trace)}
	if l.Memory != nil {
		return skeep.Borrow(name, l.Memory, append(options, skeep.ReadOnly())...)
	}
	s, err := skeep.Map(name, p.OSFile(), 0, p.Size, options...)
	// Here rather than before: the mapping knows the file from when it was made.
	if changed := p.Verify(); changed != nil {
		return nil, changed
	}
	if err != nil {
		return nil, fmt.Errorf("%w; load mode read does not need mapping", err)
	}
	l.out.maps = append(l.out.maps, s)
	return s, nil
}

// read copies a tensor's bytes from the source into a storage of its own, placed by spec.
func (l *loader) read(t arch.TensorInfo, spec tensor.AllocationSpec, into *skeep.ModelScope) (skeep.View, error) {
	payload, err := l.File.Payload(t.Name)
	if err != nil {
		return skeep.View{}, err
	}
	s, err := skeep.Allocate(t.Name, payload.Size(), skeep.WithSpec(spec), skeep.In(into), skeep.WithTrace(l.Trace))
	if err != nil {
		return skeep.View{}, err
	}
	from, err := l.reader(t, payload)
	if err != nil {
		return skeep.View{}, err
	}
	_, err = io.CopyBuffer(io.NewOffsetWriter(s, 0), from, make([]byte, directBuffer))
	if l.direct != nil { // payloads look themselves
		err = errors.Join(l.File.Parts()[t.File].Verify(), err)
	}
	if err != nil {
		return skeep.View{}, err
	}
	return s.View(t.Name, 0, tensor.FormatOf(t.Encoding), t.Shape)
}

// reader is the bytes of a tensor: its payload, or the same bytes of the file past the page cache.
func (l *loader) reader(t arch.TensorInfo, payload *gguf.Payload) (io.Reader, error) {
	if l.Direct && l.Platform().CanMap {
		at, err := l.File.Extent(t.Name)
		if err != nil {
			return nil, err
		}
		part := l.File.Parts()[at.Part]
		if l.direct == nil || l.direct.f.Name() != part.Path {
			if err := l.closeDirect(); err != nil {
				return nil, err
			}
			if l.direct, err = openDirect(part.Path, part.OSFile()); errors.Is(err, gguf.ErrChanged) {
				return nil, err
			} else if err != nil {
				l.Direct = false
				if l.Note != nil {
					l.Note(err.Error())
				}
			}
		}
		if l.Direct {
			return io.NewSectionReader(l.direct, at.Offset, at.Bytes), nil
		}
	}
	return io.NewSectionReader(payload, 0, payload.Size()), nil
}

func (l *loader) closeDirect() error {
	if l.direct == nil {
		return nil
	}
	err := l.direct.f.Close()
	l.direct = nil
	return err
}
