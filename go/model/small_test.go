package model

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/tensor"
)

// small is a random model of a family, as a file says it and as the reference computes it.
type small struct {
	arch    string
	kv      map[string]any
	names   []string
	shapes  map[string][]int
	weights map[string][]float32
	facts   facts64
}

// facts64 is what the reference needs to know. None of it comes from package arch.
type facts64 struct {
	layers, width, heads, kvHeads, dim, ff, vocab int
	eps, embed, score, scoreCap, logitCap         float64
	dims                                          int // that rotate
	neox, gelu, qkNorm, postNorms                 bool
	window                                        int
	local                                         func(i int) bool // sees the window; nil: all layers do
	base, localBase                               float64
	factor, attn, ext, fast, slow, original       float64 // scaling; ext 0: linear
}

func newSmall(family string) *small {
	s := &small{arch: family, shapes: map[string][]int{}, weights: map[string][]float32{}}
	f := &s.facts
	*f = facts64{layers: 2, width: 64, heads: 4, kvHeads: 2, dim: 16, ff: 96, vocab: 260, eps: 1e-5, embed: 1, score: 0.25, dims: 16,
		neox: true, base: 10_000, localBase: 10_000, factor: 1, attn: 1, fast: 32, slow: 1, original: 256}
	s.kv = map[string]any{
		"general.architecture": family, family + ".block_count": uint32(2), family + ".context_length": uint32(256),
		family + ".embedding_length": uint32(64), family + ".feed_forward_length": uint32(96),
		family + ".attention.head_count": uint32(4), family + ".attention.head_count_kv": uint32(2),
		family + ".attention.layer_norm_rms_epsilon": float32(1e-5),
	}
	tokens, types := []string{"<unk>", "<s>", "</s>"}, []int32{2, 3, 3}
	for b := range 256 {
		tokens, types = append(tokens, fmt.Sprintf("<0x%02X>", b)), append(types, 6)
	}
	tokens, types = append(tokens, "<|extra|>"), append(types, 3)
	maps.Copy(s.kv, map[string]any{"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types,
		"tokenizer.ggml.scores": make([]float32, len(tokens)), "tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": uint32(2),
		"tokenizer.ggml.unknown_token_id": uint32(0), "tokenizer.ggml.add_bos_token": true, "tokenizer.ggml.add_space_prefix": false})
	switch family {
	case "llama":
		f.neox = false
	case "qwen3":
		f.qkNorm = true
	case "gemma3":
		f.layers, f.qkNorm, f.postNorms, f.gelu, f.embed, f.window, f.base = 7, true, true, true, 8, 6, 1e6
		f.local = func(i int) bool { return i%6 != 5 }
		s.kv["gemma3.block_count"], s.kv["gemma3.attention.sliding_window"] = uint32(7), uint32(6)
	}
	random := rand.New(rand.NewPCG(5, 6))
	add := func(name string, dims ...int) {
		n := 1
		for _, d := range dims {
			n *= d
		}
		w := make([]float32, n)
		for i := range w {
			switch {
			case strings.HasSuffix(name, ".bias"):
				w[i] = float32(random.NormFloat64() * 0.3)
			case len(dims) == 1:
				w[i] = float32(1 + random.NormFloat64()*0.2)
			default:
				w[i] = float32(random.NormFloat64() * 1.5 / math.Sqrt(float64(dims[1])))
			}
		}
		s.names, s.shapes[name], s.weights[name] = append(s.names, name), dims, w
	}
	add("token_embd.weight", f.vocab, f.width)
	add("output_norm.weight", f.width)
	add("output.weight", f.vocab, f.width)
	for i := range f.layers {
		at := func(name string) string { return fmt.Sprintf("blk.%d.%s", i, name) }
		q, kv := f.heads*f.dim, f.kvHeads*f.dim
		add(at("attn_norm.weight"), f.width)
		add(at("attn_q.weight"), q, f.width)
		add(at("attn_k.weight"), kv, f.width)
		add(at("attn_v.weight"), kv, f.width)
		add(at("attn_output.weight"), f.width, q)
		add(at("ffn_norm.weight"), f.width)
		add(at("ffn_gate.weight"), f.ff, f.width)
		add(at("ffn_up.weight"), f.ff, f.width)
		add(at("ffn_down.weight"), f.width, f.ff)
		if family == "qwen2" {
			add(at("attn_q.bias"), q)
			add(at("attn_k.bias"), kv)
			add(at("attn_v.bias"), kv)
		}
		if f.qkNorm {
			add(at("attn_q_norm.weight"), f.dim)
			add(at("attn_k_norm.weight"), f.dim)
		}
		if f.postNorms {
			add(at("post_attention_norm.weight"), f.width)
			add(at("post_ffw_norm.weight"), f.width)
		}
	}
	return s
}

