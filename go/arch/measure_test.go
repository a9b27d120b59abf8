package arch

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/skeep-project/skeep/go/tensor"
)

// bare is a header without tensors. Keys have no prefix.
func bare(architecture string, kv map[string]any) *header {
	h := &header{kv: map[string]any{"general.architecture": architecture}}
	for key, v := range kv {
		h.kv[architecture+"."+key] = v
	}
	return h
}

func measureOf(t *testing.T, h Header) *Sizes {
	t.Helper()
	s, err := Measure(h)
	require.NoError(t, err)
	return s
}

// kvBytes are the caches of one sequence with chunks of 512 tokens.
func kvBytes(t *testing.T, g *Geometry, context int, e tensor.Encoding) int64 {
	t.Helper()
	n, err := g.KVBytes(KV{Context: context, Chunk: 512, Sequences: 1}, tensor.FormatOf(e))
	require.NoError(t, err)
	return n
}

func (s *Sizes) assumed() (keys []string) {
	for _, a := range s.Assumptions {
		keys = append(keys, a.Key+"="+a.Value)
	}
	return keys
}

// Case D01.
func TestLatentAttentionKeepsOneRowPerToken(t *testing.T) {
	kv := map[string]any{"block_count": uint32(4), "context_length": uint32(163840), "embedding_length": uint32(2048), "vocab_size": uint32(100),
		"feed_forward_length": uint32(10944), "attention.head_count": uint32(16), "attention.head_count_kv": uint32(1), "attention.kv_lora_rank": uint32(512),
		"attention.key_length": uint32(576), "attention.value_length": uint32(512), "attention.key_length_mla": uint32(192),
		"attention.value_length_mla": uint32(128), "rope.dimension_count": uint32(64)}
	s := measureOf(t, bare("deepseek2", kv))
	require.EqualValues(t, 4*32768*(512+64)*2, kvBytes(t, &s.Geometry, 32768, tensor.EncF16))
	require.Equal(t, "context × (512 latent + 64 rotated)", s.Layers[0].Formula())
	require.Empty(t, s.Assumptions)

	// As older files state it: whole heads are kept.
	maps.Copy(kv, map[string]any{"attention.head_count_kv": uint32(16), "attention.key_length": uint32(192), "attention.value_length": uint32(128)})
	delete(kv, "attention.key_length_mla")
	delete(kv, "attention.value_length_mla")
	s = measureOf(t, bare("deepseek2", kv))
	require.EqualValues(t, 4*32768*16*(192+128)*2, kvBytes(t, &s.Geometry, 32768, tensor.EncF16))
	require.Equal(t, "context × 16 KV heads × (192 + 128)", s.Layers[0].Formula())
	require.Equal(t, []string{"deepseek2.attention.key_length_mla=(absent)"}, s.assumed())
}

func windowed() map[string]any {
	return map[string]any{"block_count": uint32(12), "context_length": uint32(131072), "embedding_length": uint32(1152), "vocab_size": uint32(100),
		"feed_forward_length": uint32(6912), "attention.head_count": uint32(4), "attention.head_count_kv": uint32(1), "attention.key_length": uint32(256),
		"attention.value_length": uint32(256), "attention.sliding_window": uint32(512)}
}

// Case D02.
func TestWindowsKeepARing(t *testing.T) {
	s := measureOf(t, bare("gemma3", windowed()))
	require.EqualValues(t, (2*131072+10*1024)*(256+256)*2, kvBytes(t, &s.Geometry, 131072, tensor.EncF16))
	require.Equal(t, []string{"gemma3.attention.sliding_window_pattern=6"}, s.assumed())
	require.Equal(t, "min(context, 512 + chunk) × 1 KV heads × (256 + 256)", s.Layers[0].Formula())
	require.EqualValues(t, 12*128*(256+256)*2, kvBytes(t, &s.Geometry, 100, tensor.EncF16)) // rounded up to 32
	for name, full := range map[string][]int{"gemma2": {1, 3, 5, 7, 9, 11}, "gpt-oss": {1, 3, 5, 7, 9, 11}, "gemma3n": {4, 9}, "gemma4": {5, 11}, "llama4": {3, 7, 11}, "phi3": nil} {
		s := measureOf(t, bare(name, windowed()))
		for i, l := range s.Layers {
			require.Equal(t, !slices.Contains(full, i), l.Window == 512, "%s, layer %d", name, i)
		}
	}
	// What the architecture has when the file does not say, and what the file says before that.
	kv := windowed()
	delete(kv, "attention.sliding_window")
	require.Equal(t, 8192, measureOf(t, bare("llama4", kv)).Layers[0].Window)
	require.Equal(t, []string{"gemma2.attention.sliding_window=4096", "gemma2.attention.sliding_window_pattern=2"}, measureOf(t, bare("gemma2", kv)).assumed())
	kv["attention.sliding_window"], kv["attention.sliding_window_pattern"] = uint32(100), slices.Repeat([]bool{false, false, true}, 4)
	kv["attention.key_length_swa"], kv["attention.value_length_swa"] = uint32(64), uint32(32)
	s = measureOf(t, bare("gemma4", kv))
	require.EqualValues(t, (8*131072*(256+256)+4*640*(64+32))*2, kvBytes(t, &s.Geometry, 131072, tensor.EncF16))
	require.Empty(t, s.Assumptions)
}

