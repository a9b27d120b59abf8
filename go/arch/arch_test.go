package arch

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/skeep-project/skeep/go/tensor"
)

// header is a Header out of Go values.
type header struct {
	kv      map[string]any
	tensors []TensorInfo
}

func (h *header) Name() string           { return "m.gguf" }
func (h *header) Keys() iter.Seq[string] { return maps.Keys(h.kv) }
func (h *header) Tensors() []TensorInfo  { return h.tensors }

func (h *header) Value(key string) (Value, bool) {
	v, ok := h.kv[key]
	return value{v}, ok
}

// value is a Value out of a Go value: uint32, int32, uint64, float32, bool, string, or a slice of these.
type value struct{ v any }

func (v value) Kind() Kind {
	switch v.v.(type) {
	case uint32:
		return Uint32
	case int32:
		return Int32
	case uint64:
		return Uint64
	case float32:
		return Float32
	case bool:
		return Bool
	case string:
		return String
	}
	return Array
}

func (v value) Int() (int64, bool) {
	switch n := v.v.(type) {
	case uint32:
		return int64(n), true
	case int32:
		return int64(n), true
	case uint64:
		return int64(n), n <= math.MaxInt64
	}
	return 0, false
}

func (v value) Uint() (uint64, bool) {
	n, ok := v.Int()
	return uint64(n), ok && n >= 0
}

func (v value) Float() (float64, bool) {
	if x, ok := v.v.(float32); ok {
		return float64(x), true
	}
	n, ok := v.Int()
	return float64(n), ok
}

func (v value) Bool() (val, ok bool) { val, ok = v.v.(bool); return }

func (v value) Text() (s string, ok bool) { s, ok = v.v.(string); return }

func (v value) Array() (Values, bool) {
	switch a := v.v.(type) {
	case []string:
		return values[string](a), true
	case []int32:
		return values[int32](a), true
	case []bool:
		return values[bool](a), true
	case []float32:
		return values[float32](a), true
	}
	return nil, false
}

type values[T string | int32 | bool | float32] []T

func (v values[T]) Elem() Kind     { var t T; return value{t}.Kind() }
func (v values[T]) Len() int       { return len(v) }
func (v values[T]) At(i int) Value { return value{v[i]} }
func (v values[T]) Text(i int) string {
	s, _ := any(v[i]).(string)
	return s
}

// tiny is a whole Llama of two layers: width 64, 8 heads and 4 key-value heads of 8, feed-forward 96,
// 50 tokens.
func tiny() *header {
	h := &header{kv: map[string]any{
		"general.architecture": "llama", "general.name": "tiny",
		"llama.block_count": uint32(2), "llama.context_length": uint32(256), "llama.embedding_length": uint32(64),
		"llama.feed_forward_length": uint32(96), "llama.attention.head_count": uint32(8), "llama.attention.head_count_kv": uint32(4),
		"llama.attention.layer_norm_rms_epsilon": float32(1e-5),
		"tokenizer.ggml.tokens":                  make([]string, 50),
	}}
	h.add("token_embd.weight", 50, 64)
	h.add("output_norm.weight", 64)
	h.add("output.weight", 50, 64)
	for i := range 2 {
		h.layer(i)
	}
	return h
}

// gemma is a whole Gemma 3 of 7 layers: width 64, 4 heads and 1 key-value head of 32.
func gemma() *header {
	h := &header{kv: map[string]any{
		"general.architecture": "gemma3",
		"gemma3.block_count":   uint32(7), "gemma3.context_length": uint32(32768), "gemma3.embedding_length": uint32(64),
		"gemma3.feed_forward_length": uint32(96), "gemma3.attention.head_count": uint32(4), "gemma3.attention.head_count_kv": uint32(1),
		"gemma3.attention.key_length": uint32(32), "gemma3.attention.value_length": uint32(32), "gemma3.attention.sliding_window": uint32(512),
		"gemma3.attention.layer_norm_rms_epsilon": float32(1e-6), "gemma3.rope.freq_base": float32(1e6),
		"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": float32(8),
		"gemma3.vocab_size": uint32(50),
	}}
	h.add("token_embd.weight", 50, 64)
	h.add("output_norm.weight", 64)
	for i := range 7 {
		for name, dims := range map[string][]int64{"attn_norm": {64}, "attn_q": {128, 64}, "attn_k": {32, 64}, "attn_v": {32, 64},
			"attn_output": {64, 128}, "attn_q_norm": {32}, "attn_k_norm": {32}, "post_attention_norm": {64},
			"ffn_norm": {64}, "ffn_gate": {96, 64}, "ffn_up": {96, 64}, "ffn_down": {64, 96}, "post_ffw_norm": {64}} {
			h.add(fmt.Sprintf("blk.%d.%s.weight", i, name), dims...)
		}
	}
	return h
}

