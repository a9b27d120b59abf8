// Package model runs whole models. Open reads a GGUF file, has package resolver decide the form and placement of each
// tensor, and loads the weights. A Session holds the KV cache of one sequence, and Generate continues a prompt. One
// function, the decoder, computes all families of models that package arch describes, with an exec.Context; Register adds
// others.
package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/internal/machine"
	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/load/pack"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/tokenizer"
	"github.com/skeep-project/skeep/go/trace"
)

// ErrUnsupported is wrapped by errors about models that are valid but that this package cannot run.
var ErrUnsupported = errors.New("model: not supported")

// ErrOption is wrapped by errors about options that are out of range.
var ErrOption = errors.New("model: option out of range")

// Options configure how a model is opened. The zero Options are right in most cases.
type Options struct {
	Profile   *resolver.Profile   // nil: chosen from the machine's memory
	Overrides []resolver.Override // of forms and placements
	Threads   int                 // 0: the number of physical performance cores, limited by affinity and CPU quota
	Context   int                 // maximum positions of a sequence; 0: the model's maximum, but at most 4096
	Chunk     int                 // maximum tokens of a step; 0: 512
	Exact     bool                // F32 activations, and an F32 KV cache unless KV is set
	KV        *tensor.Encoding    // of the KV cache: F32, F16 or BF16; nil: the profile's
	Pre       string              // pre-tokenizer to use instead of the file's, which may be absent or wrong
	Load      LoadMode
	Pack      PackMode
	Packs     pack.Folder // where packs are; without a path, the folder of pack.Default
	Trace     *trace.Recorder
	// Prepare is called after the header has been read and before Explain, so that callers can check things against the
	// vocabulary or the context before anything is loaded. Of the model's methods it may use Arch, Tokenizer,
	// Resolution, Context and Example; it must not close the model. An error ends Open.
	Prepare func(*Model) error
	// Progress is called while weights are copied, decoded or re-ordered, and while a pack is made or looked for.
	Progress func(load.Progress)
	// Explain is called with the resolution before any payload is read. An error ends Open.
	Explain func(*resolver.Resolution) error
}

// Check returns an error if the options are invalid for every model. It wraps ErrOption, ErrUnsupported or
// resolver.ErrOverride, or is a *tokenizer.PreError.
func (o Options) Check() error {
	if o.Load != "" && !slices.Contains(LoadModes, o.Load) {
		return fmt.Errorf("%w: unknown load mode %q, want one of %v", ErrOption, o.Load, LoadModes)
	}
	if !slices.Contains([]PackMode{PackUse, PackMake, PackOff}, o.Pack) {
		return fmt.Errorf("%w: unknown pack mode %q, want \"\", make or off", ErrOption, o.Pack)
	}
	for _, c := range []struct {
		name       string
		value, max int
	}{{"threads", o.Threads, maxThreads}, {"context", o.Context, maxContext}, {"chunk", o.Chunk, maxChunk}} {
		if c.value < 0 || c.value > c.max {
			return fmt.Errorf("%w: %s %d, want 1 to %d", ErrOption, c.name, c.value, c.max)
		}
	}
	switch e := o.cache(); e {
	case tensor.EncF32, tensor.EncF16, tensor.EncBF16:
	default:
		return fmt.Errorf("%w: KV cache in %s, want F32, F16 or BF16", ErrUnsupported, e)
	}
	for _, override := range o.Overrides {
		if err := override.Check(); err != nil {
			return err
		}
	}
	if known := tokenizer.Pretokenizers(); o.Pre != "" && !slices.Contains(known, o.Pre) {
		return &tokenizer.PreError{Name: o.Pre, Known: known}
	}
	return nil
}

// What a machine could ever want, and no arithmetic overflows at.
const (
	maxThreads = 1024
	maxContext = 1 << 30
	maxChunk   = 1 << 20
)

// cache is the encoding of the caches; F32 as long as it is left to a profile that is not chosen yet.
func (o Options) cache() tensor.Encoding {
	switch {
	case o.KV != nil:
		return *o.KV
	case o.Exact || o.Profile == nil:
		return tensor.EncF32
	}
	return o.Profile.KV
}

// LoadMode says how weights that keep their stored form get into memory.
type LoadMode string

