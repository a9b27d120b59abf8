package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/machine"
	"github.com/skeep-project/skeep/go/model"
	"github.com/skeep-project/skeep/go/quant"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/spf13/cobra"
)

// benchResult is what bench prints as JSON: rows of tests, and the limits that were measured beside them.
type benchResult struct {
	Processor string       `json:"processor,omitempty"`
	ISA       string       `json:"isa"`
	Threads   int          `json:"threads"`
	Read      readLimit    `json:"read"`
	Multiply  float64      `json:"multiply_operations_per_second"` // 8-bit integers, in registers; 0 unknown
	Results   []*benchTest `json:"results"`
}

// readLimit is the read bandwidth of the machine: each thread reads one sequential stream.
type readLimit struct {
	BytesPerSecond float64 `json:"bytes_per_second"`
	Buffer         uint64  `json:"buffer"`     // bytes that were read over and over
	HugePages      uint64  `json:"huge_pages"` // bytes of it in huge pages
	Cache          uint64  `json:"cache"`      // bytes of the largest cache; 0 unknown
}

// benchTest is a row of the table.
type benchTest struct {
	Model       string    `json:"model"`
	Size        int64     `json:"size"`
	Params      int64     `json:"params"`
	Test        string    `json:"test"`
	Prompt      int       `json:"prompt_tokens"`
	Generated   int       `json:"generated_tokens"`
	Rates       []float64 `json:"samples"` // tokens per second of each repetition
	Rate        float64   `json:"tokens_per_second"`
	Deviation   float64   `json:"sd"`
	Bytes       float64   `json:"bytes_per_token"`              // read to generate one, on average
	Bandwidth   float64   `json:"bytes_per_second"`             // what generation read
	Share       float64   `json:"share_of_read_bandwidth"`      // of generation
	Operations  float64   `json:"operations_per_second"`        // multiplications and additions of products with weights
	ShareOfPeak float64   `json:"share_of_multiply_operations"` // 0 where the peak is unknown
}

// limits measures, between the repetitions of tests, what the machine can do.
type limits struct {
	pool           *core.Pool
	buffer         core.Storage
	bytes          uint64
	read, multiply []float64 // per second
}

// maxRepetitions bounds what a slip of the finger can ask for.
const maxRepetitions = 10_000

func benchCommand() *cobra.Command {
	var prompts, generated []int
	var repetitions int
	c := &cobra.Command{
		Use:   "bench MODEL",
		Short: "Measure the speed of a model, and how much of the machine's it reaches",
		Long: `bench measures how many tokens per second a model reads as a prompt (pp512: 512 tokens) and generates (tg64: 64 tokens, one
after the other), over random token ids from an empty context. Each test runs once unmeasured and then -r times; printed are the mean
and the standard deviation. Between the repetitions it measures the limits of the machine with as many threads:

  read bandwidth   each thread reads one sequential stream, over a buffer of four times the largest cache (at most half of the memory
                   that is available). Generating a token reads every weight that is multiplied and the KV cache: its share of this
                   bandwidth says how near generation is to what the memory allows. Rows of an embedding table that are only looked
                   up do not count; a table that is also the output layer counts once.
  8-bit peak       multiplications and additions of 8-bit integers in registers, with the instruction set in use. A prompt is computed
                   in steps of many tokens that use each weight many times: its share of this peak says how near it is to what
                   the processor allows.`,
		Example: "  skeep bench model.gguf\n  skeep bench model.gguf -p 128,512 -n 0 -r 10 -o json\n  SKEEP_ISA=avx2 skeep bench model.gguf -t 1",
		Args:    cobra.ExactArgs(1),
	}
	format := outputFlag(c, "md")
	options := modelFlags(c)
	f := c.Flags()
	f.IntSliceVarP(&prompts, "prompt", "p", []int{512}, "tokens of the prompts to test; 0: none")
	f.IntSliceVarP(&generated, "n", "n", []int{64}, "tokens to generate; 0: none")
	f.IntVarP(&repetitions, "repetitions", "r", 5, "how often each test is measured")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		o, profile, err := options()
		if err != nil {
			return err
		}
		tests, longest, err := benchTests(prompts, generated)
		if err != nil {
			return err
		}
		if repetitions < 1 || repetitions > maxRepetitions {
			return fmt.Errorf("-r %d, want 1 to %d", repetitions, maxRepetitions)
		}
		if !c.Flags().Changed("ctx") {
			o.Context = longest
		}
		if _, err := claim(c, modelFile(args)); err != nil {
			return err
		}
		if err := describeTests(tests, args[0]); err != nil {
			return err
		}
		o.Prepare = func(m *model.Model) error {
			if longest > m.Context() {
				return &model.ContextError{Tokens: longest, Context: m.Context()}
			}
			return nil
		}
		notes := c.ErrOrStderr()
		o.Explain = func(r *resolver.Resolution) error {
			fmt.Fprintf(notes, "%s, profile %s\n", args[0], profile)
			summarize(notes, r)
			return nil
		}
		m, err := openModel(c, args, o)
		if err != nil {
			return refusal(err)
		}
		defer func() { err = errors.Join(err, m.Close()) }()
		limit, err := newLimits(m.Threads(), machine.Here().Available)
		if err != nil {
			return err
		}
		defer limit.close()
		if err := measure(c, m, tests, repetitions, limit); err != nil {
			return err
		}
		r := benchResult{Processor: machine.Here().ProcessorName, ISA: core.ISA(), Threads: m.Threads(), Results: tests, Multiply: median(limit.multiply),
			Read: readLimit{BytesPerSecond: median(limit.read), Buffer: limit.bytes, Cache: core.CacheBytes()}}
		r.Read.HugePages, _ = core.HugeBytes(limit.buffer)
		for _, t := range tests {
			t.finish(m, r)
		}
		r.describe(notes)
		return write(c.OutOrStdout(), *format, r.table(*format), r)
	}
	return c
}