// Case D04.
func TestHeadsOfEachLayerAreAnArray(t *testing.T) {
	s := measureOf(t, bare("lfm2", map[string]any{"block_count": uint32(16), "context_length": uint32(128000), "embedding_length": uint32(2048),
		"vocab_size": uint32(100), "feed_forward_length": uint32(8192), "attention.head_count": uint32(32), "shortconv.l_cache": uint32(3),
		"attention.head_count_kv": []int32{0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0}}))
	require.EqualValues(t, 402653184, kvBytes(t, &s.Geometry, 32768, tensor.EncF16))
	n, err := s.StateBytes(KV{Context: 32768, Chunk: 512, Sequences: 3})
	require.NoError(t, err)
	require.EqualValues(t, 3*10*2*2048*4, n)
	require.Equal(t, "convolution 2 × 2048 in F32", s.Layers[0].Formula())
	require.Equal(t, []string{"lfm2.attention.key_length=64", "lfm2.attention.value_length=64"}, s.assumed())
}

// Case D05.
func TestRecurrentLayersKeepAFixedState(t *testing.T) {
	kv := map[string]any{"block_count": uint32(48), "context_length": uint32(262144), "embedding_length": uint32(2048), "vocab_size": uint32(100),
		"feed_forward_length": uint32(5120), "attention.head_count": uint32(16), "attention.head_count_kv": uint32(2), "attention.key_length": uint32(256),
		"attention.value_length": uint32(256), "full_attention_interval": uint32(4), "ssm.conv_kernel": uint32(4), "ssm.inner_size": uint32(4096),
		"ssm.state_size": uint32(128), "ssm.group_count": uint32(16)}
	one := KV{Context: 8192, Chunk: 512, Sequences: 1}
	check := func(name string, layers, recurrent int64) {
		s := measureOf(t, bare(name, kv))
		require.EqualValues(t, layers*8192*2*256*2*2, kvBytes(t, &s.Geometry, 8192, tensor.EncF16), name)
		n, err := s.StateBytes(one)
		require.NoError(t, err)
		require.EqualValues(t, recurrent*(3*(4096+2*16*128)+128*4096)*4, n, name)
		require.Empty(t, s.Unknown)
	}
	check("qwen3next", 12, 36)
	s := measureOf(t, bare("qwen3next", kv))
	require.Equal(t, "convolution 3 × 8192 in F32, state 128 × 4096 in F32", s.Layers[0].Formula())
	require.Equal(t, "context × 2 KV heads × (256 + 256)", s.Layers[3].Formula())
	delete(kv, "full_attention_interval")
	check("qwen3next", 12, 36)
	require.Equal(t, []string{"qwen3next.full_attention_interval=4"}, measureOf(t, bare("qwen3next", kv)).assumed())
	kv["attention.recurrent_layers"] = append(make([]bool, 47), true)
	check("qwen3next", 47, 1)
	delete(kv, "attention.recurrent_layers")

	heads := make([]int32, 48) // zeros stand for recurrent layers
	for i := 5; i < 48; i += 6 {
		heads[i] = 2
	}
	kv["attention.head_count_kv"] = heads
	check("granitehybrid", 8, 40)
	check("falcon-h1", 8, 48)
	delete(kv, "attention.head_count_kv")
	kv["attention.head_count"] = uint32(0)
	check("mamba2", 0, 48)

	delete(kv, "ssm.inner_size")
	require.Equal(t, []Unknown{{Term: "state", Key: "mamba.ssm.inner_size"}}, measureOf(t, bare("mamba", kv)).Unknown)
}

