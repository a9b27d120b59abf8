package model

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/quant"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// fed lists the encodings for which this machine has kernels in feed order.
func fed(t testing.TB) (all []tensor.Encoding) {
	for _, k := range skeep.Kernels() {
		if k.Op == tensor.OpMatMulT && k.Order != (tensor.Order{}) && k.Runnable && !slices.Contains(all, k.Encoding) {
			all = append(all, k.Encoding)
		}
	}
	if all == nil {
		t.Skip("no kernel reads another order than that of files here")
	}
	return all
}

// tied writes a random model of one encoding whose output head is its embedding table, which has a row beyond the last
// panel.
func tied(t testing.TB, e tensor.Encoding) string {
	dir := t.TempDir()
	whole, path := filepath.Join(dir, "whole.gguf"), filepath.Join(dir, "tied.gguf")
	shape, err := quant.ShapeFor(4e6)
	require.NoError(t, err)
	shape.Vocab = 16*20 + 1
	_, err = quant.Synth(context.Background(), whole, quant.SynthOptions{Shape: shape, Type: strings.ToLower(e.String()), Pure: true})
	require.NoError(t, err)
	f, err := gguf.Open(whole, gguf.Options{})
	require.NoError(t, err)
	defer f.Close()
	h := gguf.HeaderOf(f)
	h.Tensors = slices.DeleteFunc(h.Tensors, func(s gguf.TensorSpec) bool { return s.Name == "output.weight" })
	require.NoError(t, gguf.WriteFile(path, h, func(w *gguf.Writer) error { return w.CopyFrom(context.Background(), f) }))
	return path
}

// embeddedIn writes the embedded model, of which the table is tied, too, in a type.
func embeddedIn(t testing.TB, kind string) string {
	in, err := gguf.Open(filepath.Join("..", "embedded", "skeep-tiny.gguf"), gguf.Options{})
	require.NoError(t, err)
	defer in.Close()
	path := filepath.Join(t.TempDir(), kind+".gguf")
	_, err = quant.File(context.Background(), in, path, quant.Options{Type: kind})
	require.NoError(t, err)
	return path
}

func in(form string) []resolver.Override { return []resolver.Override{{Pattern: "*", Form: form}} }

// run returns the logits behind a prompt of 45 tokens and behind each of three more.
func run(t testing.TB, path string, o Options) (all [][]float32) {
	return runAs(t, path, o, func(m *Model) {
		if strings.HasPrefix(o.Overrides[0].Form, "feed") {
			require.Positive(t, m.Forms().Feed.Weights)
			require.Positive(t, m.Forms().Reordering)
		} else {
			require.Zero(t, m.Forms().Feed)
		}
	})
}