// benchTests are the tests of prompts and generations, and how many tokens the longest one needs room for.
func benchTests(prompts, generated []int) (tests []*benchTest, longest int, err error) {
	for _, list := range []struct {
		flag   string
		prefix string
		counts []int
		field  func(*benchTest) *int
	}{
		{"p", "pp", prompts, func(t *benchTest) *int { return &t.Prompt }},
		{"n", "tg", generated, func(t *benchTest) *int { return &t.Generated }},
	} {
		for _, n := range list.counts {
			if n < 0 || n > 1<<20 {
				return nil, 0, fmt.Errorf("-%s %d, want 0 to %d", list.flag, n, 1<<20)
			}
			if n == 0 {
				continue
			}
			t := &benchTest{Test: fmt.Sprint(list.prefix, n)}
			*list.field(t) = n
			tests, longest = append(tests, t), max(longest, n)
		}
	}
	if len(tests) == 0 {
		return nil, 0, errors.New("nothing to test: -p and -n are 0")
	}
	return tests, longest, nil
}

// describeTests names the model of the tests as its header does.
func describeTests(tests []*benchTest, path string) error {
	f, err := gguf.Open(path, gguf.Options{HeaderOnly: true})
	if err != nil {
		return err
	}
	defer f.Close()
	name, size, params := "unknown", int64(0), int64(0)
	if v, ok := f.Value("general.architecture"); ok {
		name, _ = v.Text()
	}
	for _, t := range f.Tensors() {
		if t.AliasOf != "" {
			continue
		}
		n, _ := t.Shape.Elements()
		size, params = size+max(0, t.Bytes), params+n
	}
	name += " " + inBillions(params)
	if v, ok := f.Value("general.file_type"); ok {
		if n, ok := v.Int(); ok && quant.TypeName(n) != "" {
			name += " " + quant.TypeName(n)
		}
	}
	for _, t := range tests {
		t.Model, t.Size, t.Params = name, size, params
	}
	return nil
}

// inBillions writes a number of parameters as people do: 1.10B, 268.10M.
func inBillions(n int64) string {
	switch x := float64(n); {
	case x >= 1e9:
		return fmt.Sprintf("%.2fB", x/1e9)
	case x >= 1e6:
		return fmt.Sprintf("%.2fM", x/1e6)
	default:
		return fmt.Sprintf("%.2fK", x/1e3)
	}
}

// newLimits prepares measuring with a pool of its own, and memory of at most half of what is available.
func newLimits(threads int, available int64) (*limits, error) {
	pool, st := core.NewPool(threads, 0)
	if st.Code != core.OK {
		return nil, fmt.Errorf("threads to measure the machine with: %s", st)
	}
	l := &limits{pool: pool, bytes: core.MeasureBytes(uint64(available))}
	if l.buffer, st = core.Allocate(l.bytes, 0); st.Code == core.OK {
		if st = core.MeasureTouch(pool, l.buffer); st.Code == core.OK {
			return l, nil
		}
		core.Close(l.buffer, nil)
	}
	pool.Close()
	return nil, fmt.Errorf("%s to measure the read bandwidth with: %s", resolver.Size(int64(l.bytes)), st)
}

func (l *limits) close() {
	core.Close(l.buffer, nil)
	l.pool.Close()
}

// measure takes one more sample of each limit.
func (l *limits) measure() error {
	seconds, st := core.MeasureRead(l.pool, l.buffer)
	if st.Code != core.OK {
		return fmt.Errorf("bench: reading memory: %s", st)
	}
	l.read = append(l.read, float64(l.bytes)/seconds)
	operations, seconds, st := core.MeasureMultiply(l.pool)
	if st.Code != core.OK {
		return fmt.Errorf("bench: multiplying: %s", st)
	}
	if operations > 0 {
		l.multiply = append(l.multiply, operations/seconds)
	}
	return nil
}

