package model

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/exec"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/tokenizer"
)

// gemmaLike is a random gemma3 model of three layers, of which the first two see a window (0: everything), with the
// embedded model's tokenizer. Elements of the tensors whose name contains large are multiplied by factor.
func gemmaLike(t testing.TB, window int, o Options, large string, factor float32) *Model {
	const width, ff, heads, dim, layers = 32, 48, 2, 16, 3
	from, err := gguf.Read(bytes.NewReader(embedded.Model()), int64(len(embedded.Model())), gguf.Options{})
	require.NoError(t, err)
	h := gguf.Header{}
	for _, pair := range gguf.HeaderOf(from).Metadata {
		if strings.HasPrefix(pair.Key, "tokenizer.") {
			h.Metadata = append(h.Metadata, pair)
		}
	}
	d, err := arch.Describe(from)
	require.NoError(t, err)
	vocab := int64(d.Vocab)
	h.Set("general.architecture", gguf.TextOf("gemma3"))
	for key, n := range map[string]int{"block_count": layers, "context_length": 1024, "embedding_length": width, "feed_forward_length": ff,
		"attention.head_count": heads, "attention.head_count_kv": 1, "attention.key_length": dim, "attention.value_length": dim,
		"attention.sliding_window": window, "attention.sliding_window_pattern": layers} {
		h.Set("gemma3."+key, gguf.NumberOf(uint32(n)))
	}
	h.Set("gemma3.attention.layer_norm_rms_epsilon", gguf.NumberOf(float32(1e-6)))
	h.Set("gemma3.rope.freq_base", gguf.NumberOf(float32(1e4)))
	add := func(name string, dims ...int64) {
		h.Tensors = append(h.Tensors, gguf.TensorSpec{Name: name + ".weight", Encoding: tensor.EncF32, Shape: tensor.ShapeOf(dims...)})
	}
	add("token_embd", vocab, width)
	add("output_norm", width)
	for i := range layers {
		blk := func(name string, dims ...int64) { add(fmt.Sprintf("blk.%d.%s", i, name), dims...) }
		for _, norm := range []string{"attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"} {
			blk(norm, width)
		}
		blk("attn_q_norm", dim)
		blk("attn_k_norm", dim)
		blk("attn_q", heads*dim, width)
		blk("attn_k", dim, width)
		blk("attn_v", dim, width)
		blk("attn_output", width, heads*dim)
		blk("ffn_gate", ff, width)
		blk("ffn_up", ff, width)
		blk("ffn_down", width, ff)
	}
	var file bytes.Buffer
	w, err := gguf.NewWriter(&file, h)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(3, 3))
	for _, spec := range h.Tensors {
		payload, err := w.Tensor(spec.Name)
		require.NoError(t, err)
		n, err := spec.Shape.Elements()
		require.NoError(t, err)
		b := make([]byte, 0, 4*n)
		for range n {
			x := float32(1)
			if spec.Shape.Rank > 1 {
				x = float32(r.NormFloat64()) / 4
			}
			if large != "" && strings.Contains(spec.Name, large) {
				x *= factor
			}
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		_, err = payload.Write(b)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	m, err := OpenBytes(context.Background(), "gemma-like", file.Bytes(), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := m.Close(); !errors.Is(err, skeep.ErrClosed) {
			require.NoError(t, err)
		}
	})
	return m
}

func randomIDs(r *rand.Rand, m *Model, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(r.IntN(m.arch.Vocab))
	}
	return ids
}

// What a ring holds follows from the highest position that was ever stored, not from the present one.
func TestSecondRewindBehindAWindowIsRefused(t *testing.T) {
	m := gemmaLike(t, 16, Options{Context: 512, Chunk: 32}, "", 1)
	s := session(t, m)
	_, err := s.Append(context.Background(), randomIDs(rand.New(rand.NewPCG(1, 1)), m, 300)...)
	require.NoError(t, err)
	require.NoError(t, s.Rewind(270))
	var refused *RewindError
	require.ErrorAs(t, s.Rewind(240), &refused)
	require.Equal(t, RewindError{Position: 270, To: 240, Window: 16, First: 225, Oldest: 300 - 64}, *refused)
	require.ErrorIs(t, refused, ErrOption)
	require.Equal(t, 270, s.Position())
	require.NoError(t, s.Rewind(0))
}

