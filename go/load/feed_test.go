package load_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/quant"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
	"github.com/stretchr/testify/require"
)

// feed resolves a source with all that can be in feed order.
func feed(t *testing.T, s load.Source, more ...resolver.Override) *resolver.Resolution {
	p, err := resolver.ProfileNamed("desktop", 0)
	require.NoError(t, err)
	r, err := resolver.Resolve(resolver.Request{Header: s.File, Profile: p, Platform: s.Platform(), Kernels: skeep.Kernels(),
		Overrides: append([]resolver.Override{{Pattern: "*", Form: "feed"}}, more...)})
	require.NoError(t, err)
	return r
}

// synth writes a random model of the llama family.
func synth(t *testing.T, params float64, kind string) string {
	path := filepath.Join(t.TempDir(), "synth.gguf")
	shape, err := quant.ShapeFor(params)
	require.NoError(t, err)
	_, err = quant.Synth(context.Background(), path, quant.SynthOptions{Shape: shape, Type: kind})
	require.NoError(t, err)
	return path
}

// Weights in feed order are private copies with the same elements, from every source; they are counted, and the trace and
// the progress tell their bytes.
func TestFeedOrder(t *testing.T) {
	path := synth(t, 4e6, "q4_0")
	onDisk, err := load.Open(path, gguf.Options{})
	require.NoError(t, err)
	defer onDisk.File.Close()
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	inMemory, err := load.Bytes("memory", whole)
	require.NoError(t, err)
	notMapped := onDisk
	notMapped.NotMapped = os.ErrPermission
	pool, err := skeep.NewPool(2)
	require.NoError(t, err)
	defer pool.Close()
	for name, s := range map[string]load.Source{"file": onDisk, "memory": inMemory, "not mapped": notMapped} {
		r := feed(t, s, resolver.Override{Pattern: "blk.1.attn_q.weight", Form: "stored"})
		scope := skeep.NewModelScope(name)
		rec := trace.NewRecorder(0)
		var steps []load.Progress
		w, err := load.Load(context.Background(), s, r, scope, load.Options{Pool: pool, Trace: rec, Progress: func(p load.Progress) { steps = append(steps, p) }})
		require.NoError(t, err)
		count, sum, private := 0, int64(0), int64(0)
		for _, d := range r.Decisions {
			v, ok := w.View(d.Name)
			require.True(t, ok)
			require.Equal(t, d.Form.Order, v.Layout().Order, d.Name)
			if d.Spec.Domain != tensor.Mapped && (name != "memory" || d.Form.Reordered()) {
				private += d.Form.Bytes
			}
			if !d.Form.Reordered() {
				continue
			}
			count, sum = count+1, sum+v.Bytes()
			back, err := skeep.Prepack(pool, d.Name, v, tensor.Order{}, scope)
			require.NoError(t, err)
			got := make([]byte, back.Bytes())
			_, err = back.Storage().ReadAt(got, 0)
			require.NoError(t, err)
			require.True(t, bytes.Equal(payload(t, s.File, d.Name), got), "%s: %s", name, d.Name)
		}
		require.Greater(t, count, 20)
		require.Equal(t, count, w.Reordered().Weights)
		require.Equal(t, sum, w.Reordered().Bytes)
		require.Positive(t, w.Reordered().Elapsed)
		require.EqualValues(t, count, rec.Total(trace.Prepack).Count, name)
		require.Equal(t, sum, rec.Total(trace.Prepack).Bytes, name)
		require.Equal(t, int64(0), steps[0].Done)
		require.NotEmpty(t, steps[0].Tensor)
		require.Equal(t, load.Progress{Work: "loading", Done: private, Total: private}, steps[len(steps)-1], name)
		require.NoError(t, scope.Close())
	}
}

