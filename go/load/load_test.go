package load_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
	"github.com/stretchr/testify/require"
)

// loaded resolves and loads a source; the scope closes with the test.
func loaded(t *testing.T, s load.Source, o load.Options, overrides ...resolver.Override) (*load.Weights, *resolver.Resolution, *skeep.ModelScope) {
	p, err := resolver.ProfileNamed("desktop", 0)
	require.NoError(t, err)
	r, err := resolver.Resolve(resolver.Request{Header: s.File, Profile: p, Platform: s.Platform(), Kernels: skeep.Kernels(), Overrides: overrides})
	require.NoError(t, err)
	if o.Pool, err = skeep.NewPool(2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Pool.Close)
	scope := skeep.NewModelScope("test")
	t.Cleanup(func() {
		if err := scope.Close(); !errors.Is(err, skeep.ErrClosed) {
			require.NoError(t, err)
		}
	})
	w, err := load.Load(context.Background(), s, r, scope, o)
	require.NoError(t, err)
	return w, r, scope
}

func file(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, os.WriteFile(path, embedded.Model(), 0o644))
	return path
}

// values decodes a tensor of the header through package gguf alone.
func payload(t *testing.T, f *gguf.File, name string) []byte {
	var b bytes.Buffer
	require.NoError(t, f.ReadTensor(name, &b))
	return b.Bytes()
}

func TestSourcesGiveTheSameWeights(t *testing.T) {
	path := file(t)
	onDisk, err := load.Open(path, gguf.Options{})
	require.NoError(t, err)
	defer onDisk.File.Close()
	inMemory, err := load.Bytes("memory", embedded.Model())
	require.NoError(t, err)
	f, err := gguf.OpenFS(fstest.MapFS{"m.gguf": {Data: embedded.Model()}}, "m.gguf", gguf.Options{})
	require.NoError(t, err)
	defer f.Close()
	for name, c := range map[string]struct {
		source load.Source
		domain tensor.Domain
		maps   int
	}{
		"file":        {onDisk, tensor.Mapped, 1},
		"memory":      {inMemory, tensor.Heap, 0},
		"file system": {load.Source{File: f}, tensor.OffHeap, 0},
	} {
		w, r, scope := loaded(t, c.source, load.Options{})
		require.Len(t, w.Mappings(), c.maps, name)
		for _, info := range c.source.File.Tensors() {
			v, ok := w.View(info.Name)
			require.True(t, ok)
			d, _ := r.Decision(info.Name)
			require.Equal(t, d.Spec.Domain, v.Domain(), info.Name)
			if info.Bytes >= resolver.DefaultThreshold {
				require.Equal(t, c.domain, v.Domain(), "%s: %s", name, info.Name)
			}
			want := payload(t, c.source.File, info.Name)
			require.EqualValues(t, len(want), v.Bytes())
			got := make([]byte, len(want))
			_, err := v.Storage().ReadAt(got, 0)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got), "%s: %s", name, info.Name)
			require.Equal(t, skeep.ValueWeight, v.Value()>>30<<30)
		}
		require.NoError(t, scope.Close())
		v, _ := w.View("output_norm.weight")
		_, err := v.Get(0)
		require.ErrorIs(t, err, skeep.ErrClosed)
	}
}

func TestDequantizedAndReorderedAreTracedAndEqual(t *testing.T) {
	s, err := load.Open(file(t), gguf.Options{})
	require.NoError(t, err)
	defer s.File.Close()
	events := trace.NewRecorder(100)
	w, _, _ := loaded(t, s, load.Options{Trace: events}, resolver.Override{Pattern: "blk.1.ffn_up.weight", Form: "f32"})
	require.EqualValues(t, 1, events.Total(trace.Materialize).Count)
	require.EqualValues(t, 768*256*4, events.Total(trace.Materialize).Bytes)
	plain, _, _ := loaded(t, s, load.Options{})
	a, _ := w.View("blk.1.ffn_up.weight")
	b, _ := plain.View("blk.1.ffn_up.weight")
	require.Equal(t, tensor.EncF32, a.Format().Encoding)
	for _, at := range [][2]int64{{0, 0}, {767, 255}, {300, 17}} {
		x, err := a.Get(at[0], at[1])
		require.NoError(t, err)
		y, err := b.Get(at[0], at[1])
		require.NoError(t, err)
		require.Equal(t, y, x)
	}
}

func TestSourceFileMayCloseAndVanish(t *testing.T) {
	path := file(t)
	s, err := load.Open(path, gguf.Options{})
	require.NoError(t, err)
	w, _, _ := loaded(t, s, load.Options{})
	require.NoError(t, s.File.Close())
	require.NoError(t, os.Remove(path))
	v, _ := w.View("output_norm.weight")
	_, err = v.Get(3)
	require.NoError(t, err)
}

func TestCancelAndFailuresLeaveNothing(t *testing.T) {
	before := skeep.Stats()
	s, err := load.Open(file(t), gguf.Options{})
	require.NoError(t, err)
	defer s.File.Close()
	p, err := resolver.ProfileNamed("desktop", 0)
	require.NoError(t, err)
	r, err := resolver.Resolve(resolver.Request{Header: s.File, Profile: p, Platform: s.Platform(), Kernels: skeep.Kernels()})
	require.NoError(t, err)
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		o    load.Options
		want error
	}{
		"canceled": {canceled, load.Options{}, context.Canceled},
	} {
		scope := skeep.NewModelScope(name)
		_, err := load.Load(c.ctx, s, r, scope, c.o)
		require.ErrorIs(t, err, c.want, name)
		require.NoError(t, scope.Close())
		require.Equal(t, before, skeep.Stats(), name)
	}
	empty, err := resolver.Resolve(resolver.Request{Header: none{s.File}, Profile: p})
	require.NoError(t, err)
	scope := skeep.NewModelScope("unknown")
	defer scope.Close()
	_, err = load.Load(context.Background(), s, empty, scope, load.Options{})
	require.ErrorContains(t, err, "has no decision for it")
}

// none is a header without tensors.
type none struct{ arch.Header }

func (none) Tensors() []arch.TensorInfo { return nil }
