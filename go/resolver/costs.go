package resolver

import (
	"fmt"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/tensor"
)

// Costs are what a process needs beside a model. They are measured: MeasuredCosts says how. The zero Costs count nothing.
type Costs struct {
	Runtime int64 // private memory of a process without a model: Go and C runtimes, stacks, the command's own data
	Binary  int64 // pages of the program and of shared libraries
	Pool    int64 // scratch memory of compute threads: skeep.PoolBytes
	Token   int64 // of the tokenizer, for each token, beside its text
	Merge   int64 // of the tokenizer, for each merge of a byte-level BPE vocabulary
}

// MeasuredCosts are those of the command skeep on Linux, for amd64. Runtime and Binary: RssAnon and RssFile in
// /proc/self/status of `skeep run` with the built-in model, less what the plan has for that model. Token and Merge: the
// growth of the Go heap between two collections around tokenizer.New, for vocabularies of 32,000 to 262,144 tokens. Tests
// compare them.
func MeasuredCosts() Costs {
	return Costs{Runtime: 6 << 20, Binary: 12 << 20, Token: 24, Merge: 52}
}

const costPool = "pool"

// overhead lists what a process needs beside the weights, caches and slabs.
func (p *Plan) overhead(h arch.Header, o PlanOptions) []Term {
	line := func(name, formula string, domain tensor.Domain, bytes int64) Term {
		return Term{Name: name, Group: GroupProcess, Bytes: bytes, Domain: domain, Private: domain != tensor.Mapped, Items: 1, Formula: formula}
	}
	sessions := int64(p.Sequences)
	terms := []Term{
		line("logits", fmt.Sprintf("1 row × %d × 4 bytes%s", p.Sizes.Vocab, p.ofSessions()), tensor.Heap, times(4*int64(p.Sizes.Vocab), sessions)),
		line("inputs", fmt.Sprintf("%d tokens × (id, position, number) of 4 bytes%s", p.KV.Chunk, p.ofSessions()), tensor.Heap, times(12*int64(p.KV.Chunk), sessions)),
	}
	tokens, text, merges := vocabulary(h)
	if tokens > 0 && o.Costs.Token > 0 {
		terms = append(terms, line("tokenizer", fmt.Sprintf("%d tokens × %d bytes + %s of text + %d merges × %d bytes", tokens, o.Costs.Token, Size(text), merges, o.Costs.Merge),
			tensor.Heap, tokens*o.Costs.Token+text+merges*o.Costs.Merge))
	}
	for _, c := range []struct {
		name, formula string
		domain        tensor.Domain
		bytes         int64
	}{
		{costPool, fmt.Sprintf("scratch of %d threads", max(1, o.Threads)), tensor.OffHeap, o.Costs.Pool},
		{"runtime", "measured", tensor.Heap, o.Costs.Runtime},
		{"program", "measured", tensor.Mapped, o.Costs.Binary},
	} {
		if c.bytes > 0 {
			terms = append(terms, line(c.name, c.formula, c.domain, c.bytes))
		}
	}
	return terms
}

// vocabulary is the number of tokens, the bytes of their texts (of large vocabularies every 64th stands for 64), and
// the number of merges.
func vocabulary(h arch.Header) (tokens, text, merges int64) {
	list := func(key string) arch.Values {
		if v, ok := h.Value("tokenizer.ggml." + key); ok {
			if a, ok := v.Array(); ok {
				return a
			}
		}
		return nil
	}
	if a := list("merges"); a != nil {
		merges = int64(a.Len())
	}
	a := list("tokens")
	if a == nil || a.Elem() != arch.String {
		return 0, 0, merges
	}
	step := 1
	if a.Len() > 1<<14 {
		step = 64
	}
	for i := 0; i < a.Len(); i += step {
		text += int64(len(a.Text(i))) * int64(min(step, a.Len()-i))
	}
	return int64(a.Len()), text, merges
}
