package model

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/sample"
)

// allFamilies are those whose keys are all tested here; tests/families compares every family with other programs.
var allFamilies = []string{"llama", "qwen2", "qwen3", "gemma3"}

// keyCase alters a key that is read. Either the reference follows the change, or the file is refused by a name.
type keyCase struct {
	value  any
	with   map[string]any // further keys, without the prefix, that the value needs in order to matter
	change func(f *facts64)
	refuse string // in the error; a shape that no longer fits names its tensor
}

var (
	yarn     = map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4), "rope.scaling.original_context_length": uint32(64)}
	withYarn = func(f *facts64) { f.factor, f.ext, f.original, f.attn = 4, 1, 64, 1+0.1*math.Log(4) }
)

// keyCases is one case for each key that some family reads.
var keyCases = map[string]keyCase{
	"block_count":                          {value: uint32(1), refuse: ".attn_norm.weight"},
	"context_length":                       {value: uint32(64), with: map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": float32(4)}, change: withYarn},
	"embedding_length":                     {value: uint32(32), refuse: "token_embd.weight"},
	"feed_forward_length":                  {value: uint32(64), refuse: "ffn_gate.weight"},
	"attention.head_count":                 {value: uint32(2), refuse: "attn_k.weight"},
	"attention.head_count_kv":              {value: uint32(4), refuse: "attn_k.weight"},
	"attention.key_length":                 {value: uint32(32), refuse: "attn_q.weight"},
	"attention.value_length":               {value: uint32(32), refuse: "attn_v.weight"},
	"attention.layer_norm_rms_epsilon":     {value: float32(0.25), change: func(f *facts64) { f.eps = 0.25 }},
	"attention.sliding_window":             {value: uint32(3), change: func(f *facts64) { f.window = 3 }},
	"attention.sliding_window_pattern":     {value: uint32(2), change: func(f *facts64) { f.local = func(i int) bool { return i%2 == 0 } }},
	"attention.scale":                      {value: float32(0.5), change: func(f *facts64) { f.score = 0.5 }},
	"attn_logit_softcapping":               {value: float32(0.5), change: func(f *facts64) { f.scoreCap = 0.5 }},
	"final_logit_softcapping":              {value: float32(2), change: func(f *facts64) { f.logitCap = 2 }},
	"rope.dimension_count":                 {value: uint32(8), change: func(f *facts64) { f.dims = 8 }},
	"rope.freq_base":                       {value: float32(100), change: func(f *facts64) { f.base = 100 }},
	"rope.freq_base_swa":                   {value: float32(100), change: func(f *facts64) { f.localBase = 100 }},
	"rope.scaling.type":                    {value: "none", with: map[string]any{"rope.scaling.factor": float32(4), "rope.scaling.attn_factor": float32(1.5)}, change: func(f *facts64) { f.attn = 1.5 }},
	"rope.scaling.factor":                  {value: float32(4), change: func(f *facts64) { f.factor = 4 }},
	"rope.scaling.attn_factor":             {value: float32(1.5), change: func(f *facts64) { f.attn = 1.5 }},
	"rope.scaling.original_context_length": {value: uint32(16), with: yarn, change: func(f *facts64) { withYarn(f); f.original = 16 }},
	"rope.scaling.yarn_ext_factor":         {value: float32(0.5), with: yarn, change: func(f *facts64) { withYarn(f); f.ext = 0.5 }},
	"rope.scaling.yarn_beta_fast":          {value: float32(0.5), with: yarn, change: func(f *facts64) { withYarn(f); f.fast = 0.5 }},
	"rope.scaling.yarn_beta_slow":          {value: float32(0.25), with: yarn, change: func(f *facts64) { withYarn(f); f.slow = 0.25 }},
	"rope.scaling.yarn_attn_factor":        {value: float32(2), with: yarn, refuse: "rope.scaling.yarn_attn_factor"},
	"expert_count":                         {value: uint32(4), with: map[string]any{"expert_used_count": uint32(2)}, refuse: "ffn_gate_exps.weight"},
	"expert_used_count":                    {value: uint32(5), with: map[string]any{"expert_count": uint32(4)}, refuse: "expert_used_count"},
	"vocab_size":                           {value: uint32(100), with: map[string]any{"": nil}, refuse: "token_embd.weight"}, // without tokens
}

// TestEveryKeyThatIsReadChangesLogits: altering a key changes logits as an independent computation says, under each of its
// names, or the file is refused by name. A key that is absent has its family's default; two names that disagree are
// refused.
func TestEveryKeyThatIsReadChangesLogits(t *testing.T) {
	const tolerance, effect = 2e-4, 5e-3
	for _, family := range allFamilies {
		s := newSmall(family)
		usual, err := s.logits(t, nil)
		require.NoError(t, err)
		require.Less(t, distance(usual, s.reference64(s.facts)), tolerance, family)
		seen := map[string]bool{}
		for _, x := range arch.FactsOf(family) {
			if x.Effect != arch.Read || seen[x.Name] {
				continue
			}
			seen[x.Name] = true
			c, ok := keyCases[x.Name]
			require.True(t, ok, "%s: a key that is read and not tested", x.Name)
			for i, name := range append([]string{x.Name}, x.Aliases...) {
				what := family + "." + name
				other := map[string]any{}
				for k, v := range c.with {
					if k == "" {
						other["tokenizer.ggml.tokens"] = nil
					} else {
						other[family+"."+k] = v
					}
				}
				before, err := s.logits(t, other)
				other[family+"."+x.Name] = nil
				other[what] = c.value
				after, refusal := s.logits(t, other)
				if c.refuse != "" {
					require.ErrorContains(t, refusal, c.refuse, what)
					continue
				}
				require.NoError(t, err, what)
				require.NoError(t, refusal, what)
				f := s.facts
				c.change(&f)
				want := s.reference64(f)
				require.Less(t, distance(after, want), tolerance, what)
				require.Greater(t, distance(before, want), effect, "%s: the value changes nothing", what)
				if i > 0 {
					other[family+"."+x.Name] = map[bool]any{true: float32(7), false: uint32(7)}[math.Mod(number(c.value), 1) != 0]
					_, err := s.logits(t, other)
					require.ErrorIs(t, err, arch.ErrInvalid, what)
					require.ErrorContains(t, err, what)
				}
			}
		}
	}
	// The window of each layer, as other writers state it.
	s := newSmall("gemma3")
	local := []bool{false, true, true, false, true, false, true}
	got, err := s.logits(t, map[string]any{"gemma3.attention.sliding_window_pattern": local})
	require.NoError(t, err)
	f := s.facts
	f.local = func(i int) bool { return local[i] }
	require.Less(t, distance(got, s.reference64(f)), tolerance)
	_, err = s.logits(t, map[string]any{"gemma3.attention.sliding_window_pattern": local[1:]})
	require.ErrorIs(t, err, arch.ErrInvalid)
	// A stated factor of attention that is the usual one.
	s = newSmall("llama")
	usual, err := s.logits(t, prefixed("llama", yarn))
	require.NoError(t, err)
	stated := prefixed("llama", yarn)
	stated["llama.rope.scaling.yarn_attn_factor"] = float32(1 + 0.1*math.Log(4))
	same, err := s.logits(t, stated)
	require.NoError(t, err)
	require.Equal(t, usual, same)
}

func number(v any) float64 {
	switch v := v.(type) {
	case float32:
		return float64(v)
	case uint32:
		return float64(v)
	}
	return 0
}

func prefixed(family string, kv map[string]any) map[string]any {
	all := map[string]any{}
	for k, v := range kv {
		all[family+"."+k] = v
	}
	return all
}

// TestEveryKeyThatIsNotReadIsRefusedOrHarmless: each value of a key that would ask for other numbers is refused by the key's name, each
// usual one and each harmless key leaves every bit.
func TestEveryKeyThatIsNotReadIsRefusedOrHarmless(t *testing.T) {
	for _, family := range allFamilies {
		s := newSmall(family)
		usual, err := s.logits(t, nil)
		require.NoError(t, err)
		stays := func(key string, value any) {
			got, err := s.logits(t, map[string]any{key: value})
			require.NoError(t, err, "%s = %v", key, value)
			require.Equal(t, usual, got, "%s = %v", key, value)
		}
		refused := func(key string, value any) {
			_, err := s.logits(t, map[string]any{key: value})
			require.ErrorIs(t, err, arch.ErrUnsupported, "%s = %v", key, value)
			require.ErrorContains(t, err, key+":", "%v", value)
		}
		for _, table := range []struct {
			prefix string
			facts  arch.Facts
		}{{family + ".", arch.FactsOf(family)}, {"", arch.FileFacts()}} {
			seen := map[string]bool{}
			for _, x := range table.facts {
				for _, name := range append([]string{x.Name}, x.Aliases...) {
					if seen[name] {
						continue // a family's own row stands before the general one
					}
					seen[name] = true
					key := table.prefix + strings.ReplaceAll(name, "*", "x")
					switch x.Effect {
					case arch.Harmless:
						stays(key, float32(3))
						stays(key, "text")
					case arch.Refused:
						require.NotEmpty(t, x.Reason, key)
						for _, value := range []any{float32(0.37), true, false, "other", []float32{0, 0.37}} {
							if !slices.Contains(x.Usual, value) {
								refused(key, value)
							}
						}
						for _, value := range x.Usual {
							if n, ok := value.(float64); ok {
								stays(key, []float32{float32(n), float32(n)})
								continue
							}
							stays(key, value)
						}
					}
					require.NotEmpty(t, x.Source, key)
				}
			}
		}
		stays(family+".foo", uint32(3)) // unknown: a note, see TestUnknownKeysAreNoted
	}
}

// TestEveryTensorBesideTheModelIsRefusedOrHarmless: a tensor that would change results is refused by name, also one that nobody
// knows; a harmless one leaves every bit.
func TestEveryTensorBesideTheModelIsRefusedOrHarmless(t *testing.T) {
	for _, family := range allFamilies {
		s := newSmall(family)
		usual, err := s.logits(t, nil)
		require.NoError(t, err)
		for _, x := range append(arch.TensorFacts(), arch.Fact{Name: "blk.0.attn_q.weight*", Effect: arch.Refused}, arch.Fact{Name: "*.what", Effect: arch.Refused},
			arch.Fact{Name: "blk.0.ffn_gate*.bias", Effect: arch.Refused}, arch.Fact{Name: "blk.0.*attn_sinks.weight", Effect: arch.Refused}) {
			for _, with := range []string{"blk.0.attn_output", "", "weight"} {
				name := strings.Replace(x.Name, "*", with, 1)
				if _, own := s.shapes[name]; own || !strings.Contains(x.Name, "*") && with != "" || name == "blk.0.attn_output.bias" && family == "llama" {
					continue // one of the model's own
				}
				got, err := s.logits(t, nil, name)
				if x.Effect == arch.Harmless {
					require.NoError(t, err, name)
					require.Equal(t, usual, got, name)
					continue
				}
				require.ErrorIs(t, err, arch.ErrUnsupported, name)
				require.ErrorContains(t, err, fmt.Sprintf("tensor %q", name))
			}
		}
	}
}

// asked is the embedded model with other metadata.
func asked(t *testing.T, kv map[string]any) *Model {
	in, err := gguf.Read(bytes.NewReader(embedded.Model()), int64(len(embedded.Model())), gguf.Options{})
	require.NoError(t, err)
	h := gguf.HeaderOf(in)
	for key, value := range kv {
		h.Set(key, valueOf(value))
	}
	var out bytes.Buffer
	w, err := gguf.NewWriter(&out, h)
	require.NoError(t, err)
	require.NoError(t, w.CopyFrom(context.Background(), in))
	require.NoError(t, w.Close())
	m, err := OpenBytes(context.Background(), "asked", out.Bytes(), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func generated(t *testing.T, m *Model, o GenerateOptions) (text string, ids []int32, stop Stop) {
	for token, err := range m.Generate(context.Background(), "12+30=", o) {
		require.NoError(t, err)
		text, ids, stop = text+token.Text, append(ids, token.ID), token.Stop
	}
	return text, ids, stop
}

// TestNoEOSStandsBehindAPrompt: what is to be continued ends where it ends, whatever the file asks for.
func TestNoEOSStandsBehindAPrompt(t *testing.T) {
	m := asked(t, map[string]any{"tokenizer.ggml.add_eos_token": true})
	text, _, stop := generated(t, m, GenerateOptions{MaxTokens: 8})
	require.Equal(t, "42", text)
	require.Equal(t, StopEOS, stop)
	require.Len(t, m.Notes(), 1)
	require.Contains(t, m.Notes()[0], "add_eos_token")
}

// TestGenerationStopsAtEachEnd: at any token that the file lists, and a suppressed token is never said.
func TestGenerationStopsAtEachEnd(t *testing.T) {
	_, usual, _ := generated(t, asked(t, nil), GenerateOptions{MaxTokens: 8})
	require.Len(t, usual, 3) // "4", "2", EOS
	for key, value := range map[string]any{"eos_token_ids": []int32{2, usual[1]}, "eot_token_id": uint32(usual[1]), "eom_token_id": uint32(usual[1]), "fim_sep_token_id": uint32(usual[1])} {
		text, ids, stop := generated(t, asked(t, map[string]any{"tokenizer.ggml." + key: value}), GenerateOptions{MaxTokens: 8})
		require.Equal(t, "4", text, key)
		require.Equal(t, usual[:2], ids, key)
		require.Equal(t, StopEOS, stop, key)
	}
	for _, temperature := range []float64{0, 5} {
		m := asked(t, map[string]any{"tokenizer.ggml.suppress_tokens": usual})
		_, ids, _ := generated(t, m, GenerateOptions{MaxTokens: 40, Sample: sample.Params{Temperature: temperature}})
		for _, id := range usual {
			require.NotContains(t, ids, id)
		}
	}
}

// TestSizesAndIdsThatNobodyReadsAreNoted: what stands beside nothing that says the same.
func TestSizesAndIdsThatNobodyReadsAreNoted(t *testing.T) {
	m := asked(t, map[string]any{"llama.vocab_size": uint32(261), "tokenizer.ggml.mask_token_ids": []int32{1}, "tokenizer.ggml.bos_token_ids": []int32{1},
		"tokenizer.ggml.eos_token_ids": []int32{2}})
	require.Equal(t, []string{"tokenizer.ggml.mask_token_ids: ignored, and the file has no tokenizer.ggml.mask_token_id",
		"vocab_size: 261 is ignored, since the vocabulary has 260 tokens"}, m.Notes())
	require.Empty(t, asked(t, map[string]any{"llama.vocab_size": uint32(260)}).Notes())
}

func TestUnknownKeysAreNoted(t *testing.T) {
	m := asked(t, map[string]any{"llama.foo": uint32(1), "qwen2.foo": uint32(1), "general.foo": uint32(1), "tokenizer.ggml.foo": "x"})
	require.Len(t, m.Notes(), 2)
	require.Contains(t, m.Notes()[0], "llama.foo:")
	require.Contains(t, m.Notes()[1], "tokenizer.ggml.foo:")
	text, _, _ := generated(t, m, GenerateOptions{})
	require.Equal(t, "42", text)
	require.Empty(t, asked(t, nil).Notes())
}