// failing computes until layer at, of which it makes an error.
type failing struct {
	exec.Context
	at int
}

func (f failing) Layer(i int) {
	f.Context.Layer(i)
	if i == f.at {
		f.Context.Add(View{}, View{})
	}
}

// countdown is canceled when it has been asked so many times.
type countdown struct {
	context.Context
	left *int
}

func (c countdown) Err() error {
	if *c.left--; *c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestRewindContinuesAsIfNothingHadBeen: after any sequence of appends, rewinds, steps that failed in some layer and
// prompts that were canceled between two steps, a token has the logits that a fresh session gives; and a rewind is refused
// exactly when a slot of a ring that the next token would see holds another position.
func TestRewindContinuesAsIfNothingHadBeen(t *testing.T) {
	const length = 200
	for _, window := range []int{0, 1, 5, 24} {
		m := gemmaLike(t, window, Options{Context: length, Chunk: 16, Exact: true, Threads: 1}, "", 1)
		forward, capacity := m.forward, m.arch.Layers[0].Capacity(m.kv)
		accepted, refused := 0, 0
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, uint64(window)))
			s := session(t, m)
			var sequence []int32
			slots := make([]int, capacity)
			tried := func(n int) { // tokens behind the sequence
				for p := len(sequence); p < len(sequence)+n; p++ {
					slots[p%capacity] = p
				}
			}
			for range 25 {
				ids := randomIDs(r, m, 1+r.IntN(50))
				if len(sequence)+len(ids) > length {
					require.ErrorAs(t, func() error { _, err := s.Append(context.Background(), ids...); return err }(), new(*ContextError))
					require.NoError(t, s.Rewind(0))
					sequence = nil
					continue
				}
				switch r.IntN(5) {
				case 0: // a step fails
					first := min(len(ids), m.kv.Chunk)
					m.forward = func(c exec.Context, n *Network, in Inputs) View {
						return forward(failing{c, 1 + r.IntN(2)}, n, in)
					}
					_, err := s.Append(context.Background(), ids...)
					m.forward = forward
					require.Error(t, err)
					tried(first)
				case 1: // canceled between steps
					steps := r.IntN(3)
					left := steps
					_, err := s.Append(countdown{context.Background(), &left}, ids...)
					n := min(len(ids), steps*m.kv.Chunk)
					if n < len(ids) {
						require.ErrorIs(t, err, context.Canceled)
					}
					tried(n)
					sequence = append(sequence, ids[:n]...)
				case 2, 3:
					n := len(sequence) - min(len(sequence), r.IntN(60))
					held := true
					for p := max(0, n-window+1); window > 0 && p < n; p++ {
						held = held && slots[p%capacity] == p
					}
					if err := s.Rewind(n); held {
						require.NoError(t, err)
						sequence = sequence[:n]
						accepted++
					} else {
						require.ErrorAs(t, err, new(*RewindError))
						refused++
					}
				default:
					_, err := s.Append(context.Background(), ids...)
					require.NoError(t, err)
					tried(len(ids))
					sequence = append(sequence, ids...)
				}
				require.Equal(t, len(sequence), s.Position())
				if len(sequence) == 0 || len(sequence) == length {
					continue
				}
				next := randomIDs(r, m, 1)
				got, err := s.Append(context.Background(), next...)
				require.NoError(t, err)
				tried(1)
				sequence = append(sequence, next...)
				fresh := session(t, m)
				want, err := fresh.Append(context.Background(), sequence...)
				require.NoError(t, err)
				require.InDeltaSlice(t, want, got, 1e-4, "window %d, seed %d, position %d", window, seed, len(sequence))
				require.NoError(t, fresh.Close())
			}
			require.NoError(t, s.Close())
		}
		require.Positive(t, accepted)
		require.Equal(t, window > 1, refused > 0, "window %d", window)
	}
}

