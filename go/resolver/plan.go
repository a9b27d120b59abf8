package resolver

import (
	"errors"
	"fmt"
	"math"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/internal/argument"
	"github.com/skeep-project/skeep/go/tensor"
)

// PlanOptions are everything that a plan depends on beside the header of a model. The zero values of the sizes are the
// defaults of a session.
type PlanOptions struct {
	Profile   Profile
	Platform  Platform
	Kernels   tensor.Kernels // skeep.Kernels()
	Processor string         // skeep.Processor()
	Pack      *Pack
	Overrides []Override
	Exact     bool // F32 activations, and an F32 KV cache unless KV is set
	KV        *tensor.Encoding
	Context   int // positions of a sequence; 0: the model's, but at most 4096
	Chunk     int // tokens of a step; 0: 512
	Sequences int // sessions at the same time; 0: 1
	Threads   int // that compute; 0: 1
	// Memory is what the device has, Available what can be had now; 0: unknown. The limit of a plan is the least of the
	// profile's budget and what is available.
	Memory, Available int64
	Costs             Costs
}

// The defaults of a session, and what no arithmetic overflows at.
const (
	DefaultContext = 4096
	DefaultChunk   = 512
	maxContext     = 1 << 30
	maxChunk       = 1 << 20
	maxSequences   = 1 << 20
)

// ErrPlan is wrapped by errors about options of a plan that are out of range.
var ErrPlan = errors.New("resolver: option of a plan out of range")

// Plan is what a model costs on a device, found from its header alone. The same numbers are what a load and a session
// allocate. It is immutable.
type Plan struct {
	Resolution *Resolution
	Refused    error // why a strict profile refuses the model: *RefusedError or *BudgetError; else nil
	Sizes      *arch.Sizes
	KV         arch.KV // of one session
	KVFormat   tensor.Format
	Sequences  int
	Terms      []Term
	// Private and Mapped are the two pools: bytes that belong to the process alone, and pages of files, which the system can
	// evict and read again. They are the sums of the terms.
	Private, Mapped   int64
	Memory, Available int64
	Limit             int64 // bytes that the device has for it; 0: unknown
	LimitReason       string
	Verdict           Verdict
	Margin            int64             // bytes left below the limit by what the verdict needs
	Missing           int64             // bytes by which the limit is exceeded when the verdict is No
	TokenBytes        int64             // bytes of weights that one generated token reads
	DiskBytes         int64             // of these, what must come from disk for each token when the verdict is Pages
	Smallest          int64             // the smallest budget with which it runs
	SmallestFitting   int64             // the smallest budget with which it fits
	Assumptions       []arch.Assumption // what nobody stated: keys of metadata, and sizes of sessions

	header   arch.Header
	options  PlanOptions
	beyond   string // a note about the context; ""
	integers bool   // products take activations in their integer form
}

// Verdict says whether a model can be used on a device.
type Verdict uint8

// The verdicts.
const (
	Fits  Verdict = iota // everything is in memory
	Pages                // private memory fits; file pages do not, and are read from disk again and again
	No                   // private memory does not fit, or a strict profile refuses the model
)

func (v Verdict) String() string { return [...]string{"fits", "pages", "no"}[min(v, No)] }

// MakePlan plans a model from its header, of any architecture. It reads no payload. A model that does not fit is no
// error: see Plan.Verdict. Errors are those of arch.Measure and Resolve, except refusals, and ErrPlan.
func MakePlan(h arch.Header, o PlanOptions) (*Plan, error) {
	if h == nil {
		return nil, argument.Nil("resolver: plan", "header")
	}
	p, err := o.plan(h)
	if err != nil {
		return nil, err
	}
	return p, p.smallest()
}

