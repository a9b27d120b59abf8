package model

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/quant"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/sample"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/tokenizer"
	"github.com/skeep-project/skeep/go/trace"
	"github.com/stretchr/testify/require"
)

func tiny(t testing.TB, o Options) *Model {
	m, err := OpenBytes(context.Background(), "embedded", embedded.Model(), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := m.Close(); !errors.Is(err, skeep.ErrClosed) {
			require.NoError(t, err)
		}
	})
	return m
}

func session(t testing.TB, m *Model) *Session {
	s, err := m.NewSession()
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := s.Close(); !errors.Is(err, skeep.ErrClosed) {
			require.NoError(t, err)
		}
	})
	return s
}

func TestEmbeddedModelAnswers(t *testing.T) {
	m := tiny(t, Options{})
	var text string
	var last Token
	for token, err := range m.Generate(context.Background(), m.Example(), GenerateOptions{MaxTokens: 40}) {
		require.NoError(t, err)
		text += token.Text
		last = token
	}
	var a, b, sum int
	_, err := fmt.Sscanf(m.Example()+text, "%d+%d=%d", &a, &b, &sum)
	require.NoError(t, err)
	require.Equal(t, a+b, sum, "%s%s", m.Example(), text)
	require.True(t, embedded.HeldOut(a, b), "the example is one that training never saw")
	require.Equal(t, StopEOS, last.Stop)
}

// TestSteadyStateAllocatesNothing fails when a decode step makes a Go object or takes slab memory beyond
// what the first steps took.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	if underRace {
		t.Skip("allocations are not counted under the race detector")
	}
	check := func(name string, m *Model) {
		s := session(t, m)
		ctx := context.Background()
		ids := make([]int32, 1)
		decode := func() {
			ids[0] = 5
			if _, err := s.Append(ctx, ids...); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			decode()
		}
		slab := s.eager.Slab()
		offHeap := skeep.Stats().Bytes
		require.Zero(t, testing.AllocsPerRun(100, decode), name)
		require.Equal(t, slab, s.eager.Slab())
		require.Equal(t, offHeap, skeep.Stats().Bytes)
		require.Zero(t, slab.Overflow.Count)
		require.LessOrEqual(t, slab.Peak, slab.Bytes/2)
	}
	path := embeddedIn(t, "q4_0")
	for _, exact := range []bool{false, true} {
		check(fmt.Sprintf("exact %v", exact), tiny(t, Options{Exact: exact, Context: 256}))
		for _, form := range []string{"stored", "feed"} {
			m, err := Open(context.Background(), path, Options{Exact: exact, Context: 256, Overrides: in(form)})
			require.NoError(t, err)
			check(fmt.Sprintf("%s, exact %v", form, exact), m)
			require.NoError(t, m.Close())
		}
	}
}

