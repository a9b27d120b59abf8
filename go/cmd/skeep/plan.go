package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/internal/output"
	"github.com/skeep-project/skeep/go/model"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/spf13/cobra"
)

// planResult is what plan prints as JSON. Sizes are bytes.
type planResult struct {
	Model           string          `json:"model"`
	Architecture    string          `json:"architecture"`
	Profile         string          `json:"profile"`
	Terms           []termRow       `json:"terms"`
	Total           int64           `json:"total"`
	Private         int64           `json:"private"`
	Mapped          int64           `json:"mapped"`
	Limit           int64           `json:"limit"` // 0: unknown
	LimitReason     string          `json:"limit_reason"`
	Memory          int64           `json:"memory"`
	Available       int64           `json:"available"`
	Verdict         string          `json:"verdict"`
	Reason          string          `json:"reason,omitempty"` // of a strict profile's refusal
	Margin          int64           `json:"margin"`
	Missing         int64           `json:"missing"`
	Smallest        int64           `json:"smallest_budget"`
	SmallestFitting int64           `json:"smallest_budget_that_fits"`
	TokenBytes      int64           `json:"bytes_per_token"`
	DiskBytes       int64           `json:"disk_bytes_per_token"`
	GoMemLimit      int64           `json:"gomemlimit"` // 0: no advice
	Context         int             `json:"context"`
	Chunk           int             `json:"chunk"`
	Sequences       int             `json:"sequences"`
	KV              string          `json:"kv"`
	Suggestions     []suggestionRow `json:"suggestions"`
	Assumptions     []assumptionRow `json:"assumptions"`
	Unknown         []string        `json:"unknown"`
	Notes           []string        `json:"notes,omitempty"`
}

type termRow struct {
	Name    string `json:"name"`
	Group   string `json:"group"`
	Bytes   int64  `json:"bytes"`
	Domain  string `json:"domain"`
	Private bool   `json:"private"`
	Items   int    `json:"items"`
	Formula string `json:"formula"`
}

type suggestionRow struct {
	Change  string `json:"change"`
	Saves   int64  `json:"saves"`
	Verdict string `json:"verdict"`
	Cost    string `json:"cost"`
}

type assumptionRow struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Reason string `json:"reason"`
}

func planCommand() *cobra.Command {
	var parallel int
	var budget, page, other string
	var strictly bool
	var set []string
	c := &cobra.Command{
		Use:   "plan [MODEL]",
		Short: "Say what a model costs on a device, and whether it fits, before a byte of it is read",
		Long: `plan reads the header of a model of any architecture and prints what it needs in memory: weights by form and place, KV cache, results of
a step, and what a process needs beside. There are two pools: private memory, and pages of files, which the system can evict and read
again. The verdict is "fits"; "pages" when only file pages exceed the memory, so that the model runs and reads from disk; or "no".
The exit status is 1 when it is "no" (with --strict: when it does not fit), else 0.`,
		Example: "  skeep plan model.gguf\n  skeep plan model.gguf --budget 2G --ctx 8192 --parallel 4\n  skeep plan model.gguf --profile mobile_2gb -o json",
		Args:    cobra.MaximumNArgs(1),
	}
	format := outputFlag(c, "table")
	options := modelFlags(c)
	f := c.Flags()
	f.IntVar(&parallel, "parallel", 0, "number of sessions at the same time, each with its own KV cache (default: set by the profile, mostly 1)")
	f.StringVar(&budget, "budget", "", "plan for a device with this much memory, such as 1.3G, instead of this machine")
	f.BoolVar(&strictly, "strict", false, "exit with status 1 unless the model fits without reading from disk again and again")
	f.StringVar(&page, "html", "", "also write a picture of the plan to this file: a page without scripts that needs no network")
	f.StringVar(&other, "compare", "", "another model, to be shown beside this one in the picture")
	f.StringArrayVar(&set, "set", nil, "KEY=VALUE: a value of the metadata, in place of what the file says or plan assumes; may be repeated")
	c.RunE = func(c *cobra.Command, args []string) error {
		o, profile, err := options()
		if err != nil {
			return err
		}
		if c.Flags().Changed("parallel") && parallel < 1 {
			return fmt.Errorf("--parallel %d, want at least 1", parallel)
		}
		change, err := planChanges(parallel, budget, set)
		if err != nil {
			return err
		}
		if other != "" && page == "" {
			return errors.New("--compare is about the picture: it needs --html")
		}
		reads := modelFile(args)
		if other != "" {
			reads = append(reads, named{what: "--compare", path: other})
		}
		targets, err := claim(c, reads, named{what: "--html", path: page})
		if err != nil {
			return err
		}
		name, _ := modelArg(args)
		r, p, err := planOf(args, profile, o, change)
		if err != nil {
			return err
		}
		if page != "" {
			results, plans := []planResult{r}, []*resolver.Plan{p}
			if other != "" {
				r2, p2, err := planOf([]string{other}, profile, o, change)
				if err != nil {
					return err
				}
				results, plans = append(results, r2), append(plans, p2)
			}
			if err := writePage(targets[0], results, plans); err != nil {
				return fmt.Errorf("--html: %w", err)
			}
		}
		if *format == "table" {
			printPlan(c.OutOrStdout(), r)
		} else if err := write(c.OutOrStdout(), *format, planTable(r), r); err != nil {
			return err
		}
		switch {
		case p.Verdict == resolver.No:
			return verdict{fmt.Errorf("%s does not fit: %s", name, planShort(r))}
		case p.Verdict == resolver.Pages && strictly:
			return verdict{fmt.Errorf("%s does not fit: it would run, but read from disk", name)}
		}
		return nil
	}
	return c
}

