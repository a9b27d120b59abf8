package main

import (
	"errors"
	"runtime/debug"

	"github.com/skeep-project/skeep/go/model"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
	"github.com/spf13/cobra"
)

// checkedLine compares a line of a plan with what was measured. The plan is a range where it depends on which pages a
// run touches.
type checkedLine struct {
	Name     string `json:"name"`
	Least    int64  `json:"planned_least"`
	Most     int64  `json:"planned_most"`
	Measured int64  `json:"measured"`
	Off      int64  `json:"off"`     // bytes outside of the range
	Allowed  int64  `json:"allowed"` // of these
	OK       bool   `json:"ok"`
}

// decoded is how many tokens --check-plan generates.
const decoded = 32

// checkPlan runs one step of a whole chunk and some tokens, and compares the plan with what allocator and system say. ids
// are repeated as a prompt; borrowed is the size of a model that was in memory before.
func checkPlan(c *cobra.Command, m *model.Model, before skeep.Counters, borrowed int64, ids []int32, format string) (err error) {
	loaded := skeep.Stats()
	s, err := m.NewSession()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	p := m.Plan()
	tokens := min(p.KV.Chunk, max(1, p.KV.Context-decoded))
	prompt := make([]int32, tokens)
	for i := range prompt {
		prompt[i] = ids[i%len(ids)]
	}
	if _, err := s.Append(c.Context(), prompt...); err != nil {
		return err
	}
	position := tokens
	for range min(decoded, p.KV.Context-tokens) {
		if _, err := s.Append(c.Context(), ids[0]); err != nil {
			return err
		}
		position++
	}
	debug.FreeOSMemory() // what is garbage is not of the model
	memory, err := s.Memory()
	if err != nil {
		return err
	}
	process, err := trace.Probe()
	if err != nil {
		return err
	}
	var lines []checkedLine
	add := func(name string, least, most, measured int64, share float64, slack int64) {
		l := checkedLine{Name: name, Least: least, Most: most, Measured: measured, Off: max(0, least-measured, measured-most)}
		l.Allowed = max(slack, int64(share*float64(measured)))
		l.OK = l.Off <= l.Allowed
		lines = append(lines, l)
	}
	exactly := func(name string, planned, measured int64) { add(name, planned, planned, measured, 0.02, 4096) }
	private := func(c skeep.Counters) int64 { return c.Bytes[tensor.Heap] + c.Bytes[tensor.OffHeap] }
	exactly("private weights", p.Group(resolver.GroupWeights, true), private(loaded)-private(before)-borrowed)
	exactly("mapped weights", p.Group(resolver.GroupWeights, false), mappedWeights(m))
	exactly("kv", p.Group(resolver.GroupKV, true), memory.KV)
	exactly("slab", p.Group(resolver.GroupSlab, true), memory.Slab)
	part := p.Touched(tokens, position)
	add("slab in use", int64(0.9*float64(part.Slab)), part.Slab, memory.SlabPeak, 0, 4096)
	add("resident", part.Least, part.Most, process.Resident, 0.05, 4<<20)
	t := table{columns: []string{"line", "planned", "measured", "off", "allowed", ""}}
	good := true
	for _, l := range lines {
		planned, mark := resolver.Size(l.Least), "ok"
		if l.Most != l.Least {
			planned += " to " + resolver.Size(l.Most)
		}
		if !l.OK {
			mark, good = "OFF", false
		}
		t.add(l.Name, planned, resolver.Size(l.Measured), resolver.Size(l.Off), resolver.Size(l.Allowed), mark)
	}
	if err := write(c.OutOrStdout(), format, t, map[string]any{"lines": lines, "ok": good}); err != nil {
		return err
	}
	if !good {
		return verdict{errors.New("the plan is not what was measured")}
	}
	return nil
}

// mappedWeights is the bytes of weights that are file pages or borrowed, by their views.
func mappedWeights(m *model.Model) (sum int64) {
	for _, d := range m.Resolution().Decisions {
		if v, ok := m.Weight(d.Name); ok && !d.Private() {
			sum += v.Bytes()
		}
	}
	return sum
}
