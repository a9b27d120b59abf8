package quant

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/tensor"
)

// known is the shape of a model that people know, and what sets it apart from a llama.
type known struct {
	Shape
	arch    string // "" is llama
	head    int    // width of a head, where that is not Width/Heads
	experts int
	fused   bool // one projection for queries, keys and values
	tied    bool // no head
}

var (
	tinyLlama = known{Shape: Shape{Layers: 22, Width: 2048, Heads: 32, KVHeads: 4, FF: 5632, Vocab: 32000, Context: 2048}}
	llama2    = known{Shape: Shape{Layers: 32, Width: 4096, Heads: 32, KVHeads: 32, FF: 11008, Vocab: 32000, Context: 4096}}
	llama3    = known{Shape: Shape{Layers: 32, Width: 4096, Heads: 32, KVHeads: 8, FF: 14336, Vocab: 128256, Context: 8192}}
	llama70B  = known{Shape: Shape{Layers: 80, Width: 8192, Heads: 64, KVHeads: 8, FF: 28672, Vocab: 32000, Context: 4096}}
	llama65B  = known{Shape: Shape{Layers: 80, Width: 8192, Heads: 64, KVHeads: 64, FF: 22016, Vocab: 32000, Context: 2048}}
	mixtral   = known{Shape: llama3.Shape, experts: 8}
	gemma270M = known{Shape: Shape{Layers: 18, Width: 640, Heads: 4, KVHeads: 1, FF: 2048, Vocab: 262144, Context: 32768}, arch: "gemma3", head: 256, tied: true}
	llama1B   = known{Shape: Shape{Layers: 16, Width: 2048, Heads: 32, KVHeads: 8, FF: 8192, Vocab: 128256, Context: 131072}, tied: true}
	phi3      = known{Shape: Shape{Layers: 32, Width: 3072, Heads: 32, KVHeads: 32, FF: 8192, Vocab: 32064, Context: 4096}, arch: "phi3", fused: true}
)

// header is what a dense file of the model says, its matrices in F16.
func (k known) header() described {
	h := gguf.Header{}
	family := k.arch
	if family == "" {
		family = "llama"
	}
	h.Set("general.architecture", gguf.TextOf(family))
	for key, n := range map[string]int{"block_count": k.Layers, "attention.head_count": k.Heads,
		"attention.head_count_kv": k.KVHeads, "expert_count": k.experts} {
		if n > 0 {
			h.Set(family+"."+key, gguf.NumberOf(uint32(n)))
		}
	}
	add := func(layer int, role tensor.Role, dims ...int64) {
		t := gguf.TensorSpec{Name: tensor.IDOf(role, layer).String(), Encoding: tensor.EncF16, Shape: tensor.ShapeOf(dims...)}
		if len(dims) == 1 || role == tensor.RouterGate {
			t.Encoding = tensor.EncF32
		}
		h.Tensors = append(h.Tensors, t)
	}
	if k.head == 0 {
		k.head = k.Width / k.Heads
	}
	width, ff, q, kv, experts := int64(k.Width), int64(k.FF), int64(k.head*k.Heads), int64(k.head*k.KVHeads), int64(k.experts)
	add(-1, tensor.TokenEmbed, int64(k.Vocab), width)
	for i := range k.Layers {
		add(i, tensor.AttnNorm, width)
		if k.fused {
			add(i, tensor.AttnQKV, q+2*kv, width)
		} else {
			add(i, tensor.AttnQ, q, width)
			add(i, tensor.AttnK, kv, width)
			add(i, tensor.AttnV, kv, width)
		}
		add(i, tensor.AttnOutput, width, q)
		add(i, tensor.FFNNorm, width)
		if k.experts > 0 {
			add(i, tensor.RouterGate, experts, width)
			add(i, tensor.GateExperts, experts, ff, width)
			add(i, tensor.UpExperts, experts, ff, width)
			add(i, tensor.DownExperts, experts, width, ff)
		} else {
			add(i, tensor.FFNGate, ff, width)
			add(i, tensor.FFNUp, ff, width)
			add(i, tensor.FFNDown, width, ff)
		}
	}
	add(-1, tensor.OutputNorm, width)
	if !k.tied {
		add(-1, tensor.Output, int64(k.Vocab), width)
	}
	return described{"known", h}
}