func (h *header) add(name string, dims ...int64) {
	h.tensors = append(h.tensors, TensorInfo{Name: name, Shape: tensor.ShapeOf(dims...)})
}

// layer adds a layer of tiny.
func (h *header) layer(i int) {
	for _, t := range []struct {
		name string
		dims []int64
	}{
		{"attn_norm", []int64{64}}, {"attn_q", []int64{64, 64}}, {"attn_k", []int64{32, 64}}, {"attn_v", []int64{32, 64}},
		{"attn_output", []int64{64, 64}}, {"ffn_norm", []int64{64}}, {"ffn_gate", []int64{96, 64}}, {"ffn_up", []int64{96, 64}},
		{"ffn_down", []int64{64, 96}},
	} {
		h.add(fmt.Sprintf("blk.%d.%s.weight", i, t.name), t.dims...)
	}
}

func (h *header) remove(names ...string) {
	h.tensors = slices.DeleteFunc(h.tensors, func(t TensorInfo) bool { return slices.Contains(names, t.Name) })
}

func describe(t *testing.T, h Header) *Model {
	t.Helper()
	m, err := Describe(h)
	require.NoError(t, err)
	return m
}

func TestDescribeLlama(t *testing.T) {
	h := tiny()
	m := describe(t, h)
	want := Layer{Heads: 8, KVHeads: 4, KeyDim: 8, ValueDim: 8, FF: 96, AttnScale: float32(1 / math.Sqrt(8)),
		Rope: tensor.RopeParams{Form: tensor.RopeNormal, Dims: 8, Base: 10_000, Scale: 1, AttnFactor: 1}}
	require.Equal(t, []Layer{want, want}, m.Layers)
	require.Equal(t, []any{"llama", "tiny", 256, 64, 50, float32(1e-5), float32(1), tensor.GLUSiLU, float32(0), false},
		[]any{m.Arch, m.Name, m.Context, m.Width, m.Vocab, m.Eps, m.EmbedScale, m.Activation, m.FinalSoftcap, m.TiedHead})
	require.Empty(t, m.Unused)

	seen := 0
	for _, x := range m.Tensors {
		if x.Index < 0 {
			require.True(t, x.Optional)
			continue
		}
		seen++
		require.Equal(t, h.tensors[x.Index].Name, x.ID.String())
		require.Equal(t, h.tensors[x.Index].Shape, x.Shape)
		found, ok := m.Find(x.ID)
		require.True(t, ok)
		require.Equal(t, x, found)
	}
	require.Equal(t, len(h.tensors), seen)
	_, ok := m.Find(tensor.ID{Layer: 1, Role: tensor.AttnQ, Kind: tensor.Bias})
	require.False(t, ok)

	h.kv["llama.attention.sliding_window"] = uint32(100)
	h.kv["llama.rope.freq_base"] = float32(5e5)
	h.kv["llama.rope.dimension_count"] = uint32(4)
	h.add("blk.1.attn_q.bias", 64)
	h.add("rope_freqs.weight", 2)
	h.remove("output.weight")
	delete(h.kv, "llama.attention.head_count_kv")
	for i := range h.tensors {
		if strings.Contains(h.tensors[i].Name, "attn_k") || strings.Contains(h.tensors[i].Name, "attn_v") {
			h.tensors[i].Shape = tensor.ShapeOf(64, 64)
		}
	}
	m = describe(t, h)
	require.Equal(t, 8, m.Layers[0].KVHeads)
	require.Equal(t, 100, m.Layers[1].Window)
	require.Equal(t, float32(5e5), m.Layers[0].Rope.Base)
	require.EqualValues(t, 4, m.Layers[0].Rope.Dims)
	require.True(t, m.TiedHead)
	_, ok = m.Find(tensor.ID{Layer: 1, Role: tensor.AttnQ, Kind: tensor.Bias})
	require.True(t, ok)
	_, ok = m.Find(tensor.IDOf(tensor.RopeFreqs, -1))
	require.True(t, ok)
	require.Empty(t, m.Unused)
}

