package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/internal/machine"
	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/model"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/sample"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tokenizer"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// runResult is what run prints as JSON. Times are seconds.
type runResult struct {
	PromptIDs []int32          `json:"prompt_ids"`
	IDs       []int32          `json:"ids"` // without the token that ends the text
	Text      string           `json:"text"`
	Stop      model.Stop       `json:"stop"`
	Times     runTimes         `json:"times"`
	Memory    model.Memory     `json:"memory"`
	Forms     model.Forms      `json:"forms"`
	Pack      model.PackReport `json:"pack"`
	Threads   runThreads       `json:"threads"`
	Copies    int64            `json:"copies"` // operands that had to be decoded before a kernel could read them
	Notes     []string         `json:"notes,omitempty"`
}

type runThreads struct {
	Count  int    `json:"count"`
	Reason string `json:"reason"`
}

type runTimes struct {
	Load       float64 `json:"load"`
	FirstToken float64 `json:"first_token"` // from the end of the load
	Prefill    float64 `json:"prefill_tokens_per_second"`
	Decode     float64 `json:"decode_tokens_per_second"` // 0 when only one token was generated
	Bandwidth  float64 `json:"decode_bytes_per_second"`  // bytes of weights that decoding read
}

func runCommand() *cobra.Command {
	var prompt, ids, traceFile, cpuProfile, format string
	var n int
	var check bool
	var p sample.Params
	var makePack bool
	c := &cobra.Command{
		Use:   "run [MODEL]",
		Short: "Generate text; without MODEL, with the small built-in model",
		Long: `run loads a model, prints how and where its weights are kept and why, and continues a prompt. The prompt is taken from -p or --ids;
without these from standard input, if that is a pipe or a file and not empty (one newline at its end is dropped); otherwise
from the model itself, if it brings an example. The generated text goes to standard output, everything else to standard error.`,
		Example: "  skeep run\n  skeep run -p '12+30='\n  skeep run model.gguf -p 'Once upon a time' -n 64 --temp 0.8 --seed 1\n  skeep run model.gguf -p hello -o json",
		Args:    cobra.MaximumNArgs(1),
	}
	options := modelFlags(c)
	f := c.Flags()
	f.StringVarP(&prompt, "prompt", "p", "", "the prompt")
	f.StringVar(&ids, "ids", "", "the prompt as token ids, separated by commas or spaces")
	f.IntVarP(&n, "n", "n", 128, "maximum number of tokens to generate")
	f.Float64Var(&p.Temperature, "temp", 0, "temperature of sampling; 0 always takes the most probable token")
	f.IntVar(&p.TopK, "top-k", 0, "sample from the k most probable tokens only; 0: no limit")
	f.Float64Var(&p.TopP, "top-p", 0, "sample from the smallest set of most probable tokens whose probabilities add up to p; 0: no limit")
	f.Float64Var(&p.MinP, "min-p", 0, "sample only from tokens at least p times as probable as the most probable one")
	f.Uint64Var(&p.Seed, "seed", 0, "random seed of sampling")
	f.StringVar(&traceFile, "trace", "", "write a trace of all operations to this file, for ui.perfetto.dev")
	f.StringVar(&cpuProfile, "cpuprofile", "", "write a CPU profile that includes C functions to this file, for go tool pprof")
	f.StringVarP(&format, "output", "o", "text", "output format: text or json")
	f.BoolVar(&makePack, "pack", false, "make the pack of the model if there is none (see skeep pack)")
	f.BoolVar(&check, "check-plan", false, "instead of generating text, compare what plan says with what is measured: the prompt, repeated to one chunk, and 32 tokens; exit with status 1 when they differ")
	c.MarkFlagsMutuallyExclusive("prompt", "ids")
	c.RunE = func(c *cobra.Command, args []string) (finished error) {
		if format != "text" && format != "json" {
			return fmt.Errorf("output format %q, want text or json", format)
		}
		if n < 1 {
			return fmt.Errorf("-n %d, want at least 1", n)
		}
		if _, err := sample.New(p); err != nil {
			return err
		}
		o, profile, err := options()
		if err != nil {
			return err
		}
		if _, err := parseIDs(ids); c.Flags().Changed("ids") && err != nil {
			return fmt.Errorf("--ids: %w", err)
		}
		var rec recording
		if err := rec.begin(c, args, traceFile, cpuProfile); err != nil {
			rec.discard()
			return err
		}
		begun := false // from there on what was recorded is worth keeping
		finished = errors.New("panic")
		defer func() {
			if begun {
				finished = errors.Join(finished, rec.end(told(c.Context(), finished)))
			} else {
				rec.discard()
			}
		}()
		text, found, err := promptText(c, prompt)
		if err != nil {
			return err
		}
		o.Trace = rec.recorder
		one := *o.Profile
		one.Sequences, o.Profile = 1, &one // whatever the profile expects of a device
		if makePack {
			o.Pack = model.PackMake
		}
		var given []int32
		o.Prepare = func(m *model.Model) (err error) {
			if ids != "" {
				if given, err = parseIDs(ids); err == nil {
					err = checkIDs(given, m.Tokenizer().Len())
				}
				if err != nil {
					return fmt.Errorf("--ids: %w", err)
				}
				text = m.Tokenizer().Decode(given, tokenizer.DecodeOptions{})
			} else {
				if !found {
					if text = m.Example(); text == "" {
						return errors.New("no prompt: standard input is empty and the model has no example prompt; use -p or --ids")
					}
				}
				if given, err = encode(c, m.Tokenizer(), text, tokenizer.EncodeOptions{BOS: true}); err != nil {
					return err
				}
			}
			switch {
			case len(given) == 0:
				return errors.New("the prompt has no tokens")
			case len(given) > m.Context():
				return &model.ContextError{Tokens: len(given), Context: m.Context()}
			}
			return nil
		}
		notes := c.ErrOrStderr()
		o.Explain = func(r *resolver.Resolution) error {
			name, _ := modelArg(args)
			fmt.Fprintf(notes, "%s, profile %s\n", name, profile)
			summarize(notes, r)
			begun = true
			return nil
		}
		before := skeep.Stats()
		m, err := openModel(c, args, o)
		if err != nil {
			return refusal(err)
		}
		defer func() { finished = errors.Join(finished, m.Close()) }()
		for _, note := range m.Notes() {
			fmt.Fprintln(notes, "note:", note)
		}
		if check {
			borrowed := int64(0)
			if _, isFile := modelArg(args); !isFile {
				borrowed = int64(len(embedded.Model()))
			}
			return checkPlan(c, m, before, borrowed, given, strings.Replace(format, "text", "table", 1))
		}
		stream := io.Discard
		if format == "text" {
			stream = c.OutOrStdout()
		}
		begin := func() { // the prompt is shown once it has been computed
			if format == "text" {
				fmt.Fprint(notes, "\n", text)
			}
		}
		r, err := generate(c, m, given, model.GenerateOptions{Sample: p, MaxTokens: n}, begin, stream)
		if err != nil {
			return err
		}
		if r.Threads = (runThreads{m.Threads(), machine.Here().ThreadsReason}); o.Threads != 0 {
			r.Threads.Reason = "set by --threads"
		}
		if format == "json" {
			return write(c.OutOrStdout(), "json", table{}, r)
		}
		fmt.Fprintln(stream)
		summarizeRun(notes, m, r)
		if tip := packed(m, o, args); tip != "" {
			fmt.Fprintf(notes, "%-12s %s\n", "pack", tip)
		}
		if tip := faster(m, o, machine.Here()); tip != "" {
			fmt.Fprintf(notes, "%-12s %s\n", "faster", tip)
		}
		return nil
	}
	return c
}