// The layers that the mixes of middle size keep better, for so many layers: the first and the last eighth, and
// every third between.
var (
	outer16 = []int{0, 1, 4, 7, 10, 13, 14, 15}
	outer18 = []int{0, 1, 4, 7, 10, 13, 15, 16, 17}
	outer22 = []int{0, 1, 4, 7, 10, 13, 16, 19, 20, 21}
	outer32 = []int{0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31}
	outer80 = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 48, 51, 54, 57, 60,
		63, 66, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79}
)

func upTo(n int) (layers []int) {
	for i := range n {
		layers = append(layers, i)
	}
	return layers
}

// unlike gives tensors of some roles, of some layers or all (nil), another encoding than the rest of a model.
type unlike struct {
	roles  string
	layers []int
	as     tensor.Encoding
}

// TestMixes compares whole models with what the community's files of them have, without an importance matrix.
func TestMixes(t *testing.T) {
	for _, c := range []struct {
		name  string
		model known
		mix   string
		rest  tensor.Encoding
		but   []unlike // the first that holds
	}{
		{"TinyLlama", tinyLlama, "Q4_K_M", tensor.Q4_K, []unlike{{"attn_v ffn_down", outer22, tensor.Q6_K}, {"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "Q4_K_S", tensor.Q4_K, []unlike{{"attn_v", upTo(4), tensor.Q5_K}, {"ffn_down", upTo(2), tensor.Q5_K}, {"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "Q5_K_M", tensor.Q5_K, []unlike{{"attn_v ffn_down", outer22, tensor.Q6_K}, {"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "Q5_K_S", tensor.Q5_K, []unlike{{"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "Q3_K_S", tensor.Q3_K, []unlike{{"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "Q3_K_M", tensor.Q3_K, []unlike{{"attn_v", upTo(2), tensor.Q5_K}, {"ffn_down", upTo(1), tensor.Q5_K},
			{"attn_v ffn_down attn_output", nil, tensor.Q4_K}, {"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "Q3_K_L", tensor.Q3_K, []unlike{{"attn_v ffn_down attn_output", nil, tensor.Q5_K}, {"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "Q2_K", tensor.Q2_K, []unlike{{"attn_v", nil, tensor.Q4_K}, {"ffn_down attn_output", nil, tensor.Q3_K}, {"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "Q2_K_S", tensor.Q2_K, []unlike{{"attn_v", nil, tensor.Q4_K}, {"ffn_down", upTo(2), tensor.Q4_K}, {"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "Q6_K", tensor.Q6_K, nil},
		{"TinyLlama", tinyLlama, "Q8_0", tensor.Q8_0, nil},
		{"TinyLlama", tinyLlama, "Q4_0", tensor.Q4_0, []unlike{{"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "Q4_1", tensor.Q4_1, []unlike{{"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "Q5_0", tensor.Q5_0, []unlike{{"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "Q5_1", tensor.Q5_1, []unlike{{"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "IQ4_NL", tensor.IQ4_NL, []unlike{{"attn_v", nil, tensor.Q5_K}, {"ffn_down", upTo(2), tensor.Q5_K}, {"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "IQ4_XS", tensor.IQ4_XS, []unlike{{"attn_v", nil, tensor.Q5_K}, {"ffn_down", upTo(2), tensor.Q5_K}, {"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "TQ1_0", tensor.TQ1_0, []unlike{{"token_embd", nil, tensor.Q4_K}, {"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "TQ2_0", tensor.TQ2_0, []unlike{{"token_embd", nil, tensor.Q4_K}, {"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "Q2_0", tensor.Q2_0, []unlike{{"token_embd", nil, tensor.Q4_K}, {"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "Q1_0", tensor.Q1_0, []unlike{{"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "NVFP4", tensor.NVFP4, []unlike{{"output", nil, tensor.Q6_K}}},
		{"TinyLlama", tinyLlama, "MXFP4_MOE", tensor.Q8_0, nil},
		{"TinyLlama", tinyLlama, "F16", tensor.EncF16, nil},
		{"TinyLlama", tinyLlama, "BF16", tensor.EncBF16, nil},

		{"Llama 2 7B", llama2, "Q2_K", tensor.Q2_K, []unlike{{"attn_v ffn_down attn_output", nil, tensor.Q3_K}, {"output", nil, tensor.Q6_K}}},
		{"Llama 2 7B", llama2, "Q2_K_S", tensor.Q2_K, []unlike{{"ffn_down", upTo(4), tensor.Q4_K}, {"output", nil, tensor.Q6_K}}},
		{"Llama 2 7B", llama2, "IQ4_XS", tensor.IQ4_XS, []unlike{{"ffn_down", upTo(4), tensor.Q5_K}, {"output", nil, tensor.Q6_K}}},

		{"Llama 3 8B", llama3, "Q4_K_M", tensor.Q4_K, []unlike{{"attn_v ffn_down", outer32, tensor.Q6_K}, {"output", nil, tensor.Q6_K}}},
		{"Llama 3 8B", llama3, "Q4_K_S", tensor.Q4_K, []unlike{{"attn_v ffn_down", upTo(4), tensor.Q5_K}, {"output", nil, tensor.Q6_K}}},
		{"Llama 3 8B", llama3, "Q5_K_M", tensor.Q5_K, []unlike{{"attn_v ffn_down", outer32, tensor.Q6_K}, {"output", nil, tensor.Q6_K}}},
		{"Llama 3 8B", llama3, "Q3_K_M", tensor.Q3_K, []unlike{{"attn_v ffn_down", upTo(2), tensor.Q5_K},
			{"attn_v ffn_down attn_output", nil, tensor.Q4_K}, {"output", nil, tensor.Q6_K}}},
		{"Llama 3 8B", llama3, "Q8_0", tensor.Q8_0, nil},

		{"tied head", llama1B, "Q4_K_M", tensor.Q4_K, []unlike{{"attn_v ffn_down", outer16, tensor.Q6_K}, {"token_embd", nil, tensor.Q6_K}}},
		{"tied head", llama1B, "Q2_K", tensor.Q2_K, []unlike{{"attn_v", nil, tensor.Q4_K}, {"ffn_down attn_output", nil, tensor.Q3_K}, {"token_embd", nil, tensor.Q6_K}}},
		{"tied head", llama1B, "Q4_0", tensor.Q4_0, []unlike{{"token_embd", nil, tensor.Q6_K}}},
		{"tied head", llama1B, "Q8_0", tensor.Q8_0, nil},
		{"tied head", llama1B, "TQ1_0", tensor.TQ1_0, []unlike{{"token_embd", nil, tensor.Q6_K}}},

		{"Mixtral", mixtral, "Q4_K_M", tensor.Q4_K, []unlike{{"attn_k attn_v", nil, tensor.Q8_0}, {"attn_output", nil, tensor.Q5_K},
			{"ffn_down_exps", outer32, tensor.Q6_K}, {"output", nil, tensor.Q6_K}}},
		{"Mixtral", mixtral, "Q4_K_S", tensor.Q4_K, []unlike{{"attn_k attn_v", nil, tensor.Q8_0}, {"attn_output", nil, tensor.Q5_K},
			{"ffn_down_exps", upTo(4), tensor.Q5_K}, {"output", nil, tensor.Q6_K}}},
		{"Mixtral", mixtral, "Q5_K_M", tensor.Q5_K, []unlike{{"attn_k attn_v", nil, tensor.Q8_0}, {"ffn_down_exps", outer32, tensor.Q6_K}, {"output", nil, tensor.Q6_K}}},
		{"Mixtral", mixtral, "Q3_K_M", tensor.Q3_K, []unlike{{"attn_k attn_v", nil, tensor.Q8_0}, {"attn_output", nil, tensor.Q5_K},
			{"ffn_down_exps", upTo(2), tensor.Q5_K}, {"ffn_down_exps", nil, tensor.Q4_K}, {"output", nil, tensor.Q6_K}}},
		{"Mixtral", mixtral, "Q3_K_S", tensor.Q3_K, []unlike{{"attn_k attn_v", nil, tensor.Q8_0}, {"attn_output", nil, tensor.Q5_K}, {"output", nil, tensor.Q6_K}}},
		{"Mixtral", mixtral, "Q3_K_L", tensor.Q3_K, []unlike{{"attn_k attn_v", nil, tensor.Q8_0}, {"ffn_down_exps", nil, tensor.Q5_K}, {"output", nil, tensor.Q6_K}}},
		{"Mixtral", mixtral, "Q2_K", tensor.Q2_K, []unlike{{"attn_k attn_v", nil, tensor.Q8_0}, {"attn_output", nil, tensor.Q5_K},
			{"ffn_down_exps", nil, tensor.Q3_K}, {"output", nil, tensor.Q6_K}}},
		{"Mixtral", mixtral, "Q2_K_S", tensor.Q2_K, []unlike{{"attn_k attn_v", nil, tensor.Q8_0}, {"ffn_down_exps", upTo(4), tensor.Q4_K}, {"output", nil, tensor.Q6_K}}},
		{"Mixtral", mixtral, "Q4_0", tensor.Q4_0, []unlike{{"attn_k attn_v", nil, tensor.Q8_0}, {"output", nil, tensor.Q6_K}}},
		{"Mixtral", mixtral, "MXFP4_MOE", tensor.Q8_0, []unlike{{"ffn_gate_exps ffn_up_exps ffn_down_exps", nil, tensor.MXFP4}}},
		{"Mixtral", mixtral, "F16", tensor.EncF16, nil},

		{"Llama 2 70B", llama70B, "Q4_K_M", tensor.Q4_K, []unlike{{"attn_v ffn_down", outer80, tensor.Q6_K}, {"attn_v", nil, tensor.Q5_K}, {"output", nil, tensor.Q6_K}}},
		{"Llama 2 70B", llama70B, "Q4_K_S", tensor.Q4_K, []unlike{{"attn_v", nil, tensor.Q5_K}, {"ffn_down", upTo(10), tensor.Q5_K}, {"output", nil, tensor.Q6_K}}},
		{"Llama 2 70B", llama70B, "Q3_K_S", tensor.Q3_K, []unlike{{"attn_v", nil, tensor.Q5_K}, {"output", nil, tensor.Q6_K}}},
		{"Llama 2 70B", llama70B, "Q3_K_M", tensor.Q3_K, []unlike{{"attn_v", nil, tensor.Q5_K}, {"ffn_down", upTo(5), tensor.Q5_K},
			{"ffn_down attn_output", nil, tensor.Q4_K}, {"output", nil, tensor.Q6_K}}},
		{"Llama 2 70B", llama70B, "Q2_K", tensor.Q2_K, []unlike{{"attn_v", nil, tensor.Q5_K}, {"ffn_down attn_output", nil, tensor.Q3_K}, {"output", nil, tensor.Q6_K}}},
		{"Llama 2 70B", llama70B, "Q5_K_M", tensor.Q5_K, []unlike{{"attn_v ffn_down", outer80, tensor.Q6_K}, {"output", nil, tensor.Q6_K}}},
		{"LLaMA 65B", llama65B, "Q4_K_M", tensor.Q4_K, []unlike{{"attn_v ffn_down", outer80, tensor.Q6_K}, {"output", nil, tensor.Q6_K}}},

		// Rows of 640 are blocks of 32, not of 256; those of 1024 and 2048 are both.
		{"Gemma 3 270M", gemma270M, "Q4_K_M", tensor.Q5_0, []unlike{{"token_embd", nil, tensor.Q8_0}, {"attn_v", outer18, tensor.Q8_0},
			{"attn_output", nil, tensor.Q4_K}, {"ffn_down", outer18, tensor.Q6_K}, {"ffn_down", nil, tensor.Q4_K}}},
		{"Gemma 3 270M", gemma270M, "Q5_K_S", tensor.Q5_1, []unlike{{"token_embd", nil, tensor.Q8_0}, {"attn_output ffn_down", nil, tensor.Q5_K}}},
		{"Gemma 3 270M", gemma270M, "Q6_K", tensor.Q8_0, []unlike{{"attn_output ffn_down", nil, tensor.Q6_K}}},
		{"Gemma 3 270M", gemma270M, "Q2_K", tensor.Q4_0, []unlike{{"token_embd", nil, tensor.Q8_0}, {"attn_v", nil, tensor.Q5_0}, {"attn_output ffn_down", nil, tensor.Q3_K}}},
		{"Gemma 3 270M", gemma270M, "IQ4_XS", tensor.IQ4_NL, []unlike{{"token_embd", nil, tensor.Q8_0}, {"attn_v", nil, tensor.Q5_1},
			{"attn_output", nil, tensor.IQ4_XS}, {"ffn_down", upTo(2), tensor.Q5_K}, {"ffn_down", nil, tensor.IQ4_XS}}},
		{"Gemma 3 270M", gemma270M, "Q4_0", tensor.Q4_0, []unlike{{"token_embd", nil, tensor.Q8_0}}},

		{"fused", phi3, "Q4_K_M", tensor.Q4_K, []unlike{{"attn_qkv ffn_down", outer32, tensor.Q6_K}, {"output", nil, tensor.Q6_K}}},
		{"fused", phi3, "Q3_K_M", tensor.Q3_K, []unlike{{"attn_qkv ffn_down", upTo(2), tensor.Q5_K}, {"attn_qkv ffn_down attn_output", nil, tensor.Q4_K}, {"output", nil, tensor.Q6_K}}},
	} {
		t.Run(c.name+" "+c.mix, func(t *testing.T) {
			h := c.model.header()
			decisions, err := Choose(h, c.mix, false)
			require.NoError(t, err)
			require.Len(t, decisions, len(h.h.Tensors))
			for i, d := range decisions {
				spec := h.h.Tensors[i]
				id, _ := tensor.ParseID(spec.Name)
				want := c.rest
				if spec.Encoding == tensor.EncF32 {
					want = tensor.EncF32
				} else {
					for _, u := range c.but {
						if slices.Contains(strings.Fields(u.roles), id.Role.String()) && (u.layers == nil || slices.Contains(u.layers, int(id.Layer))) {
							want = u.as
							break
						}
					}
				}
				bytes, err := tensor.FormatOf(want).Bytes(spec.Shape)
				require.NoError(t, err)
				require.Equal(t, Decision{Name: spec.Name, Shape: spec.Shape, From: spec.Encoding, To: want, Bytes: bytes,
					Reason: d.Reason, Note: d.Note}, d)
				require.NotEmpty(t, d.Reason)
			}
		})
	}
}

// TestMixesCount compares the numbers of tensors of each type with those that loaders print of published files.
func TestMixesCount(t *testing.T) {
	for _, c := range []struct {
		model known
		mix   string
		want  map[string]int
	}{
		{tinyLlama, "Q4_K_M", map[string]int{"F32": 45, "Q4_K": 135, "Q6_K": 21}},
		{llama3, "Q4_K_M", map[string]int{"F32": 65, "Q4_K": 193, "Q6_K": 33}},
		{llama3, "Q5_K_M", map[string]int{"F32": 65, "Q5_K": 193, "Q6_K": 33}},
		{llama70B, "Q4_K_M", map[string]int{"F32": 161, "Q4_K": 441, "Q5_K": 40, "Q6_K": 81}},
		{llama2, "Q2_K", map[string]int{"F32": 65, "Q2_K": 129, "Q3_K": 96, "Q6_K": 1}},
		{llama2, "Q4_0", map[string]int{"F32": 65, "Q4_0": 225, "Q6_K": 1}},
		{llama2, "Q8_0", map[string]int{"F32": 65, "Q8_0": 226}},
	} {
		decisions, err := Choose(c.model.header(), c.mix, false)
		require.NoError(t, err)
		got := map[string]int{}
		for _, d := range decisions {
			got[d.To.String()]++
		}
		require.Equal(t, c.want, got, c.mix)
	}
}

// TestMixesOfSomeLayers: where not every layer has the part, values are counted among those that have one, but
// the outputs of feed-forward parts among all layers; with experts the layer's own number counts.
func TestMixesOfSomeLayers(t *testing.T) {
	of := func(experts int, downs tensor.Role, has func(int) bool) []int {
		h := gguf.Header{}
		h.Set("general.architecture", gguf.TextOf("hybrid"))
		h.Set("hybrid.block_count", gguf.NumberOf(uint32(32)))
		h.Set("hybrid.expert_count", gguf.NumberOf(uint32(experts)))
		dims := []int64{256, 256}
		if experts > 0 {
			dims = []int64{int64(experts), 256, 256}
		}
		for i := range 32 {
			if has(i) {
				h.Tensors = append(h.Tensors, gguf.TensorSpec{Name: tensor.IDOf(downs, i).String(), Encoding: tensor.EncF16, Shape: tensor.ShapeOf(dims...)})
			}
		}
		decisions, err := Choose(described{"hybrid", h}, "Q4_K_M", false)
		require.NoError(t, err)
		var better []int
		for _, d := range decisions {
			if id, _ := tensor.ParseID(d.Name); d.To == tensor.Q6_K {
				better = append(better, int(id.Layer))
			}
		}
		return better
	}
	odd := func(i int) bool { return i%2 == 1 }
	require.Equal(t, []int{1, 3, 9, 15, 21, 27, 29, 31}, of(0, tensor.AttnV, odd), "numbers 0 1 4 7 10 13 14 15 of 16")
	require.Equal(t, []int{1, 3, 5, 7, 13, 19, 25, 31}, of(0, tensor.FFNDown, odd), "numbers 0 1 2 3 6 9 12 15 of 32")
	require.Equal(t, []int{1, 3, 9, 15, 21, 27, 29, 31}, of(16, tensor.DownExperts, odd), "layers of 32")
	require.Equal(t, outer32, of(16, tensor.DownExperts, func(int) bool { return true }))
}

// TestKept lists what no mix touches, and neighbors that it does.
func TestKept(t *testing.T) {
	matrix := tensor.ShapeOf(64, 256)
	h := gguf.Header{}
	for _, name := range []string{
		"blk.0.attn_norm.weight", "blk.0.ffn_gate_inp.weight", "position_embd.weight", "token_types.weight", "token_embd_norm.weight",
		"blk.0.ssm_conv1d.weight", "blk.0.shortconv.conv.weight", "blk.0.attn_rel_b.weight", "altup_proj.weight",
		"blk.0.altup_router.weight", "blk.0.laurel_l.weight", "per_layer_model_proj.weight", "blk.0.indexer.k_proj.weight",
		"blk.0.indexer.q_proj.weight", "v.blk.0.rel_pos_h.weight", "v.patch_embd.weight", "mm.patch_merger.weight", "v.position_embd.weight",
		"blk.0.time_mix_first.weight", "blk.0.time_mix_w0.weight", "blk.0.time_mix_w1.weight", "blk.0.time_mix_w2.weight",
		"blk.0.time_mix_v0.weight", "blk.0.time_mix_v1.weight", "blk.0.time_mix_v2.weight", "blk.0.time_mix_a0.weight",
		"blk.0.time_mix_a1.weight", "blk.0.time_mix_a2.weight", "blk.0.time_mix_g1.weight", "blk.0.time_mix_g2.weight",
		"blk.0.time_mix_decay_w1.weight", "blk.0.time_mix_decay_w2.weight", "blk.0.time_mix_lerp_fused.weight",
		"v.sam.pos_embd.weight", "v.sam.neck.0.weight", "v.sam.net_2.weight", "a.rvq.codebook.weight", "mm.a.code_embd.weight",
		"blk.0.attn_q.bias", "blk.0.attn_q.scale", "weight.of", "blk.0.ssm_a",
	} {
		h.Tensors = append(h.Tensors, gguf.TensorSpec{Name: name, Encoding: tensor.EncF32, Shape: matrix})
	}
	kept := len(h.Tensors)
	for _, name := range []string{
		"blk.0.time_mix_key.weight", "blk.0.time_mix_receptance.weight", "blk.0.time_mix_value.weight", "blk.0.time_mix_gate.weight",
		"blk.0.time_mix_output.weight", "blk.0.channel_mix_key.weight", "blk.0.indexer.attn_q_b.weight", "blk.0.ssm_in.weight", "blk.0.ssm_out.weight",
		"blk.0.shortconv.in_proj.weight", "blk.0.attn_q.weight", "blk.0.nobody_knows.weight", "weight",
	} {
		h.Tensors = append(h.Tensors, gguf.TensorSpec{Name: name, Encoding: tensor.EncF32, Shape: matrix})
	}
	shapes := []tensor.Shape{tensor.ShapeOf(256), tensor.ShapeOf(1, 256), tensor.ShapeOf(1, 1, 256), tensor.ShapeOf(1, 1, 1, 256), {}}
	for i, s := range shapes { // of one axis, however many are written
		h.Tensors = append(h.Tensors, gguf.TensorSpec{Name: fmt.Sprintf("blk.%d.thin.weight", i), Encoding: tensor.EncF32, Shape: s})
	}
	for _, pure := range []bool{false, true} {
		decisions, err := Choose(described{"x", h}, "Q4_K_M", pure)
		require.NoError(t, err)
		for i, d := range decisions {
			want := tensor.Q4_K
			if i < kept || i >= len(decisions)-len(shapes) {
				want = tensor.EncF32
				require.Contains(t, d.Reason, "kept: ", d.Name)
			}
			require.Equal(t, want, d.To, "%s %s", d.Name, d.Shape)
		}
	}
}

func TestPure(t *testing.T) {
	for _, name := range Types() {
		m, err := encodableType(name)
		require.NoError(t, err)
		for _, model := range []known{tinyLlama, mixtral, llama70B} {
			decisions, err := Choose(model.header(), name, true)
			require.NoError(t, err)
			for _, d := range decisions {
				want := m.base
				if d.From == tensor.EncF32 {
					want = tensor.EncF32
				}
				require.Equal(t, want, d.To, "%s: %s", name, d.Name)
			}
		}
	}
	// Rows that are no whole blocks are the one exception, and the decision says so.
	decisions, err := Choose(gemma270M.header(), "Q4_K_M", true)
	require.NoError(t, err)
	require.Equal(t, tensor.Q5_0, decisions[0].To)
	require.Equal(t, "rows of 640 elements are not whole blocks of Q4_K: Q5_0 is used instead", decisions[0].Note)
}

// TestFit: formats for rows of odd lengths have about as many bits, and F16 fits any.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		from tensor.Encoding
		row  int64
		to   tensor.Encoding
	}{
		{tensor.Q4_K, 640, tensor.Q5_0}, {tensor.Q5_K, 640, tensor.Q5_1}, {tensor.Q6_K, 640, tensor.Q8_0}, {tensor.Q3_K, 640, tensor.Q4_0},
		{tensor.Q2_K, 640, tensor.Q4_0}, {tensor.TQ1_0, 640, tensor.Q4_0}, {tensor.TQ2_0, 640, tensor.Q4_0}, {tensor.IQ4_XS, 640, tensor.IQ4_NL},
		{tensor.Q2_0, 96, tensor.Q4_0}, {tensor.Q1_0, 96, tensor.Q4_0}, {tensor.NVFP4, 96, tensor.MXFP4},
		{tensor.Q4_K, 100, tensor.EncF16}, {tensor.Q8_0, 100, tensor.EncF16}, {tensor.Q4_0, 33, tensor.EncF16}, {tensor.MXFP4, 1, tensor.EncF16},
		{tensor.EncBF16, 7, tensor.EncBF16}, {tensor.Q4_K, 256, tensor.Q4_K}, {tensor.Q4_0, 32, tensor.Q4_0},
	} {
		to, note := fit(c.from, tensor.ShapeOf(3, c.row))
		require.Equal(t, c.to, to, "%s of %d", c.from, c.row)
		require.Equal(t, c.to != c.from, note != "")
	}
	for _, m := range mixes { // whatever a mix may give, some format takes it
		for row := int64(1); row <= 256; row++ {
			to, _ := fit(m.base, tensor.ShapeOf(2, row))
			_, err := tensor.FormatOf(to).Bytes(tensor.ShapeOf(2, row))
			require.NoError(t, err)
		}
	}
}

func TestTypes(t *testing.T) {
	require.Subset(t, Types(), []string{"F32", "F16", "BF16", "Q4_0", "Q8_0", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_S", "Q6_K", "IQ4_XS", "TQ1_0", "MXFP4", "NVFP4"})
	require.NotContains(t, Types(), "IQ2_XXS")
	h := tinyLlama.header()
	for alias, name := range map[string]string{"Q4_K": "Q4_K_M", "q4_k_m": "Q4_K_M", "Q5_K": "Q5_K_M", "q3_k": "Q3_K_M", "iq4_xs": "IQ4_XS", "bf16": "BF16"} {
		got, err := Choose(h, alias, false)
		require.NoError(t, err)
		want, err := Choose(h, name, false)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for name, reason := range map[string]string{"": "unknown type", "Q9_K": "unknown type", "Q4_2": "unknown type", "Q8_1": "unknown type",
		"A8": "unknown type", "I8": "unknown type", "IQ2_XXS": "IQ2_XXS has no encoder", "iq3_s": "IQ3_S has no encoder"} {
		_, err := Choose(h, name, false)
		var bad *TypeError
		require.ErrorAs(t, err, &bad, name)
		require.Equal(t, name, bad.Name)
		require.Contains(t, bad.Reason, reason)
		require.Equal(t, Types(), bad.Known)
		require.ErrorContains(t, err, fmt.Sprintf("type %q: %s", name, reason))
		require.ErrorContains(t, err, "Q4_K_M")
	}
	fileTypes := map[string]uint32{"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11,
		"Q3_K_M": 12, "Q3_K_L": 13, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "IQ2_XXS": 19, "IQ2_XS": 20,
		"Q2_K_S": 21, "IQ3_XXS": 23, "IQ1_S": 24, "IQ4_NL": 25, "IQ3_S": 26, "IQ2_S": 28, "IQ4_XS": 30, "IQ1_M": 31, "BF16": 32,
		"TQ1_0": 36, "TQ2_0": 37, "MXFP4_MOE": 38, "MXFP4": 38, "NVFP4": 39, "Q1_0": 40, "Q2_0": 41} // of include/llama.h
	seen := map[string]bool{}
	for i, m := range mixes {
		require.Equal(t, fileTypes[m.name], m.fileType, m.name)
		require.False(t, seen[m.name], m.name)
		seen[m.name] = true
		require.True(t, i == 0 || mixes[i-1].fileType <= m.fileType, m.name)
	}
	require.Len(t, seen, len(fileTypes))
}

// TestFactsPerLayer: numbers that a file gives for each layer count by the first that is not 0.
func TestFactsPerLayer(t *testing.T) {
	h := tinyLlama.header()
	for i, kv := range h.h.Metadata {
		switch kv.Key {
		case "llama.attention.head_count":
			h.h.Metadata[i].Value = gguf.NumbersOf([]int32{0, 32, 32})
		case "llama.attention.head_count_kv":
			h.h.Metadata[i].Value = gguf.NumbersOf([]int32{0, 4, 4})
		}
	}
	got, err := Choose(h, "Q2_K", false)
	require.NoError(t, err)
	want, err := Choose(tinyLlama.header(), "Q2_K", false)
	require.NoError(t, err)
	require.Equal(t, want, got)

	// What a file does not say counts as usual: no groups, no experts.
	h.h.Metadata = nil
	got, err = Choose(h, "Q2_K", false)
	require.NoError(t, err)
	for i, d := range got {
		if id, _ := tensor.ParseID(d.Name); id.Role == tensor.AttnV {
			require.Equal(t, tensor.Q3_K, d.To)
		} else {
			require.Equal(t, want[i], d)
		}
	}
}