// planOf plans one model.
func planOf(args []string, profile string, o model.Options, change func(*arch.Header, *resolver.PlanOptions)) (planResult, *resolver.Plan, error) {
	p, err := planned(args, o, change)
	if err != nil {
		return planResult{}, nil, err
	}
	name, _ := modelArg(args)
	suggestions, err := p.Suggest()
	return describePlan(name, profile, p, suggestions), p, err
}

// writePage writes the picture of plans into a file.
func writePage(to *output.Target, results []planResult, plans []*resolver.Plan) error {
	f, err := to.Create()
	if err != nil {
		return err
	}
	if err := writePicture(f, results, plans); err != nil {
		f.Discard()
		return err
	}
	return f.Commit()
}

// planChanges is what the flags of plan change of a plan's options and header.
func planChanges(parallel int, budget string, set []string) (func(*arch.Header, *resolver.PlanOptions), error) {
	size := int64(0)
	if budget != "" {
		var err error
		if size, err = resolver.ParseSize(budget); err != nil {
			return nil, fmt.Errorf("--budget: %w", err)
		}
		if size < 1 {
			return nil, fmt.Errorf("--budget %s, want at least 1", budget)
		}
	}
	values := map[string]string{}
	for _, item := range set {
		key, value, ok := strings.Cut(item, "=")
		if !ok || key == "" || value == "" {
			return nil, fmt.Errorf("--set %q, want KEY=VALUE", item)
		}
		values[key] = value
	}
	if _, err := arch.Override(noHeader{}, values); err != nil {
		return nil, fmt.Errorf("--set: %w", err)
	}
	return func(h *arch.Header, q *resolver.PlanOptions) {
		q.Sequences = parallel
		if size > 0 { // another device, all of whose memory is free
			q.Profile.Budget, q.Memory, q.Available = size, size, size
		}
		if len(values) > 0 {
			*h, _ = arch.Override(*h, values) // checked above
		}
	}, nil
}

// noHeader stands for any header.
type noHeader struct{ arch.Header }

func planned(args []string, o model.Options, change func(*arch.Header, *resolver.PlanOptions)) (*resolver.Plan, error) {
	path, isFile := modelArg(args)
	if !isFile {
		return model.PlanBytes(path, embedded.Model(), o, change)
	}
	return model.Plan(path, o, change)
}