// promptText is the prompt of -p or standard input; found is false when there is neither.
func promptText(c *cobra.Command, flag string) (text string, found bool, err error) {
	if c.Flags().Changed("prompt") {
		return flag, true, nil
	}
	if c.Flags().Changed("ids") {
		return "", false, nil
	}
	if in, isFile := c.InOrStdin().(*os.File); isFile && term.IsTerminal(int(in.Fd())) {
		return "", false, nil
	}
	text, err = input(c)
	if err != nil || text == "" {
		return "", false, err
	}
	if text = strings.TrimSuffix(text, "\n"); text == "" { // the newline that echo adds
		err = errors.New("the prompt is empty: standard input contains only a newline")
	}
	return text, true, err
}

// parseIDs reads token ids.
func parseIDs(list string) (ids []int32, err error) {
	for _, field := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }) {
		id, err := strconv.ParseInt(field, 10, 32)
		if err != nil || id < 0 {
			return nil, fmt.Errorf("%q is not a token id", field)
		}
		ids = append(ids, int32(id))
	}
	if len(ids) == 0 {
		return nil, errors.New("no token ids given")
	}
	return ids, nil
}

// checkIDs says which id is none of a vocabulary of n.
func checkIDs(ids []int32, n int) error {
	for _, id := range ids {
		if int(id) >= n {
			return fmt.Errorf("token id %d, want 0 to %d", id, n-1)
		}
	}
	return nil
}