func TestVocabSize(t *testing.T) {
	h := tiny()
	delete(h.kv, "tokenizer.ggml.tokens")
	require.Equal(t, 50, describe(t, h).Vocab) // by the embedding table
	h.kv["llama.vocab_size"] = uint32(50)
	require.Equal(t, 50, describe(t, h).Vocab)
	h.kv["llama.vocab_size"] = uint32(51)
	_, err := Describe(h)
	require.ErrorIs(t, err, ErrInvalid)
	require.EqualError(t, err, `arch: tensor "token_embd.weight": shape is [50 64], but the metadata require [51 64] in m.gguf`)
	delete(h.kv, "llama.vocab_size")
	h.remove("token_embd.weight")
	_, err = Describe(h)
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, "vocab_size")
}

func TestRopeScaling(t *testing.T) {
	with := func(kv map[string]any) (tensor.RopeParams, error) {
		h := tiny()
		maps.Copy(h.kv, kv)
		m, err := Describe(h)
		if err != nil {
			return tensor.RopeParams{}, err
		}
		return m.Layers[0].Rope, nil
	}
	plain := tensor.RopeParams{Dims: 8, Base: 10_000, Scale: 1, AttnFactor: 1}
	for _, c := range []struct {
		kv   map[string]any
		want func(r *tensor.RopeParams)
	}{
		{nil, func(*tensor.RopeParams) {}},
		{map[string]any{"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": float32(4)}, func(*tensor.RopeParams) {}},
		{map[string]any{"llama.rope.scaling.factor": float32(4)}, func(r *tensor.RopeParams) { r.Scale = 0.25 }},
		{map[string]any{"llama.rope.scale_linear": float32(2)}, func(r *tensor.RopeParams) { r.Scale = 0.5 }},
		{map[string]any{"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": float32(0)}, func(*tensor.RopeParams) {}},
		{map[string]any{"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": float32(4), "llama.rope.scaling.original_context_length": uint32(64)},
			func(r *tensor.RopeParams) {
				r.Scale, r.ExtFactor, r.BetaFast, r.BetaSlow, r.OriginalContext = 0.25, 1, 32, 1, 64
				r.AttnFactor = float32(1 + 0.1*math.Log(4))
			}},
		{map[string]any{"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": float32(4), "llama.rope.scaling.yarn_ext_factor": float32(0)},
			func(r *tensor.RopeParams) { r.Scale, r.BetaFast, r.BetaSlow, r.OriginalContext = 0.25, 32, 1, 256 }},
	} {
		want := plain
		c.want(&want)
		got, err := with(c.kv)
		require.NoError(t, err)
		require.Equal(t, want, got, "%v", c.kv)
	}
	_, err := with(map[string]any{"llama.rope.scaling.type": "longrope"})
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "longrope")
	_, err = with(map[string]any{"llama.rope.scaling.type": uint32(1)})
	require.ErrorIs(t, err, ErrInvalid)
}

func TestDescribeGemma3(t *testing.T) {
	m := describe(t, gemma())
	require.Equal(t, []any{float32(8), tensor.GLUGELUTanh, true, 7}, []any{m.EmbedScale, m.Activation, m.TiedHead, len(m.Layers)})
	local := Layer{Heads: 4, KVHeads: 1, KeyDim: 32, ValueDim: 32, FF: 96, Window: 512, AttnScale: float32(1 / math.Sqrt(32)),
		Rope: tensor.RopeParams{Form: tensor.RopeNeoX, Dims: 32, Base: 10_000, Scale: 1, AttnFactor: 1}, QKNorm: true, PostNorms: true}
	global := local
	global.Window, global.Rope.Base, global.Rope.Scale = 0, 1e6, 0.125
	require.Equal(t, []Layer{local, local, local, local, local, global, local}, m.Layers)
	require.Empty(t, m.Unused)
}