// No memory is taken for copies that do not fit, and none stays when a load ends between two of them.
func TestFeedOrderIsRefusedAndCanceled(t *testing.T) {
	s, err := load.Open(synth(t, 4e6, "q4_0"), gguf.Options{})
	require.NoError(t, err)
	defer s.File.Close()
	r := feed(t, s)
	pool, err := skeep.NewPool(1)
	require.NoError(t, err)
	defer pool.Close()
	before := skeep.Stats()
	scope := skeep.NewModelScope("small")
	_, err = load.Load(context.Background(), s, r, scope, load.Options{Pool: pool, Available: 1 << 20})
	require.ErrorIs(t, err, skeep.ErrMemory)
	require.ErrorContains(t, err, "1.00 MiB are available")
	require.Equal(t, before, skeep.Stats())
	ctx, cancel := context.WithCancel(context.Background())
	steps := 0
	_, err = load.Load(ctx, s, r, scope, load.Options{Pool: pool, Progress: func(load.Progress) {
		if steps++; steps == 3 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, steps)
	require.NoError(t, scope.Close())
	require.Equal(t, before, skeep.Stats())
}

// Where the profile allows no file pages, none are mapped for weights that are converted either: they are read, in a
// direct load past the page cache.
func TestConvertedWeightsAreNotMappedAgainstTheProfile(t *testing.T) {
	s, err := load.Open(synth(t, 4e6, "q4_0"), gguf.Options{})
	require.NoError(t, err)
	defer s.File.Close()
	pool, err := skeep.NewPool(2)
	require.NoError(t, err)
	defer pool.Close()
	for _, form := range []string{"feed", "f16"} {
		for _, direct := range []bool{false, true} {
			r, err := resolver.Resolve(resolver.Request{Header: s.File, Profile: resolver.Profile{Name: "no files", Threshold: 1}, Platform: s.Platform(),
				Kernels: skeep.Kernels(), Overrides: []resolver.Override{{Pattern: "*", Form: form}}})
			require.NoError(t, err)
			before, rec, scope := skeep.Stats(), trace.NewRecorder(0), skeep.NewModelScope("m")
			w, err := load.Load(context.Background(), s, r, scope, load.Options{Pool: pool, Direct: direct, Trace: rec})
			require.NoError(t, err)
			require.Empty(t, w.Mappings(), form)
			require.Zero(t, rec.Total(trace.Map).Count, form)
			require.LessOrEqual(t, skeep.Stats().Bytes[tensor.OffHeap], before.Bytes[tensor.OffHeap]+r.In(tensor.OffHeap), "what was read for a conversion ends with it")
			v, ok := w.View("blk.1.attn_q.weight")
			require.True(t, ok)
			if form == "feed" {
				back, err := skeep.Prepack(pool, "back", v, tensor.Order{}, scope)
				require.NoError(t, err)
				got := make([]byte, back.Bytes())
				_, err = back.Storage().ReadAt(got, 0)
				require.NoError(t, err)
				require.True(t, bytes.Equal(payload(t, s.File, "blk.1.attn_q.weight"), got))
			}
			require.NoError(t, scope.Close())
		}
	}
}

// resident is the memory of the process, without garbage.
func resident(t *testing.T) trace.Process {
	debug.FreeOSMemory()
	p, err := trace.Probe()
	require.NoError(t, err)
	return p
}

// Case C05. A model in feed order is in memory once: private copies, and the file pages of the rest. While it loads, one weight more.
func TestFeedOrderIsNotTwiceInMemory(t *testing.T) {
	const slack = 6 << 20
	path := synth(t, 110e6, "q8_0")
	s, err := load.Open(path, gguf.Options{})
	require.NoError(t, err)
	defer s.File.Close()
	r := feed(t, s)
	pool, err := skeep.NewPool(2)
	require.NoError(t, err)
	defer pool.Close()
	before := resident(t)
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skip("the peak cannot be reset: ", err)
	}
	scope := skeep.NewModelScope("m")
	w, err := load.Load(context.Background(), s, r, scope, load.Options{Pool: pool})
	require.NoError(t, err)
	after := resident(t)
	private, largest := w.Reordered().Bytes, int64(0)
	for _, d := range r.Decisions {
		largest = max(largest, d.Form.Bytes)
	}
	rest := s.File.Parts()[0].Size - private
	t.Logf("file %d, re-ordered %d in %v; anonymous +%d, file pages +%d, peak +%d", s.File.Parts()[0].Size, private, w.Reordered().Elapsed,
		after.Anonymous-before.Anonymous, after.File-before.File, after.Peak-before.Resident)
	require.Greater(t, private, int64(80e6))
	require.Less(t, after.Anonymous-before.Anonymous, private+slack)
	require.Less(t, after.File-before.File, rest+slack)
	require.Less(t, after.Peak-before.Resident, private+largest+slack)
	v, ok := w.View("output_norm.weight") // its pages may have been dropped with a neighbor's, and come back
	require.True(t, ok)
	_, err = v.Get(5)
	require.NoError(t, err)
	require.NoError(t, scope.Close())
}