func TestSecondRangeIsAnError(t *testing.T) {
	m := tiny(t, Options{})
	s := session(t, m)
	tokens := func(g iter.Seq2[Token, error]) (n int, last error) {
		for _, err := range g {
			n++
			last = err
		}
		return n, last
	}
	g := s.Generate(context.Background(), []int32{1, 52, 53}, GenerateOptions{MaxTokens: 3})
	_, err := tokens(g)
	require.NoError(t, err)
	at := s.Position()
	n, err := tokens(g)
	require.Equal(t, 1, n)
	require.ErrorIs(t, err, ErrRanged)
	require.Equal(t, at, s.Position(), "nothing was computed")
	// A loop that was left is no less a range.
	g = s.Generate(context.Background(), []int32{54}, GenerateOptions{})
	for range g {
		break
	}
	_, err = tokens(g)
	require.ErrorIs(t, err, ErrRanged)
	// A model's generation has a session of its own each time.
	own := m.Generate(context.Background(), "1+2=", GenerateOptions{MaxTokens: 2})
	first, err := tokens(own)
	require.NoError(t, err)
	again, err := tokens(own)
	require.NoError(t, err)
	require.Equal(t, first, again)
}

// held is the bytes outside of the Go heap that only a Close frees.
func held() int64 {
	c := skeep.Stats()
	return c.Bytes[tensor.OffHeap] - c.Ambient
}

// A session ends with its iterator, whatever ends the loop.
func TestSessionsEndWithTheirLoops(t *testing.T) {
	m := tiny(t, Options{})
	generation := func() iter.Seq2[Token, error] {
		return m.Generate(context.Background(), "12+34=", GenerateOptions{MaxTokens: 3})
	}
	for name, loop := range map[string]func(){
		"to its end": func() {
			for range generation() {
			}
		},
		"break": func() {
			for range generation() {
				break
			}
		},
		"panic": func() {
			defer func() { require.Equal(t, "in the loop", recover()) }()
			for range generation() {
				panic("in the loop")
			}
		},
		"goexit": func() {
			for range generation() {
				runtime.Goexit()
			}
		},
		"pulled": func() {
			next, stop := iter.Pull2(generation())
			next()
			stop()
		},
		"canceled": func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			for _, err := range m.Generate(ctx, "12+34=", GenerateOptions{}) {
				require.ErrorIs(t, err, context.Canceled)
			}
		},
	} {
		before := held()
		for range 100 {
			var done sync.WaitGroup
			done.Go(loop)
			done.Wait()
		}
		require.Equal(t, before, held(), name)
		require.Empty(t, m.sessions, name)
	}
}

// TestModelCloseEndsItsSessions: also one that nobody holds any more, and beside their own Close.
func TestModelCloseEndsItsSessions(t *testing.T) {
	before := held()
	m := tiny(t, Options{})
	next, stop := iter.Pull2(m.Generate(context.Background(), "12+34=", GenerateOptions{}))
	_, err, ok := next()
	require.NoError(t, err)
	require.True(t, ok)
	s := session(t, m)
	_, err = s.Append(context.Background(), 1, 2)
	require.NoError(t, err)
	var done sync.WaitGroup
	for range 4 {
		beside := session(t, m)
		done.Go(func() { require.NoError(t, beside.Close()) })
		done.Go(func() { require.Positive(t, m.Threads()) })
	}
	require.NoError(t, m.Close())
	done.Wait()
	require.Equal(t, before, held())
	_, err = s.Append(context.Background(), 3)
	require.ErrorIs(t, err, skeep.ErrClosed)
	_, err, _ = next()
	require.ErrorIs(t, err, skeep.ErrClosed)
	stop()
	for range 2 {
		require.NoError(t, s.Close())
	}
	require.Positive(t, m.Threads())
}