func TestDescribeQwen(t *testing.T) {
	for _, name := range []string{"qwen2", "qwen3"} {
		h := tiny()
		kv := map[string]any{}
		for k, v := range h.kv {
			kv[strings.Replace(k, "llama.", name+".", 1)] = v
		}
		kv["general.architecture"] = name
		h.kv = kv
		_, err := Describe(h)
		var missing *MissingTensorsError
		require.ErrorAs(t, err, &missing)
		for i := range 2 {
			if name == "qwen2" {
				h.add(fmt.Sprintf("blk.%d.attn_q.bias", i), 64)
				h.add(fmt.Sprintf("blk.%d.attn_k.bias", i), 32)
				h.add(fmt.Sprintf("blk.%d.attn_v.bias", i), 32)
			} else {
				h.add(fmt.Sprintf("blk.%d.attn_q_norm.weight", i), 8)
				h.add(fmt.Sprintf("blk.%d.attn_k_norm.weight", i), 8)
			}
		}
		m := describe(t, h)
		require.Equal(t, tensor.RopeNeoX, m.Layers[0].Rope.Form)
		require.Equal(t, name == "qwen3", m.Layers[1].QKNorm)
		require.Empty(t, m.Unused)
	}
	require.Subset(t, Architectures(), []string{"gemma3", "llama", "qwen2", "qwen3"})
}

func TestExperts(t *testing.T) {
	h := tiny()
	h.kv["llama.expert_count"] = uint32(4)
	h.kv["llama.expert_used_count"] = uint32(2)
	_, err := Describe(h)
	var missing *MissingTensorsError
	require.ErrorAs(t, err, &missing)
	require.Contains(t, missing.Names, "blk.1.ffn_gate_exps.weight")
	require.NotContains(t, missing.Names, "blk.1.ffn_gate.weight")
	for i := range 2 {
		h.remove(fmt.Sprintf("blk.%d.ffn_gate.weight", i), fmt.Sprintf("blk.%d.ffn_up.weight", i), fmt.Sprintf("blk.%d.ffn_down.weight", i))
		h.add(fmt.Sprintf("blk.%d.ffn_gate_inp.weight", i), 4, 64)
		h.add(fmt.Sprintf("blk.%d.ffn_gate_exps.weight", i), 4, 96, 64)
		h.add(fmt.Sprintf("blk.%d.ffn_up_exps.weight", i), 4, 96, 64)
		h.add(fmt.Sprintf("blk.%d.ffn_down_exps.weight", i), 4, 64, 96)
	}
	require.Empty(t, describe(t, h).Unused)
	h.kv["llama.expert_used_count"] = uint32(5)
	_, err = Describe(h)
	require.ErrorIs(t, err, ErrInvalid)
}