// The modes.
const (
	LoadMap     LoadMode = "mmap"    // file pages, read when they are first touched (the default)
	LoadRead    LoadMode = "read"    // copied into memory of this process
	LoadDirect  LoadMode = "direct"  // the same without the page cache, where the file system supports that
	LoadPrewarm LoadMode = "prewarm" // file pages that the system is asked to read at once
	LoadLocked  LoadMode = "locked"  // file pages locked in memory; prewarm, where that is not allowed
)

// LoadModes lists the modes.
var LoadModes = []LoadMode{LoadMap, LoadRead, LoadDirect, LoadPrewarm, LoadLocked}

// Model is an open model: its loaded weights and its tokenizer. It is safe for concurrent use. Sessions of one model
// share weights and threads.
type Model struct {
	file       string
	arch       *arch.Model
	tokenizer  *tokenizer.Tokenizer
	plan       *resolver.Plan
	resolution *resolver.Resolution // the plan's
	scope      *skeep.ModelScope
	memory     int64 // what the Go heap may hold
	pool       *skeep.Pool
	threads    int
	net        *Network
	forward    Forward
	weights    *load.Weights
	example    string
	kv         arch.KV
	kvFormat   tensor.Format
	exact      bool
	trace      *trace.Recorder
	loadTime   time.Duration
	notes      []string
	pack       PackReport

	running sync.RWMutex // held for reading by steps, for writing by Close
	closed  atomic.Bool

	mu       sync.Mutex
	sessions map[*Session]struct{} // open ones
}

// Open opens and loads the GGUF file at path, which may be any part of a split set. The caller must Close the model.
// Errors are those of packages gguf, arch, tokenizer, resolver and load; each names the file and the key or tensor.
func Open(ctx context.Context, path string, o Options) (*Model, error) {
	if ctx == nil {
		return nil, noContext("open", path)
	}
	start := time.Now()
	s, err := load.Open(path, gguf.Options{})
	if err != nil {
		return nil, err
	}
	m, err := open(ctx, s, o, start)
	return m, errors.Join(err, s.File.Close()) // a mapping keeps its own descriptor
}

// OpenBytes is Open for a file in memory; weights are used in place. b must not change while the model is open. If b
// belongs to a mapping that the caller made, reading a page that no longer exists is skeep.ErrFault; a file that was
// truncated within its last page, or changed, is not detected. Open detects both.
func OpenBytes(ctx context.Context, name string, b []byte, o Options) (*Model, error) {
	if ctx == nil {
		return nil, noContext("open", name)
	}
	start := time.Now()
	s, err := load.Bytes(name, b)
	if err != nil {
		return nil, err
	}
	return open(ctx, s, o, start)
}

// noContext is the error of a call whose context is nil.
func noContext(op, of string) error {
	return &skeep.Error{Op: op, Storage: of, Err: skeep.ErrArgument, Detail: "the context is nil"}
}

func open(ctx context.Context, s load.Source, o Options, start time.Time) (m *Model, err error) {
	d, err := decide(ctx, s, o, true, nil)
	defer func() { err = errors.Join(err, d.closePack()) }()
	if err != nil {
		return nil, err
	}
	p := d.plan
	if p.Refused != nil {
		return nil, p.Refused
	}
	described, err := arch.Describe(s.File)
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.New(s.File, tokenizer.Options{Pre: o.Pre})
	if err != nil {
		return nil, err
	}
	if tok.Len() > described.Vocab {
		return nil, fmt.Errorf("%w: %s: the tokenizer has %d tokens, but the embedding table has %d rows", ErrUnsupported, s.File.Name(), tok.Len(), described.Vocab)
	}
	m = &Model{file: s.File.Name(), arch: described, tokenizer: tok, plan: p, resolution: p.Resolution, memory: p.Memory,
		scope: skeep.NewModelScope(s.File.Name(), skeep.WithTrace(o.Trace), skeep.WithHeapLimit(p.Memory)),
		kv:    p.KV, kvFormat: p.KVFormat, exact: o.Exact, trace: o.Trace, pack: d.packed, forward: forwardOf(described.Arch), weights: &load.Weights{}}
	defer func() {
		if err != nil {
			if !m.closed.Load() {
				err = errors.Join(err, m.Close())
			}
			m = nil
		}
	}()
	m.notes = append(MetadataNotes(s.File, tok), d.notes...)
	if v, ok := s.File.Value("skeep.example"); ok {
		m.example, _ = v.Text()
	}
	if o.Prepare != nil {
		if err = o.Prepare(m); err != nil {
			return m, err
		}
		if m.closed.Load() {
			return m, &skeep.Error{Op: "open", Storage: m.file, Err: skeep.ErrClosed, Detail: "Prepare has closed the model"}
		}
	}
	if o.Explain != nil {
		if err = o.Explain(p.Resolution); err != nil {
			return m, err
		}
	}
	if m.pool, err = skeep.NewPool(p.Threads()); err != nil {
		return m, err
	}
	m.threads = m.pool.Threads()
	if s.NotMapped != nil && o.Load != LoadRead && o.Load != LoadDirect {
		m.note(fmt.Sprintf("weights are read instead of mapped: %v", strings.TrimPrefix(s.NotMapped.Error(), "load: ")))
	}
	if m.weights, err = load.Load(ctx, s, p.Resolution, m.scope, load.Options{
		Pool: m.pool, Trace: o.Trace, Direct: o.Load == LoadDirect, Note: m.note, Available: p.Available, Pack: d.pack, Progress: o.Progress}); err != nil {
		return m, err
	}
	if err = m.keepPages(ctx, o.Load, p.Available); err != nil {
		return m, err
	}
	if m.net, err = newNetwork(described, m.weights, m.scope, p.KV.Context); err != nil {
		return m, err
	}
	m.loadTime = time.Since(start)
	return m, nil
}