func describePlan(file, profile string, p *resolver.Plan, suggestions []resolver.Suggestion) planResult {
	r := planResult{Model: file, Architecture: p.Sizes.Arch, Profile: profile, Terms: []termRow{}, Total: p.Total(), Private: p.Private, Mapped: p.Mapped,
		Limit: p.Limit, LimitReason: p.LimitReason, Memory: p.Memory, Available: p.Available, Verdict: p.Verdict.String(), Margin: p.Margin, Missing: p.Missing,
		Smallest: p.Smallest, SmallestFitting: p.SmallestFitting, TokenBytes: p.TokenBytes, DiskBytes: p.DiskBytes, GoMemLimit: p.GoMemLimit(),
		Context: p.KV.Context, Chunk: p.KV.Chunk, Sequences: p.Sequences, KV: p.KVFormat.Encoding.String(),
		Suggestions: []suggestionRow{}, Assumptions: []assumptionRow{}, Unknown: []string{}, Notes: p.Resolution.Notes}
	if p.Refused != nil {
		r.Reason = strings.TrimPrefix(p.Refused.Error(), "resolver: ")
	}
	if p.Sizes.Bound {
		r.Notes = append(r.Notes, fmt.Sprintf("architecture %q is unknown: the KV cache is an upper bound", p.Sizes.Arch))
	}
	for _, t := range p.Terms {
		r.Terms = append(r.Terms, termRow{t.Name, string(t.Group), t.Bytes, t.Domain.String(), t.Private, t.Items, t.Formula})
	}
	for _, s := range suggestions {
		r.Suggestions = append(r.Suggestions, suggestionRow{s.Change, s.Saves, s.Verdict.String(), s.Cost})
	}
	for _, a := range p.Assumptions {
		r.Assumptions = append(r.Assumptions, assumptionRow{a.Key, a.Value, a.Reason})
	}
	for _, u := range p.Sizes.Unknown {
		r.Unknown = append(r.Unknown, fmt.Sprintf("unknown: term %s, which %s would tell", u.Term, u.Key))
	}
	if p.Resolution.Truncated != nil {
		r.Notes = append(r.Notes, p.Resolution.Truncated.Error())
	}
	return r
}

// planTable is the terms of a plan.
func planTable(r planResult) table {
	t := table{columns: []string{"part", "pool", "memory", "size", "bytes", "formula"}}
	for _, x := range r.Terms {
		pool := "file pages"
		if x.Private {
			pool = "private"
		}
		label := x.Name
		if x.Group == string(resolver.GroupWeights) {
			label = fmt.Sprintf("%s (%d)", x.Name, x.Items)
		}
		t.add(label, pool, x.Domain, resolver.Size(x.Bytes), x.Bytes, x.Formula)
	}
	return t
}

// planShort is the verdict in a sentence.
func planShort(r planResult) string {
	size := resolver.Size
	limit := fmt.Sprintf("%s (%s)", size(r.Limit), r.LimitReason)
	switch {
	case r.Verdict == "no" && r.Reason != "" && r.Missing == 0:
		return r.Reason
	case r.Verdict == "no":
		return fmt.Sprintf("%s of private memory, %s more than %s", size(r.Private), size(r.Missing), limit)
	case r.Limit == 0:
		return fmt.Sprintf("%s of private memory and %s of file pages; how much memory there is is unknown", size(r.Private), size(r.Mapped))
	case r.Verdict == "pages":
		return fmt.Sprintf("%s of private memory fit into %s with a margin of %s, %s of file pages do not; at least %s must be read from disk for each token",
			size(r.Private), limit, size(r.Margin), size(r.Mapped), size(r.DiskBytes))
	}
	return fmt.Sprintf("%s of private memory and %s of file pages, with a margin of %s below %s", size(r.Private), size(r.Mapped), size(r.Margin), limit)
}

// printPlan writes a plan for people.
func printPlan(w io.Writer, r planResult) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	size := resolver.Size
	t := planTable(r)
	for i, row := range t.rows { // bytes are for other formats
		t.rows[i] = append(row[:4:4], row[5])
	}
	t.columns = append(t.columns[:4:4], t.columns[5])
	_ = write(w, "table", t, nil) // w remembers its error
	fmt.Fprintln(w)
	line("verdict", "%s: %s", r.Verdict, planShort(r))
	line("pools", "private %s, file pages %s", size(r.Private), size(r.Mapped))
	if r.Memory > 0 {
		line("memory", "%s, of which %s are available", size(r.Memory), size(r.Available))
	}
	line("profile", "%s", r.Profile)
	if r.Smallest > 0 {
		line("budget", "runs with %d bytes (%s), fits into %d (%s)", r.Smallest, size(r.Smallest), r.SmallestFitting, size(r.SmallestFitting))
	}
	line("per token", "%s of weights are read", size(r.TokenBytes))
	if r.GoMemLimit > 0 {
		line("Go heap", "GOMEMLIMIT=%d leaves room for the memory outside of it", r.GoMemLimit)
	}
	for _, s := range r.Suggestions {
		line("suggestion", "%s: saves %s, verdict then: %s; %s", s.Change, size(s.Saves), s.Verdict, s.Cost)
	}
	for _, a := range r.Assumptions {
		line("assumed", "%s = %s: %s", a.Name, a.Value, a.Reason)
	}
	for _, u := range r.Unknown {
		fmt.Fprintln(w, u)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note:", n)
	}
}