// Case A14.
func TestPerLayerArraysDescribeEachLayer(t *testing.T) {
	h := tiny()
	h.kv["llama.block_count"] = uint32(4)
	h.kv["llama.attention.head_count"] = []int32{8, 0, 8, 8}
	h.kv["llama.attention.head_count_kv"] = []int32{4, 0, 2, 4}
	h.kv["llama.feed_forward_length"] = []int32{96, 96, 0, 96}
	h.layer(2)
	h.layer(3)
	for i := range h.tensors {
		if n := h.tensors[i].Name; n == "blk.2.attn_k.weight" || n == "blk.2.attn_v.weight" {
			h.tensors[i].Shape = tensor.ShapeOf(16, 64)
		}
	}
	for _, name := range []string{"blk.1.attn_norm.weight", "blk.2.ffn_norm.weight"} { // of a part that the layer does not have
		var e *Error
		_, err := Describe(h)
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, err, ErrUnsupported)
		require.Equal(t, name, e.Tensor)
		h.remove(strings.Replace(name, "norm", "q", 1), strings.Replace(name, "norm", "k", 1), strings.Replace(name, "norm", "v", 1),
			strings.Replace(name, "norm", "output", 1), strings.Replace(name, "norm", "gate", 1), strings.Replace(name, "norm", "up", 1),
			strings.Replace(name, "norm", "down", 1), name)
	}
	m := describe(t, h)
	for i, want := range [][3]int{{8, 4, 96}, {0, 0, 96}, {8, 2, 0}, {8, 4, 96}} {
		l := m.Layers[i]
		require.Equal(t, want, [3]int{l.Heads, l.KVHeads, l.FF})
	}
	_, _, ok := m.Layers[1].Caches(KV{Context: 256, Chunk: 32, Sequences: 1})
	require.False(t, ok)

	h.kv["llama.attention.head_count_kv"] = uint32(4) // one number beside an array
	for i := range h.tensors {
		if n := h.tensors[i].Name; n == "blk.2.attn_k.weight" || n == "blk.2.attn_v.weight" {
			h.tensors[i].Shape = tensor.ShapeOf(32, 64)
		}
	}
	require.Equal(t, 0, describe(t, h).Layers[1].KVHeads)

	for key, v := range map[string]any{
		"llama.attention.head_count":    []int32{8, 0, 8},
		"llama.attention.head_count_kv": []int32{4, 0, 0, 4},
		"llama.feed_forward_length":     []int32{1, 2, 3, -4},
	} {
		old := h.kv[key]
		h.kv[key] = v
		_, err := Describe(h)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, key)
		h.kv[key] = old
	}
	h.kv["llama.attention.head_count"] = []int32{0, 0, 0, 0}
	_, err := Describe(h)
	require.ErrorContains(t, err, "has no attention")
	h.kv["llama.attention.head_count"] = []string{"8", "8", "8", "8"}
	_, err = Describe(h)
	require.ErrorContains(t, err, "llama.attention.head_count[0]: is of kind string")
}

// Case A29.
func TestMissingTensorsAreNamed(t *testing.T) {
	h := tiny()
	h.tensors = h.tensors[:2] // token_embd and output_norm
	m, err := Describe(h)
	require.Nil(t, m)
	var missing *MissingTensorsError
	require.ErrorAs(t, err, &missing)
	require.Len(t, missing.Names, 18)
	require.Equal(t, "blk.0.attn_norm.weight", missing.Names[0])
	require.Contains(t, missing.Names, "blk.1.ffn_down.weight")
	require.ErrorContains(t, err, "missing tensors (18): blk.0.attn_norm.weight, ")
	require.ErrorContains(t, err, "and 6 more in m.gguf")
	require.NotContains(t, missing.Names, "output.weight")

	h = tiny()
	h.remove("blk.1.ffn_up.weight")
	_, err = Describe(h)
	require.EqualError(t, err, "arch: missing tensors (1): blk.1.ffn_up.weight in m.gguf")
}

// Case A30.
func TestExtraTensorsAreListedOrRefusedByName(t *testing.T) {
	h := tiny()
	extra := []string{"v.blk.0.attn_q.weight", "v.blk.0.ln1.bias", "v.blk.0.ffn.0.weight", "mm.0.weight"}
	for _, name := range extra {
		h.add(name, 3, 5)
	}
	require.Equal(t, extra, describe(t, h).Unused)
	for _, name := range []string{"blk.2.attn_q.weight", "blk.0.attn_qkv.weight", "blk.0.ffn_up.bias", "what.is.this"} { // leaving these out could give wrong numbers
		h.add(name, 3, 5)
		_, err := Describe(h)
		var e *Error
		require.ErrorAs(t, err, &e, name)
		require.ErrorIs(t, err, ErrUnsupported)
		require.Equal(t, name, e.Tensor)
		h.remove(name)
	}
}