// runAs is run with a look at the model.
func runAs(t testing.TB, path string, o Options, look func(*Model)) (all [][]float32) {
	m, err := Open(context.Background(), path, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	s, err := m.NewSession()
	require.NoError(t, err)
	prompt := []int32{1}
	for i := range int32(44) {
		prompt = append(prompt, 3+5*i)
	}
	prompt[44] = int32(m.tokenizer.Len()) - 1 // behind the last panel
	for _, ids := range [][]int32{prompt, {5}, {6}, {250}} {
		logits, err := s.Append(context.Background(), ids...)
		require.NoError(t, err)
		all = append(all, slices.Clone(logits))
	}
	require.Zero(t, s.Copies(), "operands decoded for want of a kernel")
	look(m)
	return all
}

// The order of blocks changes no bit of a result, whatever the encoding and the number of threads, exact or not.
func TestFeedOrderChangesNothing(t *testing.T) {
	paths := map[string]string{"embedded q4_k_m": embeddedIn(t, "q4_k_m"), "embedded q8_0": embeddedIn(t, "q8_0")}
	for _, e := range fed(t) {
		paths[e.String()] = tied(t, e)
	}
	for name, path := range paths {
		for _, exact := range []bool{false, true} {
			want := run(t, path, Options{Exact: exact, Overrides: in("stored"), Threads: 1})
			threads := []int{2}
			if strings.HasPrefix(name, "embedded") {
				threads = []int{1, 2, 3}
			}
			for _, threads := range threads {
				require.Equal(t, want, run(t, path, Options{Exact: exact, Overrides: in("feed"), Threads: threads}), "%s, exact %v, %d threads", name, exact, threads)
			}
		}
	}
}

// Case C26. A weight has one form: the table that products and look-ups read is one copy in one order, made and counted once.
func TestTiedTableHasOneForm(t *testing.T) {
	e := fed(t)[0]
	rec := trace.NewRecorder(0)
	before := skeep.Stats()
	m, err := Open(context.Background(), tied(t, e), Options{Overrides: in("feed"), Trace: rec})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	table, ok := m.Weight("token_embd.weight")
	require.True(t, ok)
	require.NotEqual(t, tensor.Order{}, table.Layout().Order)
	require.Same(t, table.Storage(), m.net.head.Storage())
	require.Same(t, table.Storage(), m.net.embed.Storage())
	forms := m.Forms()
	require.EqualValues(t, forms.Feed.Weights, rec.Total(trace.Prepack).Count)
	require.Equal(t, forms.Feed.Bytes, rec.Total(trace.Prepack).Bytes)
	planned := m.Resolution().In(tensor.OffHeap)
	for _, need := range []string{resolver.NeedKV, resolver.NeedSlab} {
		d, _ := m.Resolution().Decision(need)
		planned -= d.Form.Bytes
	}
	require.Equal(t, planned, skeep.Stats().Bytes[tensor.OffHeap]-before.Bytes[tensor.OffHeap])
	_, err = session(t, m).Append(context.Background(), 1, 2, 3)
	require.NoError(t, err)
	require.EqualValues(t, forms.Feed.Weights, rec.Total(trace.Prepack).Count, "steps make no second copy")
}

// Without an override, weights are in feed order where the profile and the machine have room, and stay so in every load mode.
func TestFeedOrderIsTheDefault(t *testing.T) {
	fed(t)
	k, _ := skeep.Kernels().Find(tensor.OpMatMulT, tensor.Q4_0, tensor.A8, tensor.Feed)
	path := embeddedIn(t, "q4_0")
	want := run(t, path, Options{Overrides: in("stored")})
	for _, mode := range LoadModes {
		for _, c := range []struct {
			profile string
			feed    bool
		}{{"desktop", k.ISA != "portable"}, {"mobile_2gb", false}} {
			p, err := resolver.ProfileNamed(c.profile, 0)
			require.NoError(t, err)
			m, err := Open(context.Background(), path, Options{Profile: &p, Load: mode})
			require.NoError(t, err)
			require.Equal(t, c.feed, m.Forms().Feed.Weights > 0, "%s, %s: %+v", c.profile, mode, m.Forms())
			require.NoError(t, m.Close())
			require.Equal(t, want, run(t, path, Options{Profile: &p, Load: mode, Overrides: in("feed")}))
		}
	}
}

// An override by name that no kernel can serve is refused before payload is read.
func TestFeedOrderByNameNeedsAKernel(t *testing.T) {
	_, err := Open(context.Background(), filepath.Join("..", "embedded", "skeep-tiny.gguf"), Options{Overrides: []resolver.Override{{Pattern: "blk.0.attn_q.weight", Form: "feed"}}})
	require.ErrorIs(t, err, resolver.ErrOverride)
	require.ErrorContains(t, err, `tensor "blk.0.attn_q.weight" cannot be in feed order: no matmul_t kernel reads F16 so`)
	m := tiny(t, Options{Overrides: in("feed")}) // a pattern takes what there is
	require.Zero(t, m.Forms().Feed)
}

// Every encoding with a kernel in feed order has a gain, also on a processor of which nothing is known.
func TestGainsAreComplete(t *testing.T) {
	for _, e := range fed(t) {
		ratio, _ := resolver.Gain("", e)
		require.Positive(t, ratio, e)
	}
}