func generate(c *cobra.Command, m *model.Model, prompt []int32, o model.GenerateOptions, begin func(), stream io.Writer) (r runResult, err error) {
	s, err := m.NewSession()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r = runResult{PromptIDs: prompt, IDs: []int32{}, Notes: m.Notes(), Times: runTimes{Load: m.LoadTime().Seconds()}}
	var text strings.Builder
	start := time.Now()
	var first, last time.Time
	tokens := 0
	for t, err := range s.Generate(c.Context(), prompt, o) {
		if err != nil {
			return r, err
		}
		if last = time.Now(); tokens == 0 {
			first = last
			begin()
		}
		tokens++
		if t.Stop != model.StopEOS {
			r.IDs = append(r.IDs, t.ID)
		}
		text.WriteString(t.Text)
		if _, err := io.WriteString(stream, t.Text); err != nil {
			return r, err
		}
		r.Stop = t.Stop
	}
	r.Text = text.String()
	r.Times.FirstToken = first.Sub(start).Seconds()
	r.Times.Prefill = float64(len(prompt)) / r.Times.FirstToken
	if tokens > 1 {
		r.Times.Decode = float64(tokens-1) / last.Sub(first).Seconds()
		r.Times.Bandwidth = r.Times.Decode * float64(m.TokenBytes())
	}
	r.Copies, r.Forms, r.Pack = s.Copies(), m.Forms(), m.Pack()
	r.Memory, err = s.Memory()
	return r, err
}

// summarize says in a few lines where weights will live and why: one for each kind of decision.
func summarize(w io.Writer, r *resolver.Resolution) {
	type kind struct{ form, place, reason string }
	count, bytes := map[kind]int{}, map[kind]int64{}
	var order []kind
	for _, d := range r.Decisions {
		row := describeDecision(d)
		k := kind{row.Form, row.Placement, row.Reason}
		if !d.IsWeight {
			k.form = d.Name
		}
		if count[k] == 0 {
			order = append(order, k)
		}
		count[k]++
		bytes[k] += d.Form.Bytes
	}
	for _, k := range order {
		what := k.form
		if count[k] > 1 {
			what = fmt.Sprintf("%d x %s", count[k], k.form)
		}
		fmt.Fprintf(w, "  %s, %s, %s: %s\n", what, k.place, resolver.Size(bytes[k]), k.reason)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, "note:", note)
	}
}