func TestSessionCloseIsIdempotent(t *testing.T) {
	s := session(t, tiny(t, Options{}))
	for range 3 {
		require.NoError(t, s.Close())
	}
	_, err := s.Append(context.Background(), 1)
	require.ErrorIs(t, err, skeep.ErrClosed)
}

// A factor of the rotation that is NaN is named; wider caches would not help, so nobody speaks of them.
func TestHintsOfCachesAreForCaches(t *testing.T) {
	in, err := gguf.Read(bytes.NewReader(embedded.Model()), int64(len(embedded.Model())), gguf.Options{})
	require.NoError(t, err)
	h := gguf.HeaderOf(in)
	dims, ok := in.Value("llama.rope.dimension_count")
	require.True(t, ok)
	n, _ := dims.Int()
	h.Tensors = append(h.Tensors, gguf.TensorSpec{Name: "rope_freqs.weight", Encoding: tensor.EncF32, Shape: tensor.ShapeOf(n / 2)})
	var file bytes.Buffer
	w, err := gguf.NewWriter(&file, h)
	require.NoError(t, err)
	for _, spec := range h.Tensors {
		to, err := w.Tensor(spec.Name)
		require.NoError(t, err)
		if spec.Name == "rope_freqs.weight" {
			_, err = to.Write(bytes.Repeat([]byte{0xff}, int(4*n/2)))
			require.NoError(t, err)
			continue
		}
		payload, err := in.Payload(spec.Name)
		require.NoError(t, err)
		_, err = io.Copy(to, io.NewSectionReader(payload, 0, payload.Size()))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	kv := tensor.EncF16
	m, err := OpenBytes(t.Context(), "nan", file.Bytes(), Options{KV: &kv})
	require.NoError(t, err)
	defer m.Close()
	_, err = session(t, m).Append(t.Context(), 1, 2)
	require.ErrorIs(t, err, skeep.ErrValue)
	require.ErrorContains(t, err, "rope_freqs.weight")
	require.NotContains(t, err.Error(), "--kv")
}

// A value that the cache's format cannot hold is named with the cache and with what to change; the session goes on, and
// wider caches hold it.
func TestCacheOverflowIsNamed(t *testing.T) {
	ids := []int32{5, 6, 7}
	for large, c := range map[string]struct{ cache, layer string }{
		"blk.1.attn_v": {"kv.1.v", "layer 1"}, "blk.2.attn_k_norm": {"kv.2.k", "layer 2"},
	} {
		open := func(kv tensor.Encoding) *Session {
			return session(t, gemmaLike(t, 8, Options{Context: 64, KV: &kv, Exact: true}, large, 1e6))
		}
		s := open(tensor.EncF16)
		for range 2 {
			_, err := s.Append(context.Background(), ids...)
			require.ErrorIs(t, err, skeep.ErrValue)
			var value *skeep.ValueError
			require.ErrorAs(t, err, &value)
			require.Len(t, value.Index, 3)
			for _, part := range []string{c.cache, c.layer, "F16", "--kv bf16|f32"} {
				require.ErrorContains(t, err, part)
			}
			require.Zero(t, s.Position())
		}
		for _, kv := range []tensor.Encoding{tensor.EncBF16, tensor.EncF32} {
			logits, err := open(kv).Append(context.Background(), ids...)
			require.NoError(t, err)
			require.False(t, slices.ContainsFunc(logits, func(x float32) bool { return x != x }))
		}
	}
}

// Whatever is tried on a session while Score calls back is refused, and the numbers are those of a Score of its own.
func TestScoreRefusesNestedUse(t *testing.T) {
	m := tiny(t, Options{})
	ids := randomIDs(rand.New(rand.NewPCG(7, 7)), m, 20)
	var want [][]float32
	require.NoError(t, session(t, m).Score(t.Context(), ids, func(_ int, logits []float32) error {
		want = append(want, slices.Clone(logits))
		return nil
	}))
	for name, nested := range map[string]func(s *Session) error{
		"score":        func(s *Session) error { return s.Score(t.Context(), ids[:8], nil) },
		"score longer": func(s *Session) error { return s.Score(t.Context(), slices.Concat(ids, ids), nil) },
		"append":       func(s *Session) error { _, err := s.Append(t.Context(), ids[:3]...); return err },
		"rewind":       func(s *Session) error { return s.Rewind(0) },
		"generate": func(s *Session) (err error) {
			for _, err = range s.Generate(t.Context(), ids[:3], GenerateOptions{MaxTokens: 2}) {
				require.Error(t, err)
			}
			return err
		},
		"another goroutine": func(s *Session) error {
			done := make(chan error)
			go func() { _, err := s.Append(t.Context(), 1); done <- err }()
			return <-done
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := session(t, m)
			i := 0
			require.NoError(t, s.Score(t.Context(), ids, func(at int, logits []float32) error {
				require.ErrorIs(t, nested(s), ErrBusy)
				require.Equal(t, len(ids), s.Position())
				require.Equal(t, i, at)
				require.Equal(t, want[i], logits)
				i++
				return nil
			}))
			require.Equal(t, len(ids), i)
			logits, err := s.Append(t.Context(), ids[0]) // it serves again
			require.NoError(t, err)
			require.Len(t, logits, m.arch.Vocab)
		})
	}
	t.Run("close", func(t *testing.T) {
		s := session(t, m)
		calls := 0
		require.ErrorIs(t, s.Score(t.Context(), ids, func(int, []float32) error { calls++; return s.Close() }), skeep.ErrClosed)
		require.Equal(t, 1, calls)
		for _, err := range s.Generate(t.Context(), ids, GenerateOptions{}) {
			require.ErrorIs(t, err, skeep.ErrClosed)
			require.ErrorContains(t, err, `"session"`)
		}
		require.ErrorIs(t, s.Rewind(0), skeep.ErrClosed)
	})
}