// Case A31.
func TestHeadersWithoutAModelAreRefused(t *testing.T) {
	_, err := Describe(&header{kv: map[string]any{"general.architecture": "llama"}})
	require.ErrorIs(t, err, ErrMissing)
	require.EqualError(t, err, "arch: llama.block_count: required, but absent in m.gguf")

	_, err = Describe(&header{})
	require.ErrorIs(t, err, ErrMissing)
	_, err = Describe(&header{kv: map[string]any{"general.architecture": uint32(3)}})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = Describe(&header{kv: map[string]any{"general.architecture": "mamba"}})
	var unknown *UnknownArchError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, "mamba", unknown.Arch)
	require.ErrorContains(t, err, "want one of exaone4, gemma, gemma2, gemma3, ")

	for key, vals := range map[string][]any{
		"llama.block_count":                      {uint32(0), "2", uint32(1 << 30), int32(-1), uint64(math.MaxUint64), []int32{2}},
		"llama.context_length":                   {uint32(0), float32(256), uint32(1 << 31)},
		"llama.embedding_length":                 {uint32(0), true, uint32(1 << 31)},
		"llama.attention.head_count":             {uint32(0), int32(-8), "8", uint32(7), uint32(1 << 30)},
		"llama.attention.head_count_kv":          {uint32(0), uint32(3), uint32(16), "4"},
		"llama.feed_forward_length":              {uint32(0), uint32(1 << 31)},
		"llama.attention.layer_norm_rms_epsilon": {float32(0), float32(-1), float32(math.NaN()), float32(math.Inf(1)), "1e-5"},
		"llama.rope.freq_base":                   {float32(0), float32(-1), float32(math.NaN()), "x"},
		"llama.rope.dimension_count":             {uint32(0), uint32(7), uint32(10)},
		"llama.rope.scaling.factor":              {float32(-1), float32(1e-10), float32(math.Inf(1))},
		"llama.attention.key_length":             {uint32(0), uint32(1 << 31)},
		"llama.attention.scale":                  {float32(0), float32(math.NaN())},
		"llama.vocab_size":                       {},
		"tokenizer.ggml.tokens":                  {[]string{}, []int32{1}, "x"},
	} {
		for _, v := range vals {
			h := tiny()
			h.kv[key] = v
			m, err := Describe(h)
			require.Nil(t, m, "%s = %v", key, v)
			var e *Error
			require.ErrorAs(t, err, &e, "%s = %v", key, v)
			require.ErrorIs(t, err, ErrInvalid, "%s = %v", key, v)
			require.True(t, strings.HasPrefix(e.Key, key) || key == "llama.attention.head_count_kv", "%s = %v: %v", key, v, err)
		}
	}
}

// Whatever a header says, Describe answers or refuses; it never panics, and what it answers is sound.
func TestDescribeAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.SampledFrom([]func() *header{tiny, gemma}).Draw(t, "model")()
		keys := slices.Sorted(maps.Keys(h.kv))
		keys = append(keys, "llama.expert_count", "llama.rope.scaling.type", "gemma3.attention.sliding_window_pattern", "llama.rope.dimension_count")
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			h.kv[rapid.SampledFrom(keys).Draw(t, "key")] = rapid.OneOf(
				rapid.Uint32Range(0, 64).AsAny(), rapid.Uint32().AsAny(), rapid.Int32().AsAny(), rapid.Uint64().AsAny(), rapid.Float32().AsAny(), rapid.Bool().AsAny(),
				rapid.SampledFrom([]any{"llama", "gemma3", "qwen2", "yarn", ""}), rapid.SliceOfN(rapid.Int32Range(0, 8), 0, 8).AsAny(),
				rapid.SliceOfN(rapid.String(), 0, 3).AsAny()).Draw(t, "value")
		}
		m, err := Describe(h)
		if err != nil {
			var e *Error
			var missing *MissingTensorsError
			var unknown *UnknownArchError
			require.True(t, errors.As(err, &e) || errors.As(err, &missing) || errors.As(err, &unknown))
			return
		}
		kv := KV{Context: m.Context, Chunk: 512, Sequences: 2}
		_, err = m.KVBytes(kv, tensor.Dense(tensor.F16))
		require.NoError(t, err)
		require.Positive(t, m.LayerBytes(512, 1, true))
		for _, l := range m.Layers {
			require.True(t, l.Heads == 0 || l.KVHeads > 0 && l.Heads%l.KVHeads == 0 && l.KeyDim > 0 && l.Rope.Dims%2 == 0 && l.AttnScale > 0)
		}
	})
}

