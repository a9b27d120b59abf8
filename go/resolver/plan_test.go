package resolver

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// llama is a header with metadata: of two layers, and a vocabulary of 1000.
func llama(t *testing.T, e tensor.Encoding, set map[string]string) arch.Header {
	h := header{info("token_embd.weight", e, 1000, 1024), info("output_norm.weight", tensor.EncF32, 1024), info("output.weight", e, 1000, 1024)}
	for i := range 2 {
		for name, rows := range map[string]int64{"attn_q": 1024, "attn_k": 256, "attn_v": 256, "attn_output": 1024, "ffn_gate": 2048, "ffn_up": 2048} {
			h = append(h, info(fmt.Sprintf("blk.%d.%s.weight", i, name), e, rows, 1024))
		}
		h = append(h, info(fmt.Sprintf("blk.%d.ffn_down.weight", i), e, 1024, 2048), info(fmt.Sprintf("blk.%d.attn_norm.weight", i), tensor.EncF32, 1024),
			info(fmt.Sprintf("blk.%d.ffn_norm.weight", i), tensor.EncF32, 1024))
	}
	all := map[string]string{"general.architecture": "llama", "llama.block_count": "2", "llama.context_length": "8192", "llama.embedding_length": "1024",
		"llama.attention.head_count": "16", "llama.attention.head_count_kv": "4", "llama.feed_forward_length": "2048", "llama.vocab_size": "1000",
		"llama.attention.layer_norm_rms_epsilon": "1e-5", "llama.rope.dimension_count": "64"}
	for key, value := range set {
		all[key] = value
	}
	for key, value := range all {
		if value == "" {
			delete(all, key)
		}
	}
	o, err := arch.Override(h, all)
	require.NoError(t, err)
	return o
}

// planRequest plans on a machine where Q4_0 gains by feed order and there is much memory.
func planRequest(t *testing.T, profile string) PlanOptions {
	q := feedRequest(t, profile, 1<<40)
	return PlanOptions{Profile: q.Profile, Platform: q.Platform, Kernels: q.Kernels, Processor: q.Processor, Memory: 8 << 30, Available: 8 << 30,
		Costs: Costs{Runtime: 3 << 20, Binary: 9 << 20, Pool: 1 << 20, Token: 32}}
}

const (
	q4Elements = 1000*1024*2 + 2*(1024*1024*2+256*1024*2+3*2048*1024) // of the matrices of llama
	normBytes  = 5 * 1024 * 4
)

// Each number by hand; the total is the sum of the lines. Case D11. Case D14. Case D25.
func TestPlanByHand(t *testing.T) {
	p, err := MakePlan(llama(t, tensor.Q4_0, nil), planRequest(t, "desktop"))
	require.NoError(t, err)
	byGroup, private, mapped := map[Group]int64{}, int64(0), int64(0)
	for _, x := range p.Terms {
		byGroup[x.Group] += x.Bytes
		if x.Private {
			private += x.Bytes
		} else {
			mapped += x.Bytes
		}
		require.NotEmpty(t, x.Formula)
	}
	require.EqualValues(t, q4Elements/32*18+normBytes, byGroup[GroupWeights])
	require.EqualValues(t, 2*4096*4*(64+64)*2, byGroup[GroupKV], "the context is 4096 unless it is given")
	require.Equal(t, 2*p.Sizes.LayerBytes(512, 1, true), byGroup[GroupSlab])
	require.EqualValues(t, 1000*4+512*12+1<<20+3<<20+9<<20, byGroup[GroupProcess], "logits once, for one row")
	require.Equal(t, private, p.Private)
	require.Equal(t, mapped, p.Mapped)
	require.Equal(t, private+mapped, p.Total())
	require.Equal(t, Fits, p.Verdict)
	require.Equal(t, int64(8<<30)-p.Total(), p.Margin)
	require.EqualValues(t, (q4Elements-1000*1024)/32*18+normBytes, p.TokenBytes, "rows of the table that are looked up do not count")
	require.Contains(t, p.Assumptions, arch.Assumption{Key: "context", Value: "4096", Reason: "the model's 8192, but at most 4096"})
	require.Empty(t, p.Refused)
	d, _ := p.Resolution.Decision(NeedKV)
	require.Equal(t, byGroup[GroupKV], d.Form.Bytes, "a session allocates what the plan says")
	n, err := p.Suggest()
	require.NoError(t, err)
	require.Empty(t, n)

	o := planRequest(t, "desktop")
	o.Sequences, o.Context, o.Chunk = 3, 1000, 5000
	kv := tensor.EncF32
	o.KV = &kv
	three, err := MakePlan(llama(t, tensor.Q4_0, nil), o)
	require.NoError(t, err)
	require.EqualValues(t, arch.KV{Context: 1000, Chunk: 1000, Sequences: 1}, three.KV)
	d, _ = three.Resolution.Decision(NeedKV)
	require.EqualValues(t, 3*2*1024*4*(64+64)*4, d.Form.Bytes, "1000 positions are 1024 slots")
	d, _ = three.Resolution.Decision(NeedSlab)
	require.EqualValues(t, 3*2*three.Sizes.LayerBytes(1000, 1, true), d.Form.Bytes)
}