// TestActivationsAreQuantizedOnce: of every layer the inputs of its four groups of products (query, key and value; output;
// gate and up; down), and that of the head.
func TestActivationsAreQuantizedOnce(t *testing.T) {
	events := trace.NewRecorder(1)
	in, err := gguf.Open(filepath.Join("..", "embedded", "skeep-tiny.gguf"), gguf.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	path := filepath.Join(t.TempDir(), "q8_0.gguf")
	_, err = quant.File(context.Background(), in, path, quant.Options{Type: "q8_0"})
	require.NoError(t, err)
	m, err := Open(context.Background(), path, Options{Trace: events})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	s := session(t, m)
	for _, ids := range [][]int32{{1, 2, 3}, {4}} {
		before := events.Total(trace.Quantize).Count
		_, err := s.Append(context.Background(), ids...)
		require.NoError(t, err)
		require.EqualValues(t, 4*len(m.arch.Layers)+1, events.Total(trace.Quantize).Count-before)
	}
}

// TestSlabHoldsTheLargestStep compares the formula of package arch with what steps take.
func TestSlabHoldsTheLargestStep(t *testing.T) {
	for _, exact := range []bool{false, true} {
		m := tiny(t, Options{Exact: exact, Context: 256, Chunk: 64})
		s := session(t, m)
		ids := make([]int32, 64)
		_, err := s.Append(context.Background(), ids...)
		require.NoError(t, err)
		slab := s.eager.Slab()
		require.Zero(t, slab.Overflow.Count, slab.Overflow.First)
		require.Greater(t, slab.Peak, slab.Bytes/4, "the formula is far too high")
	}
}

// TestThreadsAndChunksChangeNothing: logits are the same to the bit for any number of threads, and ids for
// any chunk.
func TestThreadsAndChunksChangeNothing(t *testing.T) {
	prompt := []int32{1}
	for _, c := range "the small dog sees 347+85=" {
		prompt = append(prompt, int32(c)+3)
	}
	for _, exact := range []bool{false, true} {
		var want []float32
		for _, threads := range []int{1, 2, 3, 7} {
			s := session(t, tiny(t, Options{Exact: exact, Threads: threads}))
			logits, err := s.Append(context.Background(), prompt...)
			require.NoError(t, err)
			if want == nil {
				want = append(want, logits...)
			}
			require.Equal(t, want, logits, "%d threads, exact %v", threads, exact)
		}
		for _, chunk := range []int{1, 2, 5, 8} {
			s := session(t, tiny(t, Options{Exact: exact, Chunk: chunk}))
			logits, err := s.Append(context.Background(), prompt...)
			require.NoError(t, err)
			require.InDeltaSlice(t, want, logits, 2e-3, "chunk %d, exact %v", chunk, exact)
		}
	}
}

func TestContextEnds(t *testing.T) {
	m := tiny(t, Options{Context: 32})
	s := session(t, m)
	var full *ContextError
	_, err := s.Append(context.Background(), make([]int32, 33)...)
	require.ErrorAs(t, err, &full)
	require.Equal(t, ContextError{Position: 0, Tokens: 33, Context: 32}, *full)
	require.Zero(t, s.Position())
	_, err = s.Append(context.Background(), 260)
	require.ErrorIs(t, err, ErrOption)
	_, err = s.Append(context.Background())
	require.ErrorIs(t, err, ErrOption)

	var tokens []Token
	for token, err := range s.Generate(context.Background(), []int32{1, 52, 52}, GenerateOptions{Sample: sample.Params{Temperature: 50}}) {
		require.NoError(t, err)
		tokens = append(tokens, token)
	}
	last := tokens[len(tokens)-1]
	if last.Stop != StopEOS { // at that temperature the text may end early, but seldom
		require.Equal(t, StopContext, last.Stop)
		require.Equal(t, 32, s.Position())
		require.Len(t, tokens, 32-3+1)
	}
}

func TestCancelEndsBetweenSteps(t *testing.T) {
	m := tiny(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	var last error
	for _, err := range m.Generate(ctx, "the ", GenerateOptions{}) {
		last = err
		if n++; n == 2 {
			cancel()
		}
	}
	require.ErrorIs(t, last, context.Canceled)
	require.Equal(t, 3, n)
}

func TestRewindRepeatsTheSameLogits(t *testing.T) {
	s := session(t, tiny(t, Options{}))
	ctx := context.Background()
	_, err := s.Append(ctx, 1, 55, 56)
	require.NoError(t, err)
	first, err := s.Append(ctx, 57)
	require.NoError(t, err)
	want := append([]float32(nil), first...)
	require.NoError(t, s.Rewind(3))
	_, err = s.Append(ctx, 99)
	require.NoError(t, err)
	require.NoError(t, s.Rewind(3))
	again, err := s.Append(ctx, 57)
	require.NoError(t, err)
	require.Equal(t, want, again)
	require.ErrorIs(t, s.Rewind(5), ErrOption)
}

func TestScoreEqualsAppend(t *testing.T) {
	m := tiny(t, Options{Exact: true})
	ids := m.Tokenizer().Encode("12+34=46", tokenizer.EncodeOptions{BOS: true})
	a, b := session(t, m), session(t, m)
	require.NoError(t, a.Score(context.Background(), ids, func(i int, logits []float32) error {
		want, err := b.Append(context.Background(), ids[i])
		require.NoError(t, err)
		require.InDeltaSlice(t, want, logits, 1e-4)
		return nil
	}))
	require.Equal(t, len(ids), a.Position())
}

func TestSessionsOfOneModelRunSideBySide(t *testing.T) {
	m := tiny(t, Options{})
	var want []int32
	done := make(chan []int32)
	for range 4 {
		go func() {
			s, err := m.NewSession()
			if err != nil {
				done <- nil
				return
			}
			defer s.Close()
			var ids []int32
			for token, err := range s.Generate(context.Background(), m.Tokenizer().Encode("21+21=", tokenizer.EncodeOptions{BOS: true}), GenerateOptions{MaxTokens: 8}) {
				if err != nil {
					ids = nil
					break
				}
				ids = append(ids, token.ID)
			}
			done <- ids
		}()
	}
	for range 4 {
		got := <-done
		require.NotEmpty(t, got)
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
	}
}

func TestClosedModelRefuses(t *testing.T) {
	m := tiny(t, Options{})
	s := session(t, m)
	require.NoError(t, m.Close())
	_, err := s.Append(context.Background(), 1)
	require.ErrorIs(t, err, skeep.ErrClosed)
	require.ErrorContains(t, err, "embedded")
	_, err = m.NewSession()
	require.ErrorIs(t, err, skeep.ErrClosed)
	require.ErrorIs(t, m.Close(), skeep.ErrClosed)
}

// TestEveryTensorLandsWhereItWasDecided walks profiles, overrides and load modes.
func TestEveryTensorLandsWhereItWasDecided(t *testing.T) {
	for _, name := range resolver.ProfileNames() {
		for _, overrides := range [][]resolver.Override{nil, resolver.DenseF32OnHeap(), {{Pattern: "blk.0.*", Form: "f32"}, {Pattern: "*", Place: "offheap"}}} {
			p, err := resolver.ProfileNamed(name, 8<<30)
			require.NoError(t, err)
			events := trace.NewRecorder(1 << 10)
			m := tiny(t, Options{Profile: &p, Overrides: overrides, Trace: events})
			for _, d := range m.Resolution().Decisions {
				if !d.IsWeight {
					continue
				}
				v, ok := m.Weight(d.Name)
				require.True(t, ok, d.Name)
				require.Equal(t, d.Spec.Domain, v.Domain(), "%s, %s", name, d.Name)
				require.Equal(t, d.Form.Encoding, v.Format().Encoding, "%s, %s", name, d.Name)
				require.Equal(t, d.Form.Bytes, v.Bytes(), "%s, %s", name, d.Name)
			}
			s := session(t, m)
			kv, _ := m.Resolution().Decision("kv")
			require.Equal(t, kv.Spec.Domain, s.kv.k[0].Domain())
			var kept int64
			for i := range s.kv.k {
				kept += s.kv.k[i].Bytes() + s.kv.v[i].Bytes()
			}
			sessions := max(1, p.Sequences) // a plan is for all that the profile expects
			require.Equal(t, kv.Form.Bytes, sessions*kept)
			slab, _ := m.Resolution().Decision("slab")
			require.Equal(t, slab.Form.Bytes, sessions*s.eager.Slab().Bytes)
			if overrides == nil { // nothing was converted, so nothing was copied
				require.Zero(t, events.Total(trace.Materialize).Count)
				require.Zero(t, events.Total(trace.Prepack).Count)
			}
			_, err = s.Append(context.Background(), 1, 2, 3)
			require.NoError(t, err)
			require.NoError(t, s.Close())
			require.NoError(t, m.Close())
		}
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	q := tensor.Q8_0
	for _, o := range []Options{{Threads: -1}, {Context: -1}, {Chunk: -5}, {Load: "sideways"}, {Threads: 5000}} {
		_, err := OpenBytes(context.Background(), "embedded", embedded.Model(), o)
		require.ErrorIs(t, err, ErrOption, "%+v", o)
	}
	_, err := OpenBytes(context.Background(), "embedded", embedded.Model(), Options{KV: &q})
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "Q8_0")
}

func TestExplainComesBeforePayload(t *testing.T) {
	stop := errors.New("enough")
	header := embedded.Model()[:len(embedded.Model())-1] // a byte of payload is missing
	_, err := OpenBytes(context.Background(), "cut", header, Options{Explain: func(*resolver.Resolution) error { return stop }})
	require.ErrorContains(t, err, "cut")
	called := false
	_, err = OpenBytes(context.Background(), "whole", embedded.Model(), Options{Explain: func(r *resolver.Resolution) error {
		called = true
		require.Zero(t, skeep.Stats().Bytes[tensor.OffHeap])
		return stop
	}})
	require.ErrorIs(t, err, stop)
	require.True(t, called)
}

// What is wrong with options is found without a model; what needs the vocabulary, before Explain and any weight.
func TestChecksComeFirst(t *testing.T) {
	q8, f32 := tensor.Q8_0, tensor.EncF32
	for want, o := range map[string]Options{
		"threads -1": {Threads: -1}, "context -1": {Context: -1}, "chunk 1048577": {Chunk: 1<<20 + 1}, `"sideways"`: {Load: "sideways"},
		"cache in Q8_0": {KV: &q8}, "Q8_0": {Profile: &resolver.Profile{KV: q8}}, `"f33"`: {Overrides: []resolver.Override{{Pattern: "*", Form: "f33"}}},
		`"none"`: {Pre: "none"},
	} {
		require.ErrorContains(t, o.Check(), want)
		_, err := OpenBytes(context.Background(), "embedded", embedded.Model(), o)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, Options{Profile: &resolver.Profile{KV: q8}, KV: &f32}.Check())

	stop := errors.New("enough")
	_, err := OpenBytes(context.Background(), "embedded", embedded.Model(), Options{
		Prepare: func(m *Model) error {
			require.NotEmpty(t, m.Example())
			require.Positive(t, m.Context())
			require.NotEmpty(t, m.Tokenizer().Encode("1+1=", tokenizer.EncodeOptions{}))
			require.NotEmpty(t, m.Resolution().Decisions)
			_, loaded := m.Weight("output_norm.weight")
			require.False(t, loaded)
			return stop
		},
		Explain: func(*resolver.Resolution) error { t.Error("explained"); return nil },
	})
	require.ErrorIs(t, err, stop)
}

func Example() {
	m, err := OpenBytes(context.Background(), "embedded", embedded.Model(), Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	for token, err := range m.Generate(context.Background(), "12+30=", GenerateOptions{MaxTokens: 8}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(token.Text)
	}
	fmt.Println()
	// Output: 42
}