// A loop over a generation in which the same session goes elsewhere ends with an error; one that only reads goes on.
func TestGenerationNoticesOthers(t *testing.T) {
	m := tiny(t, Options{})
	ids := m.tokenizer.Encode(m.Example(), tokenizer.EncodeOptions{BOS: true})
	run := func(nested func(s *Session)) (n int, last error) {
		s := session(t, m)
		for _, err := range s.Generate(t.Context(), ids, GenerateOptions{MaxTokens: 3}) {
			if last = err; err == nil {
				n++
				nested(s)
			}
		}
		return n, last
	}
	for name, nested := range map[string]func(s *Session){
		"append": func(s *Session) { _, _ = s.Append(t.Context(), 1) },
		"score":  func(s *Session) { _ = s.Score(t.Context(), ids, nil) },
		"rewind": func(s *Session) { _ = s.Rewind(s.Position() - 1) },
		"and back": func(s *Session) { // the position alone would not tell
			_, _ = s.Append(t.Context(), 1)
			_ = s.Rewind(s.Position() - 1)
		},
		"generate": func(s *Session) {
			for range s.Generate(t.Context(), ids, GenerateOptions{MaxTokens: 1}) {
			}
		},
	} {
		n, err := run(nested)
		require.ErrorIs(t, err, ErrMoved, name)
		require.Equal(t, 1, n, name)
	}
	n, err := run(func(s *Session) {
		_, _ = s.Position(), s.Copies()
		_, err := s.Append(t.Context(), make([]int32, m.Context())...) // refused: nothing has changed
		require.Error(t, err)
	})
	require.NoError(t, err)
	require.Greater(t, n, 1)
	n, err = run(func(s *Session) { require.NoError(t, s.Close()) })
	require.ErrorIs(t, err, skeep.ErrClosed)
	require.Equal(t, 1, n)
}