// file is the model as a GGUF file, with other metadata (nil takes a key away) and with further tensors of one row.
func (s *small) file(t testing.TB, other map[string]any, more ...string) []byte {
	kv := maps.Clone(s.kv)
	maps.Copy(kv, other)
	var h gguf.Header
	for _, key := range slices.Sorted(maps.Keys(kv)) {
		if kv[key] != nil {
			h.Metadata = append(h.Metadata, gguf.Pair{Key: key, Value: valueOf(kv[key])})
		}
	}
	names := slices.Concat(s.names, more)
	for _, name := range names {
		dims := []int64{3}
		if d, ok := s.shapes[name]; ok {
			dims = nil
			for _, n := range d {
				dims = append(dims, int64(n))
			}
		}
		h.Tensors = append(h.Tensors, gguf.TensorSpec{Name: name, Encoding: tensor.EncF32, Shape: tensor.ShapeOf(dims...)})
	}
	var out bytes.Buffer
	w, err := gguf.NewWriter(&out, h)
	require.NoError(t, err)
	for _, name := range names {
		to, err := w.Tensor(name)
		require.NoError(t, err)
		values, ok := s.weights[name]
		if !ok {
			values = []float32{3, 3, 3}
		}
		require.NoError(t, binary.Write(to, binary.LittleEndian, values))
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func valueOf(v any) arch.Value {
	switch v := v.(type) {
	case string:
		return gguf.TextOf(v)
	case bool:
		return gguf.NumberOf(v)
	case uint32:
		return gguf.NumberOf(v)
	case float32:
		return gguf.NumberOf(v)
	case []string:
		return gguf.TextsOf(v)
	case []int32:
		return gguf.NumbersOf(v)
	case []float32:
		return gguf.NumbersOf(v)
	case []bool:
		return gguf.NumbersOf(v)
	}
	panic(fmt.Sprintf("no metadata of %T", v))
}

// prompt is longer than gemma3's window.
var prompt = []int32{1, 104, 51, 19, 230, 77, 77, 12, 5, 140, 201, 33, 90, 61, 8, 17, 250, 99, 3, 44}

// logits opens the file and computes what follows the prompt, in exact mode.
func (s *small) logits(t testing.TB, other map[string]any, more ...string) ([]float32, error) {
	m, err := OpenBytes(context.Background(), "small", s.file(t, other, more...), Options{Exact: true, Threads: 1, Context: 32})
	if err != nil {
		require.Nil(t, m)
		return nil, err
	}
	defer func() { require.NoError(t, m.Close()) }()
	session, err := m.NewSession()
	require.NoError(t, err)
	logits, err := session.Append(context.Background(), prompt...)
	require.NoError(t, err)
	logits = slices.Clone(logits)
	require.NoError(t, session.Close())
	return logits, nil
}

// reference64 computes what follows the prompt in float64, one position after the other and by the definitions.
func (s *small) reference64(f facts64) []float64 {
	w := func(name string, layer int) []float32 {
		if layer >= 0 {
			name = fmt.Sprintf("blk.%d.%s", layer, name)
		}
		return s.weights[name]
	}
	mul := func(x []float64, weight, bias []float32) []float64 {
		y := make([]float64, len(weight)/len(x))
		for o := range y {
			for i := range x {
				y[o] += x[i] * float64(weight[o*len(x)+i])
			}
			if bias != nil {
				y[o] += float64(bias[o])
			}
		}
		return y
	}
	norm := func(x []float64, weight []float32) []float64 {
		sum := 0.0
		for _, v := range x {
			sum += v * v
		}
		y := make([]float64, len(x))
		for i := range x {
			y[i] = x[i] / math.Sqrt(sum/float64(len(x))+f.eps) * float64(weight[i])
		}
		return y
	}
	cap := func(x, bound float64) float64 {
		if bound > 0 {
			return bound * math.Tanh(x/bound)
		}
		return x
	}
	rotate := func(x []float64, position int, local bool) {
		base, factor, attn, ext := f.base, f.factor, f.attn, f.ext
		if local {
			base, factor, attn, ext = f.localBase, 1, 1, 0
		}
		pair := func(rotations float64) float64 { // the frequency that turns so often within the original length
			return float64(f.dims) * math.Log(f.original/(rotations*2*math.Pi)) / (2 * math.Log(base))
		}
		low, high := max(0, math.Floor(pair(f.fast))), min(float64(f.dims-1), math.Ceil(pair(f.slow)))
		for i := range f.dims / 2 {
			whole := float64(position) * math.Pow(base, -2*float64(i)/float64(f.dims))
			keep := ext * (1 - min(1, max(0, (float64(i)-low)/max(1e-3, high-low))))
			angle := whole/factor*(1-keep) + whole*keep
			a, b := 2*i, 2*i+1
			if f.neox {
				a, b = i, i+f.dims/2
			}
			sin, cos := math.Sincos(angle)
			x[a], x[b] = attn*(x[a]*cos-x[b]*sin), attn*(x[a]*sin+x[b]*cos)
		}
	}
	n := len(prompt)
	stream := make([][]float64, n)
	for p, id := range prompt {
		for i := range f.width {
			stream[p] = append(stream[p], float64(s.weights["token_embd.weight"][int(id)*f.width+i])*f.embed)
		}
	}
	for l := range f.layers {
		local := f.local != nil && f.window > 0 && f.local(l)
		window := f.window
		if f.local != nil && !f.local(l) {
			window = 0
		}
		queries, keys, values := make([][]float64, n), make([][]float64, n), make([][]float64, n)
		for p := range n {
			x := norm(stream[p], w("attn_norm.weight", l))
			queries[p] = mul(x, w("attn_q.weight", l), w("attn_q.bias", l))
			keys[p] = mul(x, w("attn_k.weight", l), w("attn_k.bias", l))
			values[p] = mul(x, w("attn_v.weight", l), w("attn_v.bias", l))
			for _, part := range []struct {
				x    []float64
				norm string
			}{{queries[p], "attn_q_norm.weight"}, {keys[p], "attn_k_norm.weight"}} {
				for h := 0; h < len(part.x); h += f.dim {
					head := part.x[h : h+f.dim]
					if f.qkNorm {
						copy(head, norm(head, w(part.norm, l)))
					}
					rotate(head, p, local)
				}
			}
		}
		for p := range n {
			all := make([]float64, f.heads*f.dim)
			for h := range f.heads {
				kv := h / (f.heads / f.kvHeads) * f.dim
				scores, total := map[int]float64{}, 0.0
				for k := range n {
					if k > p || window > 0 && k <= p-window {
						continue
					}
					score := 0.0
					for i := range f.dim {
						score += queries[p][h*f.dim+i] * keys[k][kv+i]
					}
					scores[k] = math.Exp(cap(score*f.score, f.scoreCap))
					total += scores[k]
				}
				for k, e := range scores {
					for i := range f.dim {
						all[h*f.dim+i] += e / total * values[k][kv+i]
					}
				}
			}
			x := mul(all, w("attn_output.weight", l), nil)
			if f.postNorms {
				x = norm(x, w("post_attention_norm.weight", l))
			}
			for i := range x {
				stream[p][i] += x[i]
			}
			x = norm(stream[p], w("ffn_norm.weight", l))
			gate, up := mul(x, w("ffn_gate.weight", l), nil), mul(x, w("ffn_up.weight", l), nil)
			for i, g := range gate {
				if f.gelu {
					gate[i] = g / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g))) * up[i]
				} else {
					gate[i] = g / (1 + math.Exp(-g)) * up[i]
				}
			}
			x = mul(gate, w("ffn_down.weight", l), nil)
			if f.postNorms {
				x = norm(x, w("post_ffw_norm.weight", l))
			}
			for i := range x {
				stream[p][i] += x[i]
			}
		}
	}
	logits := mul(norm(stream[n-1], s.weights["output_norm.weight"]), s.weights["output.weight"], nil)
	for i := range logits {
		logits[i] = cap(logits[i], f.logitCap)
	}
	return logits
}

// distance is the largest difference of logits, which have a deviation of about 1.5.
func distance(a []float32, b []float64) (d float64) {
	for i := range a {
		d = max(d, math.Abs(float64(a[i])-b[i]))
	}
	return d
}