func TestCaches(t *testing.T) {
	l := &Layer{Heads: 8, KVHeads: 4, KeyDim: 16, ValueDim: 8}
	for _, c := range []struct{ window, ctx, chunk, want int }{
		{0, 4096, 512, 4096}, {0, 4097, 512, 4128}, {0, 1, 1, 32}, {512, 4096, 512, 1024}, {512, 4096, 1, 544}, {512, 600, 512, 608}, {5000, 4096, 512, 4096},
	} {
		l.Window = c.window
		kv := KV{Context: c.ctx, Chunk: c.chunk, Sequences: 3}
		require.Equal(t, c.want, l.Capacity(kv))
		k, v, ok := l.Caches(kv)
		require.True(t, ok)
		require.Equal(t, tensor.ShapeOf(3, 4, int64(c.want), 16), k)
		require.Equal(t, tensor.ShapeOf(3, 4, int64(c.want), 8), v)
	}
	m := &Geometry{Layers: []Layer{{Heads: 8, KVHeads: 4, KeyDim: 16, ValueDim: 8}, {}, {Heads: 8, KVHeads: 4, KeyDim: 16, ValueDim: 8, Window: 32}}}
	kv := KV{Context: 128, Chunk: 32, Sequences: 1}
	n, err := m.KVBytes(kv, tensor.Dense(tensor.F16))
	require.NoError(t, err)
	require.EqualValues(t, 2*4*(128+64)*(16+8), n)
	_, err = m.KVBytes(kv, tensor.FormatOf(tensor.Q8_0)) // heads of 16 are no whole block of 32
	require.Error(t, err)
	_, err = m.KVBytes(KV{Context: math.MaxInt32, Chunk: 1, Sequences: math.MaxInt32}, tensor.Dense(tensor.F64))
	require.Error(t, err)
}

func TestLayerBytes(t *testing.T) {
	m := describe(t, tiny())
	// By hand, one token: every result padded to 64 bytes.
	a8 := func(n int) int { return (n + 127) / 128 * 160 }
	pad := func(n int) int { return (n + 63) / 64 * 64 }
	layer := 2*256 + pad(a8(64)) + (256 + 128 + 128) + (256 + 128) + 256 + pad(a8(64)) + 256 + // attention
		2*256 + pad(a8(64)) + 3*384 + pad(a8(96)) + 256 // feed-forward
	require.EqualValues(t, layer, m.LayerBytes(1, 1, true))
	require.EqualValues(t, layer-3*pad(a8(64))-pad(a8(96)), m.LayerBytes(1, 1, false))
	require.EqualValues(t, 100*2*256+pad(100*200)+pad(100*a8(64)), m.LayerBytes(1, 100, true))
	require.Less(t, describe(t, tiny()).LayerBytes(8, 1, true), describe(t, gemma()).LayerBytes(8, 1, true))
	huge := &Geometry{Width: maxWidth, Vocab: maxVocab, Layers: make([]Layer, maxLayers), ExpertsUsed: maxExperts}
	for i := range huge.Layers {
		huge.Layers[i] = Layer{Heads: maxHeads, KVHeads: maxHeads, KeyDim: maxHeadDim, ValueDim: maxHeadDim, FF: maxFF}
	}
	require.EqualValues(t, math.MaxInt64, huge.LayerBytes(math.MaxInt32, math.MaxInt32, true))
}

func TestKinds(t *testing.T) {
	for k := range Kind(13) {
		require.True(t, k.Valid())
		require.NotContains(t, k.String(), "kind")
	}
	require.Equal(t, []any{"u8", "string", "f64", 8, 0, 1}, []any{Uint8.String(), String.String(), Float64.String(), Int64.Size(), Array.Size(), Bool.Size()})
	require.False(t, Kind(13).Valid())
	require.Zero(t, Kind(13).Size())
	require.Equal(t, "kind 13", Kind(13).String())
	known, unknown := TensorInfo{Encoding: tensor.Q4_K, Type: 12}, TensorInfo{Encoding: UnknownEncoding, Type: 1000}
	require.Equal(t, "Q4_K", known.TypeName())
	require.Equal(t, "type 1000", unknown.TypeName())
}