// Case D07.
func TestLayersThatShareCachesHaveNone(t *testing.T) {
	kv := map[string]any{"block_count": uint32(35), "context_length": uint32(32768), "embedding_length": uint32(2048), "vocab_size": uint32(100),
		"feed_forward_length": uint32(8192), "attention.head_count": uint32(8), "attention.head_count_kv": uint32(2), "attention.key_length": uint32(256),
		"attention.value_length": uint32(256), "attention.shared_kv_layers": uint32(15)}
	s := measureOf(t, bare("gemma3n", kv))
	require.EqualValues(t, 20*4096*2*256*2*2, kvBytes(t, &s.Geometry, 4096, tensor.EncF16))
	require.Equal(t, "the caches of an earlier layer", s.Layers[20].Formula())
	delete(kv, "attention.shared_kv_layers")
	s = measureOf(t, bare("gemma3n", kv))
	require.EqualValues(t, 20*4096*2*256*2*2, kvBytes(t, &s.Geometry, 4096, tensor.EncF16))
	require.Equal(t, []string{"gemma3n.attention.shared_kv_layers=15"}, s.assumed())
	require.EqualValues(t, 35*4096*2*256*2*2, func() int64 {
		s := measureOf(t, bare("gemma4", kv))
		return kvBytes(t, &s.Geometry, 4096, tensor.EncF16)
	}())
	kv["attention.shared_kv_layers"] = uint32(35)
	_, err := Measure(bare("gemma4", kv))
	require.ErrorIs(t, err, ErrInvalid)
}

// Case D08. Case D10.
func TestQuantizedCachesCountBlocks(t *testing.T) {
	g := &Geometry{Layers: []Layer{{Heads: 8, KVHeads: 8, KeyDim: 128, ValueDim: 128}}}
	for e, bytes := range map[tensor.Encoding]int64{tensor.Q8_0: 34, tensor.Q4_0: 18, tensor.Q5_1: 24, tensor.IQ4_NL: 18} {
		require.Equal(t, 2*4096*8*128*bytes/32, kvBytes(t, g, 4096, e), e)
	}
	for dim, whole := range map[int]bool{80: false, 96: true, 72: false} {
		l := Layer{Heads: 8, KVHeads: 8, KeyDim: dim, ValueDim: dim}
		n, err := l.KVBytes(KV{Context: 4096, Chunk: 512, Sequences: 1}, tensor.FormatOf(tensor.Q8_0))
		if !whole {
			var shape *tensor.ShapeError
			require.ErrorAs(t, err, &shape)
			continue
		}
		require.NoError(t, err)
		require.EqualValues(t, 2*4096*8*dim*34/32, n)
	}
}

// Case D12.
func TestWidthsOfHeadsAreReadBeforeTheyAreDerived(t *testing.T) {
	kv := map[string]any{"block_count": uint32(2), "context_length": uint32(4096), "embedding_length": uint32(1920), "vocab_size": uint32(100),
		"feed_forward_length": uint32(8192), "attention.head_count": uint32(8), "attention.key_length": uint32(256), "attention.value_length": uint32(128),
		"rope.dimension_count": uint32(64)}
	for _, name := range []string{"llama", "qwen2moe", "unheard-of"} {
		s := measureOf(t, bare(name, kv))
		require.EqualValues(t, 2*4096*8*(256+128)*2, kvBytes(t, &s.Geometry, 4096, tensor.EncF16))
		require.Equal(t, []string{name + ".attention.head_count_kv=(attention.head_count)"}, s.assumed())
	}
	delete(kv, "attention.key_length")
	delete(kv, "attention.value_length")
	s := measureOf(t, bare("llama", kv))
	require.EqualValues(t, 2*4096*8*(240+240)*2, kvBytes(t, &s.Geometry, 4096, tensor.EncF16))
}