// The verdict is one of three, and the budgets that the plan names are exact. Case D19. Case D21.
func TestVerdictsAndSmallestBudgets(t *testing.T) {
	for _, profile := range []string{"desktop", "native", "mobile_2gb"} {
		for _, forced := range []string{"", "feed", "f16"} {
			for _, counted := range []bool{false, true} {
				o := planRequest(t, profile)
				o.Profile.CountMapped = counted
				if forced != "" {
					o.Overrides = []Override{{Pattern: "*", Form: forced}}
				}
				h := llama(t, tensor.Q4_0, nil)
				p, err := MakePlan(h, o)
				require.NoError(t, err)
				strictly := counted && o.Profile.Strict
				with := func(budget int64) *Plan {
					o.Profile.Budget, o.Available = budget, budget
					p, err := MakePlan(h, o)
					require.NoError(t, err)
					require.GreaterOrEqual(t, p.Margin, int64(0))
					require.GreaterOrEqual(t, p.Missing, int64(0))
					require.Equal(t, p.Verdict == No, p.Missing > 0, "%d", budget)
					return p
				}
				name := fmt.Sprintf("%s %s %v", profile, forced, counted)
				require.Equal(t, map[bool]Verdict{false: Pages, true: Fits}[strictly || p.Smallest == p.SmallestFitting], with(p.Smallest).Verdict, name)
				require.Equal(t, No, with(p.Smallest-1).Verdict, name)
				// A load goes by the same sum; overrides outrank what a strict profile allows.
				require.NoError(t, with(p.Smallest).Refused, name)
				require.Equal(t, o.Profile.Strict && forced == "", with(p.Smallest-1).Refused != nil, name)
				require.Equal(t, Fits, with(p.SmallestFitting).Verdict, name)
				require.NotEqual(t, Fits, with(p.SmallestFitting-1).Verdict, name)
				for _, budget := range []int64{1, 1000, p.Smallest / 2} {
					require.Equal(t, No, with(budget).Verdict, name)
				}
				middle := with((p.Smallest + p.SmallestFitting) / 2)
				if !strictly && p.Smallest+2 < p.SmallestFitting {
					require.Equal(t, Pages, middle.Verdict)
					require.Equal(t, max(0, middle.mappedTouched()-(middle.Limit-middle.Private)), middle.DiskBytes)
				}
			}
		}
	}
}

// Every suggestion saves what it says: the plan with it has so much less. Case D23.
func TestSuggestionsAreVerified(t *testing.T) {
	for _, budget := range []int64{1 << 20, 20 << 20, 30 << 20, 40 << 20} {
		o := planRequest(t, "desktop")
		kv := tensor.EncF32
		o.KV, o.Profile.Budget, o.Available, o.Sequences = &kv, budget, budget, 2
		o.Overrides = []Override{{Pattern: "*", Form: "feed"}}
		h := llama(t, tensor.Q4_0, nil)
		p, err := MakePlan(h, o)
		require.NoError(t, err)
		require.Equal(t, No, p.Verdict)
		all, err := p.Suggest()
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(all), 2)
		var text []string
		for _, s := range all {
			then, err := MakePlan(h, s.Options)
			require.NoError(t, err)
			require.Equal(t, p.Private-then.Private, s.Saves, s.Change)
			require.Positive(t, s.Saves)
			require.Equal(t, then.Verdict, s.Verdict)
			require.NotEmpty(t, s.Cost)
			text = append(text, s.Change)
		}
		require.Contains(t, text, "--form '*=stored'")
		require.Contains(t, text, "--kv f16")
		if budget >= 20<<20 {
			require.NotEqual(t, No, all[len(all)-1].Verdict, "%v", text)
		}
	}
}