func summarizeRun(w io.Writer, m *model.Model, r runResult) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(w)
	line("load", "%.3f s", r.Times.Load)
	line("first token", "%.3f s", r.Times.FirstToken)
	line("prefill", "%.1f tokens/s (%d tokens)", r.Times.Prefill, len(r.PromptIDs))
	if r.Times.Decode > 0 {
		line("decode", "%.1f tokens/s (%d tokens, stop: %s)", r.Times.Decode, len(r.IDs), r.Stop)
		line("bandwidth", "%.2f GB/s (%s of weights per token)", r.Times.Bandwidth/1e9, resolver.Size(m.TokenBytes()))
	}
	line("threads", "%d: %s", r.Threads.Count, r.Threads.Reason)
	line("weights", "%s", describeForms(r.Forms))
	line("copies", "%d operands decoded because no kernel reads their format", r.Copies)
	line("Go heap", "%s", resolver.Size(r.Memory.Heap))
	line("off-heap", "%s (with KV cache %s, slab %s)", resolver.Size(r.Memory.OffHeap), resolver.Size(r.Memory.KV), resolver.Size(r.Memory.Slab))
	line("mapped", "%s (%s in the page cache)", resolver.Size(r.Memory.Mapped), resolver.Size(r.Memory.MappedResident))
	line("resident", "%s (%s private, of that %s in huge pages; the rest pages of files)", resolver.Size(r.Memory.Resident), resolver.Size(r.Memory.Private), resolver.Size(r.Memory.Huge))
}

// describeForms says how many weights are in which form.
func describeForms(f model.Forms) string {
	var parts []string
	for _, p := range []struct {
		n    model.FormCount
		form string
		more string
	}{
		{f.Feed, "in feed order", fmt.Sprintf(", re-ordered in %.2f s", f.Reordering)}, {f.Packed, "in feed order from a pack", ""}, {f.Stored, "as stored", ""}, {f.Dequantized, "decoded at load", ""}, {f.Requantized, "encoded at load", ""},
	} {
		if p.n.Weights > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s%s)", p.n.Weights, p.form, resolver.Size(p.n.Bytes), p.more))
		}
	}
	return strings.Join(parts, ", ")
}

// packed says what weights are mapped from, or why a pack that was asked for is not used, or what one would gain; "" when
// nothing.
func packed(m *model.Model, o model.Options, args []string) string {
	p := m.Pack()
	ratio, stored := m.Resolution().Faster()
	switch f := m.Forms(); {
	case p.File != "":
		return fmt.Sprintf("%d weights (%s) mapped from %s", p.Weights, resolver.Size(p.Bytes), shown.Name(p.File))
	case o.Pack == model.PackMake:
		return "none is used: " + p.Reason
	case p.Could == 0 || p.Folder == "":
		return ""
	case f.Feed.Bytes > 0:
		return fmt.Sprintf("skeep pack %s writes %s to %s: no re-ordering at load (%.2f s), %s less private memory", shown.Name(args[0]), resolver.Size(p.Could),
			shown.Name(p.Folder), f.Reordering, resolver.Size(f.Feed.Bytes))
	case stored > 0:
		return fmt.Sprintf("skeep pack %s writes %s to %s: about %.2f times as fast for one token, without private memory", shown.Name(args[0]),
			resolver.Size(p.Could), shown.Name(p.Folder), ratio)
	}
	return ""
}

// faster names the one option that would make the same run faster, "" when there is none.
func faster(m *model.Model, o model.Options, here machine.Machine) string {
	ratio, bytes := m.Resolution().Faster()
	switch {
	case o.Exact:
		return "without --exact: 8-bit activations"
	case bytes > 0 && (here.Available == 0 || bytes <= here.Available):
		return fmt.Sprintf("--form '*=feed': about %.2f times as fast for one token, with %s more private memory", ratio, resolver.Size(bytes))
	case m.Threads() < here.Threads:
		return fmt.Sprintf("--threads %d: %s", here.Threads, here.ThreadsReason)
	}
	return ""
}