// Case D22.
func TestUnknownArchitecturesHaveAnUpperBound(t *testing.T) {
	h := bare("unheard-of", windowed())
	s := measureOf(t, h)
	require.True(t, s.Bound)
	require.EqualValues(t, 12*131072*(256+256)*2, kvBytes(t, &s.Geometry, 131072, tensor.EncF16))
	require.Positive(t, s.LayerBytes(512, 1, true))
	for _, name := range append(slices.Sorted(maps.Keys(measured)), Architectures()...) { // none keeps more than if it were unknown
		kv := windowed()
		maps.Copy(kv, map[string]any{"attention.shared_kv_layers": uint32(3), "ssm.inner_size": uint32(64), "ssm.conv_kernel": uint32(4), "ssm.state_size": uint32(16),
			"attention.key_length_swa": uint32(512)})
		known, bound := measureOf(t, bare(name, kv)), measureOf(t, bare("unheard-of", kv))
		require.False(t, known.Bound, name)
		for i := range known.Layers {
			one := KV{Context: 131072, Chunk: 512, Sequences: 1}
			a, err := known.Layers[i].KVBytes(one, tensor.Dense(tensor.F16))
			require.NoError(t, err)
			b, err := bound.Layers[i].KVBytes(one, tensor.Dense(tensor.F16))
			require.NoError(t, err)
			require.LessOrEqual(t, a, b, name)
		}
	}

	// What is not stated is taken from the tensors, else it is named.
	h = tiny()
	h.kv = map[string]any{"general.architecture": "unheard-of"}
	s = measureOf(t, h)
	require.EqualValues(t, 2*4096*(32+32)*2, kvBytes(t, &s.Geometry, 4096, tensor.EncF16))
	require.Equal(t, []int{2, 64, 50, 96}, []int{len(s.Layers), s.Width, s.Vocab, s.Layers[1].FF})
	require.Equal(t, []string{"unheard-of.attention.head_count=(rows of attn_k.weight and attn_v.weight)", "unheard-of.block_count=2",
		"unheard-of.context_length=4096", "unheard-of.embedding_length=64"}, s.assumed())
	require.Empty(t, s.Unknown)
	s = measureOf(t, bare("unheard-of", map[string]any{"block_count": uint32(2)}))
	require.Equal(t, []Unknown{{"slab", "unheard-of.embedding_length"}, {"logits", "unheard-of.vocab_size"}, {"slab", "unheard-of.feed_forward_length"},
		{"kv", "unheard-of.attention.head_count"}, {"state", "unheard-of.ssm.inner_size"}}, s.Unknown)
}

// Case D22.
func TestWhatIsAssumedCanBeOverridden(t *testing.T) {
	h, err := Override(bare("gemma2", windowed()), map[string]string{"gemma2.attention.sliding_window_pattern": "false,true,true,true,true,true,true,true,true,true,true,true",
		"gemma2.attention.head_count_kv": "1,2,2,2,2,2,2,2,2,2,2,2", "gemma2.attention.sliding_window": "100"})
	require.NoError(t, err)
	s := measureOf(t, h)
	require.EqualValues(t, (131072+11*2*640)*(256+256)*2, kvBytes(t, &s.Geometry, 131072, tensor.EncF16))
	require.Empty(t, s.Assumptions)
	require.Len(t, slices.Collect(h.Keys()), len(windowed())+2)

	h, err = Override(tiny(), map[string]string{"llama.attention.layer_norm_rms_epsilon": "2e-5", "general.name": "other", "llama.attention.causal": "true"})
	require.NoError(t, err)
	m := describe(t, h)
	require.Equal(t, []any{"other", float32(2e-5)}, []any{m.Name, m.Eps})
	for _, text := range []string{"", "1,x", "true,2"} {
		_, err = Override(tiny(), map[string]string{"llama.block_count": text})
		require.ErrorIs(t, err, ErrInvalid, text)
		require.ErrorContains(t, err, "llama.block_count")
	}
	h, err = Override(tiny(), map[string]string{"llama.rope.freq_base": "10000,1.5"})
	require.NoError(t, err)
	v, _ := h.Value("llama.rope.freq_base")
	a, ok := v.Array()
	require.True(t, ok)
	require.Equal(t, Float64, a.Elem())
}

// Case A31.
func TestDegenerateHeadersAreNotMeasured(t *testing.T) {
	for _, kv := range []map[string]any{{}, {"block_count": uint32(0)}, {"block_count": "2"}, {"block_count": uint32(2), "attention.head_count": int32(-1)},
		{"block_count": uint32(2), "context_length": uint32(0)}, {"block_count": uint32(2), "attention.head_count_kv": []int32{1}},
		{"block_count": uint32(2), "attention.recurrent_layers": uint32(1)}} {
		for _, name := range []string{"llama", "unheard-of"} {
			_, err := Measure(bare(name, kv))
			var e *Error
			require.ErrorAs(t, err, &e, "%v", kv)
		}
	}
	s := measureOf(t, bare("llama", map[string]any{"block_count": uint32(2), "context_length": uint32(64), "embedding_length": uint32(64), "attention.head_count": uint32(0)}))
	require.Zero(t, kvBytes(t, &s.Geometry, 64, tensor.EncF16))
	_, err := Measure(&header{})
	require.ErrorIs(t, err, ErrMissing)
}