// MetadataNotes returns readable remarks on a file's metadata: unknown keys of its architecture or tokenizer, and
// requests that are not followed. t is the file's tokenizer, or nil.
func MetadataNotes(h arch.Header, t *tokenizer.Tokenizer) (notes []string) {
	if h == nil {
		return nil
	}
	for _, key := range slices.Concat(arch.UnknownKeys(h), tokenizer.UnknownKeys(h)) {
		notes = append(notes, shown.Name(key)+": unknown key, ignored; results are wrong if it matters")
	}
	for key := range h.Keys() {
		one, many := strings.CutSuffix(key, "s")
		if _, ok := h.Value(one); many && !ok && strings.HasSuffix(one, "_token_id") && key != "tokenizer.ggml.eos_token_ids" {
			notes = append(notes, shown.Name(key)+": ignored, and the file has no "+shown.Name(one))
		}
	}
	if n := vocabSize(h); t != nil && n >= 0 && n != int64(t.Len()) {
		notes = append(notes, fmt.Sprintf("vocab_size: %d is ignored, since the vocabulary has %d tokens", n, t.Len()))
	}
	if t != nil && t.AddEOS() {
		notes = append(notes, "tokenizer.ggml.add_eos_token: the file asks for EOS at the end of a text; a text that is continued or predicted has none")
	}
	return notes
}

// vocabSize is what the metadata say of the vocabulary's size, -1 when nothing.
func vocabSize(h arch.Header) int64 {
	if family, ok := h.Value("general.architecture"); ok {
		name, _ := family.Text()
		if v, ok := h.Value(name + ".vocab_size"); ok {
			if n, ok := v.Int(); ok {
				return n
			}
		}
	}
	return -1
}

func (m *Model) note(text string) { m.notes = append(m.notes, text) }

// decision is everything that is settled before a byte of payload is read.
type decision struct {
	plan    *resolver.Plan
	threads int
	pack    *pack.Pack
	packed  PackReport
	notes   []string
}

func (d *decision) note(text string) { d.notes = append(d.notes, text) }

// Plan says what the model at path would cost, in the forms and sizes that Open would choose, without loading anything. It
// needs only the header, and any architecture will do. If the file is shorter than its header requires, the plan's
// Resolution.Truncated reports it. change, unless nil, alters the header and the options of the plan, for example to plan for
// another device. Errors are those of packages gguf and resolver; a refusal is Plan.Refused.
func Plan(path string, o Options, change func(*arch.Header, *resolver.PlanOptions)) (*resolver.Plan, error) {
	s, err := load.Open(path, gguf.Options{HeaderOnly: true})
	if err != nil {
		return nil, err
	}
	d, err := decide(context.Background(), s, o, false, change)
	if d.plan != nil {
		d.plan.Resolution.Truncated = s.File.Truncated()
	}
	return d.plan, errors.Join(err, d.closePack(), s.File.Close())
}

// PlanBytes is Plan for a file in memory.
func PlanBytes(name string, b []byte, o Options, change func(*arch.Header, *resolver.PlanOptions)) (*resolver.Plan, error) {
	s, err := load.Bytes(name, b)
	if err != nil {
		return nil, err
	}
	d, err := decide(context.Background(), s, o, false, change)
	return d.plan, errors.Join(err, d.closePack())
}