// plan is MakePlan without the smallest budgets, which take plans of their own.
func (o PlanOptions) plan(h arch.Header) (p *Plan, err error) {
	p = &Plan{Memory: o.Memory, Available: o.Available, header: h, options: o}
	q := Request{Header: h, Profile: o.Profile, Platform: o.Platform, Kernels: o.Kernels, Processor: o.Processor, Available: o.Available, Exact: o.Exact,
		Pack: o.Pack, Overrides: o.Overrides}
	p.Sizes, err = arch.Measure(h)
	switch described, unknown := arch.Describe(h); {
	case unknown == nil: // a session goes by this, and knows which keys do not matter
		if err != nil {
			p.Sizes = &arch.Sizes{}
		}
		p.Sizes.Geometry, q.Unused = described.Geometry, described.Unused
	case !errors.As(unknown, new(*arch.UnknownArchError)):
		return nil, unknown
	case err != nil:
		return nil, err
	default:
		q.Foreign = true
	}
	if err := p.sizes(o); err != nil {
		return nil, err
	}
	for _, override := range o.Overrides {
		if err := override.Check(); err != nil {
			return nil, err
		}
	}
	p.integers = q.integers(q.weights())
	if q.Needs, err = p.needs(); err != nil {
		return nil, err
	}
	costs := p.overhead(h, o)
	for _, t := range costs {
		if t.Domain != tensor.Mapped || o.Profile.CountMapped {
			q.Beside = add(q.Beside, t.Bytes)
		}
	}
	if p.Resolution, err = Resolve(q); p.Resolution == nil {
		return nil, err
	}
	p.Refused = err
	if p.beyond != "" {
		p.Resolution.Notes = append(p.Resolution.Notes, p.beyond)
	}
	p.terms(costs)
	p.judge(o.Profile)
	return p, nil
}

// sizes settles what a session is like.
func (p *Plan) sizes(o PlanOptions) error {
	settle := func(name string, given, usual, most int, reason string) (int, error) {
		if given < 0 || given > most {
			return 0, fmt.Errorf("%w: %s %d, want 1 to %d", ErrPlan, name, given, most)
		}
		if given == 0 {
			given = usual
			p.assume(name, fmt.Sprint(given), reason)
		}
		return given, nil
	}
	longest := max(1, p.Sizes.Context)
	why := fmt.Sprintf("the model's %d", p.Sizes.Context)
	if p.Sizes.Context > DefaultContext {
		why += fmt.Sprintf(", but at most %d", DefaultContext)
	} else if p.Sizes.Context == 0 {
		longest, why = DefaultContext, "the model does not say"
	}
	var err error
	if p.KV.Context, err = settle("context", o.Context, min(longest, DefaultContext), maxContext, why); err != nil {
		return err
	}
	if p.KV.Chunk, err = settle("chunk", o.Chunk, min(DefaultChunk, p.KV.Context), maxChunk, "tokens of a prompt in one step"); err != nil {
		return err
	}
	p.KV.Chunk = min(p.KV.Chunk, p.KV.Context)
	if p.KV.Context > longest {
		p.beyond = fmt.Sprintf("a context of %d is beyond the %d that the model was trained for", p.KV.Context, longest)
	}
	if p.Sequences, err = settle("sequences", o.Sequences, max(1, int(min(o.Profile.Sequences, maxSequences))), maxSequences, "sessions at the same time"); err != nil {
		return err
	}
	p.KV.Sequences = 1 // sessions have caches of their own
	kv := o.Profile.KV
	switch {
	case o.KV != nil:
		kv = *o.KV
	case o.Exact:
		kv = tensor.EncF32
	default:
		p.assume("kv", kv.String(), "of profile "+o.Profile.Name)
	}
	p.KVFormat = tensor.FormatOf(kv)
	p.Assumptions = append(p.Assumptions, p.Sizes.Assumptions...)
	return nil
}

func (p *Plan) assume(name, value, reason string) {
	p.Assumptions = append(p.Assumptions, arch.Assumption{Key: name, Value: value, Reason: reason})
}

// The needs of sessions, by their names in a resolution.
const (
	NeedKV   = "kv"
	NeedSlab = "slab"
)

// needs are the caches and slabs of all sessions.
func (p *Plan) needs() ([]Need, error) {
	kv, err := p.Sizes.KVBytes(p.KV, p.KVFormat)
	if err != nil {
		return nil, err
	}
	state, err := p.Sizes.StateBytes(p.KV)
	if err != nil {
		return nil, err
	}
	return []Need{
		{Name: NeedKV, Bytes: times(add(kv, state), int64(p.Sequences)), Scope: tensor.Model},
		{Name: NeedSlab, Bytes: times(p.SlabBytes(), int64(p.Sequences)), Scope: tensor.Forward},
	}, nil
}

// Total is the bytes of all terms.
func (p *Plan) Total() int64 { return add(p.Private, p.Mapped) }

// Threads is how many threads compute.
func (p *Plan) Threads() int { return max(1, p.options.Threads) }

// SlabBytes is the size of the slabs in which one session's steps compute: two, whose layers take turns.
func (p *Plan) SlabBytes() int64 { return times(p.Sizes.LayerBytes(p.KV.Chunk, 1, p.integers), 2) }

// add and times stay at the largest int64 instead of overflowing.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a, n int64) int64 {
	if a != 0 && n > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * n
}