// measure runs the tests, each once unmeasured, and a sample of the limits beside every repetition.
func measure(c *cobra.Command, m *model.Model, tests []*benchTest, repetitions int, l *limits) (err error) {
	s, err := m.NewSession()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	random := rand.New(rand.NewPCG(0, 0))
	for _, t := range tests {
		ids := make([]int32, max(t.Prompt, t.Generated))
		for i := range ids {
			ids[i] = random.Int32N(int32(m.Tokenizer().Len()))
		}
		run := func(ids []int32) error {
			if err := s.Rewind(0); err != nil {
				return err
			}
			step := 1
			if t.Prompt > 0 {
				step = len(ids)
			}
			for part := range slices.Chunk(ids, step) {
				if _, err := s.Append(c.Context(), part...); err != nil {
					return err
				}
			}
			return nil
		}
		warm := len(ids)
		if t.Generated > 0 {
			warm = 1
		}
		if err := run(ids[:warm]); err != nil {
			return err
		}
		for range repetitions {
			if err := l.measure(); err != nil {
				return err
			}
			start := time.Now()
			if err := run(ids); err != nil {
				return err
			}
			t.Rates = append(t.Rates, float64(len(ids))/time.Since(start).Seconds())
		}
	}
	return nil
}

// finish derives what the samples say.
func (t *benchTest) finish(m *model.Model, r benchResult) {
	n := float64(len(t.Rates))
	for _, x := range t.Rates {
		t.Rate += x / n
	}
	for _, x := range t.Rates {
		t.Deviation += (x - t.Rate) * (x - t.Rate) / max(1, n-1)
	}
	t.Deviation = math.Sqrt(t.Deviation)
	tokens, operations := float64(t.Prompt+t.Generated), 0.0
	if t.Prompt > 0 {
		operations = float64(m.Work(0, t.Prompt).Operations)
	}
	for i := range t.Generated {
		w := m.Work(i, 1)
		operations += float64(w.Operations)
		t.Bytes += float64(w.Weights+w.KV) / tokens
	}
	t.Operations = operations / tokens * t.Rate
	t.Bandwidth = t.Bytes * t.Rate
	t.Share = t.Bandwidth / r.Read.BytesPerSecond
	if r.Multiply > 0 {
		t.ShareOfPeak = t.Operations / r.Multiply
	}
}

// describe says how the limits were found.
func (r *benchResult) describe(w io.Writer) {
	name := ""
	if r.Processor != "" {
		name = r.Processor + ", "
	}
	threads := "1 thread"
	if r.Threads > 1 {
		threads = fmt.Sprintf("%d threads", r.Threads)
	}
	fmt.Fprintf(w, "%s%s, %s\n", name, r.ISA, threads)
	describeRead(w, r.Read)
	if r.Multiply > 0 {
		fmt.Fprintf(w, "8-bit peak: %.0f Gop/s\n", r.Multiply/1e9)
	}
}

// describeRead says how the read bandwidth was found.
func describeRead(w io.Writer, r readLimit) {
	pages := "small pages"
	if r.HugePages > 0 {
		pages = fmt.Sprintf("%s of it in huge pages", resolver.Size(int64(r.HugePages)))
	}
	cache := "an unknown cache"
	if r.Cache > 0 {
		cache = fmt.Sprintf("%.1f times the largest cache", float64(r.Buffer)/float64(r.Cache))
	}
	fmt.Fprintf(w, "read bandwidth: %.1f GB/s (one sequential stream per thread, %s, %s, %s)\n", r.BytesPerSecond/1e9,
		resolver.Size(int64(r.Buffer)), cache, pages)
}

// table is for people, or with plain numbers for programs.
func (r *benchResult) table(format string) table {
	if format == "csv" {
		t := table{columns: []string{"model", "size", "params", "isa", "threads", "test", "tokens_per_second", "sd", "bytes_per_second",
			"share_of_read_bandwidth", "operations_per_second", "share_of_multiply_operations", "read_bytes_per_second", "multiply_operations_per_second"}}
		for _, x := range r.Results {
			t.add(x.Model, x.Size, x.Params, r.ISA, r.Threads, x.Test, x.Rate, x.Deviation, x.Bandwidth, x.Share, x.Operations, x.ShareOfPeak,
				r.Read.BytesPerSecond, r.Multiply)
		}
		return t
	}
	t := table{columns: []string{"model", "size", "params", "threads", "test", "t/s", "share of the limit"}}
	for _, x := range r.Results {
		share := fmt.Sprintf("%.0f Gop/s", x.Operations/1e9)
		switch {
		case x.Generated > 0:
			share = fmt.Sprintf("%.1f GB/s: %.0f %% of read bandwidth", x.Bandwidth/1e9, 100*x.Share)
		case r.Multiply > 0:
			share += fmt.Sprintf(": %.0f %% of 8-bit peak", 100*x.ShareOfPeak)
		}
		t.add(x.Model, resolver.Size(x.Size), inBillions(x.Params), r.Threads, x.Test, fmt.Sprintf("%.2f ± %.2f", x.Rate, x.Deviation), share)
	}
	return t
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(x))
	return (sorted[len(sorted)/2] + sorted[(len(sorted)-1)/2]) / 2
}