// decide makes all decisions. The caller must close the pack, also with an error. loading says that a load follows, for which a
// pack may be made; change is as for Plan.
func decide(ctx context.Context, s load.Source, o Options, loading bool, change func(*arch.Header, *resolver.PlanOptions)) (d decision, err error) {
	if err := o.Check(); err != nil {
		return d, err
	}
	here := machine.Here()
	profile, _ := resolver.Default(here.Memory)
	if o.Profile != nil {
		profile = *o.Profile
	}
	if o.Load == LoadRead || o.Load == LoadDirect {
		profile.Map = false
	}
	d.threads = cmp.Or(o.Threads, min(here.Threads, maxThreads))
	costs := resolver.MeasuredCosts()
	costs.Pool = skeep.PoolBytes(d.threads)
	o.Profile = &profile
	if err := d.seekPack(ctx, s, o, loading); err != nil {
		return d, err
	}
	var packed *resolver.Pack
	if d.pack != nil {
		packed = &resolver.Pack{Name: d.pack.Path, Serves: d.pack.Serves}
	}
	q := resolver.PlanOptions{Profile: profile, Platform: s.Platform(), Kernels: skeep.Kernels(), Processor: skeep.Processor(), Pack: packed,
		Overrides: o.Overrides, Exact: o.Exact, KV: o.KV, Context: o.Context, Chunk: o.Chunk, Threads: d.threads, Memory: here.Memory, Available: here.Available, Costs: costs}
	h := arch.Header(s.File)
	if change != nil {
		change(&h, &q)
	}
	if d.plan, err = resolver.MakePlan(h, q); err == nil {
		d.countPacked(d.plan.Resolution)
	}
	return d, err
}

// Arch is the description of the model from the file's metadata. It must not be modified.
func (m *Model) Arch() *arch.Model { return m.arch }

// Tokenizer is the model's tokenizer.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.tokenizer }

// Resolution is the form and placement of every tensor, with reasons.
func (m *Model) Resolution() *resolver.Resolution { return m.resolution }

// Plan is what the model and one session take, as it was computed from the header before anything was loaded.
func (m *Model) Plan() *resolver.Plan { return m.plan }

// Context is the maximum number of positions of a sequence.
func (m *Model) Context() int { return m.kv.Context }

// Threads is how many threads compute, the caller's included.
func (m *Model) Threads() int { return m.threads }

// Example is the example prompt in the file's metadata, or "".
func (m *Model) Example() string { return m.example }

// LoadTime is how long Open took.
func (m *Model) LoadTime() time.Duration { return m.loadTime }

// Notes are readable remarks, for example about unknown metadata or a load mode that was replaced by another.
func (m *Model) Notes() []string { return m.notes }

// Weight is a loaded tensor by its name.
func (m *Model) Weight(name string) (skeep.View, bool) {
	if m.weights == nil {
		return skeep.View{}, false
	}
	return m.weights.View(name)
}

// Close waits for running steps and then frees everything that the model owns. It closes all open sessions, including
// those of abandoned generations. A second Close is skeep.ErrClosed.
func (m *Model) Close() error {
	m.running.Lock()
	defer m.running.Unlock()
	m.closed.Store(true)
	var errs []error
	for _, s := range m.open() {
		errs = append(errs, s.Close())
	}
	if m.scope != nil {
		errs = append(errs, m.scope.Close())
	}
	if m.pool != nil {
		m.pool.Close()
	}
	return errors.Join(errs...)
}

// remember, forget and open keep the list of open sessions.
func (m *Model) remember(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions == nil {
		m.sessions = map[*Session]struct{}{}
	}
	m.sessions[s] = struct{}{}
}

func (m *Model) forget(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, s)
}

func (m *Model) open() []*Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.sessions))
}

// begin keeps the model open until m.running.RUnlock, unless it is closed.
func (m *Model) begin(op string) error {
	m.running.RLock()
	if err := m.openFor(op); err != nil {
		m.running.RUnlock()
		return err
	}
	return nil
}

// openFor refuses what comes behind Close.
func (m *Model) openFor(op string) error {
	if m.closed.Load() {
		return &skeep.Error{Op: op, Storage: m.file, Err: skeep.ErrClosed, Detail: "model"}
	}
	if m.net == nil {
		return &skeep.Error{Op: op, Storage: m.file, Err: skeep.ErrArgument, Detail: "the model is not loaded"}
	}
	return nil
}