// The plan of a model that runs counts what a session allocates, and so does the one that reads nothing but sizes.
func TestMeasureAgreesWithDescribe(t *testing.T) {
	for _, h := range []*header{tiny(), gemma()} {
		d, lenient := describe(t, h), newMeasure(h)
		lenient.model()
		require.NoError(t, lenient.err)
		require.Equal(t, d.Geometry, measureOf(t, h).Geometry)
		m, s := &d.Geometry, &lenient.Geometry
		require.Equal(t, []any{m.Arch, m.Context, m.Width, m.Vocab, m.Experts, m.LayerBytes(512, 1, true)}, []any{s.Arch, s.Context, s.Width, s.Vocab, s.Experts, s.LayerBytes(512, 1, true)})
		for i := range m.Layers {
			kv := KV{Context: 4096, Chunk: 512, Sequences: 2}
			k, v, _ := m.Layers[i].Caches(kv)
			k2, v2, _ := s.Layers[i].Caches(kv)
			require.Equal(t, []tensor.Shape{k, v}, []tensor.Shape{k2, v2})
		}
	}
	for _, name := range Architectures() {
		require.NotContains(t, measured, name) // its family says it
	}
}

// Experts: the widest feed-forward part of a token, shared experts and leading dense layers included.
func TestMeasureCountsExperts(t *testing.T) {
	kv := windowed()
	maps.Copy(kv, map[string]any{"expert_count": uint32(64), "expert_used_count": uint32(6), "expert_feed_forward_length": uint32(1408),
		"expert_shared_count": uint32(2), "leading_dense_block_count": uint32(1)})
	s := measureOf(t, bare("deepseek2", kv))
	require.Equal(t, []int{64, 6, (8*1408 + 5) / 6, (8*1408 + 5) / 6}, []int{s.Experts, s.ExpertsUsed, s.Layers[0].FF, s.Layers[1].FF})
	kv["feed_forward_length"] = uint32(60000)
	require.Equal(t, 10000, measureOf(t, bare("deepseek2", kv)).Layers[0].FF)
	delete(kv, "expert_used_count")
	require.Equal(t, 64, measureOf(t, bare("deepseek2", kv)).ExpertsUsed)
}

// Case D11. Whatever a header says, Measure answers or refuses, the total is the sum of the layers, and nothing is negative.
func TestMeasureAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(append(slices.Sorted(maps.Keys(measured)), append(Architectures(), "unheard-of")...)).Draw(t, "architecture")
		h := bare(name, windowed())
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			key := name + "." + rapid.SampledFrom(sizeKeys).Draw(t, "key").Name
			h.kv[key] = rapid.OneOf(rapid.Uint32Range(0, 64).AsAny(), rapid.Uint32().AsAny(), rapid.Int32().AsAny(), rapid.Uint64().AsAny(), rapid.Float32().AsAny(),
				rapid.Bool().AsAny(), rapid.Just(any("x")), rapid.SliceOfN(rapid.Int32Range(0, 8), 0, 13).AsAny(),
				rapid.SliceOfN(rapid.Bool(), 12, 12).AsAny()).Draw(t, "value")
			if rapid.Bool().Draw(t, "absent") {
				delete(h.kv, key)
			}
		}
		s, err := Measure(h)
		if err != nil {
			var e *Error
			require.ErrorAs(t, err, &e)
			return
		}
		kv := KV{Context: s.Context, Chunk: 512, Sequences: 2}
		total, err := s.KVBytes(kv, tensor.Dense(tensor.F16))
		require.NoError(t, err)
		state, err := s.StateBytes(kv)
		require.NoError(t, err)
		require.GreaterOrEqual(t, s.LayerBytes(512, 1, true), int64(0))
		var sum, states int64
		for i := range s.Layers {
			n, err := s.Layers[i].KVBytes(kv, tensor.Dense(tensor.F16))
			require.NoError(t, err)
			require.GreaterOrEqual(t, n, int64(0))
			sum += n
			n, err = s.Layers[i].StateBytes(kv)
			require.NoError(t, err)
			states += n
			require.NotEmpty(t, s.Layers[i].Formula())
		}
		require.Equal(t, []int64{sum, states}, []int64{total, state})
		for _, a := range s.Assumptions {
			require.True(t, strings.HasPrefix(a.Key, name+".") && a.Value != "" && a.Reason != "")
		}
	})
	_, err := (&Geometry{Layers: []Layer{{State: [2]tensor.Shape{tensor.ShapeOf(math.MaxInt32, math.MaxInt32)}}}}).StateBytes(KV{Sequences: 3})
	require.Error(t, err)
}