// What cannot be planned is an error that names the key, never a panic, a negative number or one that is no number. Case A31. Case D22.
func TestPlanOfDegenerateHeaders(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{map[string]string{"llama.block_count": "0"}, "block_count"},
		{map[string]string{"llama.block_count": "two"}, "block_count"},
		{map[string]string{"llama.context_length": "0"}, "context_length"},
		{map[string]string{"llama.attention.head_count": "0"}, "head_count"},
		{map[string]string{"llama.embedding_length": ""}, "embedding_length"},
		{map[string]string{"general.architecture": ""}, "general.architecture"},
	} {
		_, err := MakePlan(llama(t, tensor.Q4_0, c.set), planRequest(t, "desktop"))
		require.ErrorContains(t, err, c.want, "%v", c.set)
	}
	_, err := MakePlan(nil, PlanOptions{})
	require.Error(t, err)
	for _, change := range []func(*PlanOptions){
		func(o *PlanOptions) { o.Context = -1 }, func(o *PlanOptions) { o.Chunk = math.MaxInt }, func(o *PlanOptions) { o.Sequences = maxSequences + 1 },
	} {
		o := planRequest(t, "desktop")
		change(&o)
		_, err := MakePlan(llama(t, tensor.Q4_0, nil), o)
		require.ErrorIs(t, err, ErrPlan)
	}
	// Sums do not overflow.
	o := planRequest(t, "desktop")
	o.Context, o.Sequences = maxContext, maxSequences
	p, err := MakePlan(llama(t, tensor.Q4_0, nil), o)
	require.NoError(t, err)
	require.Equal(t, No, p.Verdict)
	require.Greater(t, p.Total(), int64(maxSequences)*maxContext)
	require.Positive(t, p.Missing)
	require.EqualValues(t, math.MaxInt64, add(math.MaxInt64-1, 2))
	require.EqualValues(t, math.MaxInt64, times(1<<40, 1<<40))
	// An unknown architecture has a bound, and every tensor counts.
	h := llama(t, tensor.Q4_0, map[string]string{"general.architecture": "strange", "strange.attention.head_count": "16", "strange.context_length": "1024"})
	p, err = MakePlan(h, planRequest(t, "desktop"))
	require.NoError(t, err)
	require.True(t, p.Sizes.Bound)
	require.Equal(t, int64(q4Elements/32*18+normBytes), p.groupBytes(GroupWeights))
	require.NotEmpty(t, p.Assumptions)
}

func (p *Plan) groupBytes(g Group) int64 { return p.Group(g, true) + p.Group(g, false) }

// A head that is in the file is a weight of its own; one that is not is the table, once. Case D16.
func TestPlanOfTiedHeads(t *testing.T) {
	h := llama(t, tensor.Q4_0, nil)
	both, err := MakePlan(h, planRequest(t, "desktop"))
	require.NoError(t, err)
	tied := without{h, "output.weight"}
	one, err := MakePlan(tied, planRequest(t, "desktop"))
	require.NoError(t, err)
	require.EqualValues(t, 1000*1024/32*18, both.groupBytes(GroupWeights)-one.groupBytes(GroupWeights))
	require.Equal(t, both.TokenBytes, one.TokenBytes)
}

type without struct {
	arch.Header
	name string
}

func (w without) Tensors() (rest []arch.TensorInfo) {
	for _, t := range w.Header.Tensors() {
		if t.Name != w.name {
			rest = append(rest, t)
		}
	}
	return rest
}

// Of experts, a token touches those in use; all are resident.
func TestPlanOfExperts(t *testing.T) {
	h := header{info("token_embd.weight", tensor.Q4_0, 1000, 1024), info("blk.0.ffn_up_exps.weight", tensor.Q4_0, 8, 512, 1024), info("blk.0.attn_q.weight", tensor.Q4_0, 1024, 1024)}
	o, err := arch.Override(h, map[string]string{"general.architecture": "qwen3moe", "qwen3moe.block_count": "1", "qwen3moe.embedding_length": "1024",
		"qwen3moe.attention.head_count": "8", "qwen3moe.expert_count": "8", "qwen3moe.expert_used_count": "2", "qwen3moe.expert_feed_forward_length": "512", "qwen3moe.vocab_size": "1000"})
	require.NoError(t, err)
	p, err := MakePlan(o, planRequest(t, "mobile_2gb"))
	require.NoError(t, err)
	experts, rest := int64(8*512*1024/32*18), int64(1024*1024/32*18)
	require.Equal(t, experts/4+rest+1000*1024/32*18, p.TokenBytes, "the table is the head, too")
	require.Equal(t, experts+rest+1000*1024/32*18, p.groupBytes(GroupWeights))
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "2147483648": 2 << 30, "2G": 2 << 30, "1.5 GiB": 3 << 29, "512kb": 512 << 10, "1T": 1 << 40, "10b": 10, "1.3G": 1395864372} {
		n, err := ParseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"", "G", "-1", "2X", "1e3000", "NaN", "inf", "1.2.3", "0x10", "9223372036854775808", "9000000T"} {
		_, err := ParseSize(text)
		require.Error(t, err, text)
	}
}

func TestRanges(t *testing.T) {
	require.Equal(t, "0-2, 4, 6-7", ranges(strings.Fields("0 1 2 4 6 7")))
	require.Equal(t, "1, 3, … (4)", ranges(strings.Fields("1 3 5 7")))
}
