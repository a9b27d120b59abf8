package model

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/quant"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/tensor"
)

const tinyFile = "../embedded/skeep-tiny.gguf"

// text generates with the embedded model under overrides.
func text(t *testing.T, o Options) string {
	m, err := Open(context.Background(), tinyFile, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	var b strings.Builder
	for token, err := range m.Generate(context.Background(), m.Example(), GenerateOptions{MaxTokens: 8}) {
		require.NoError(t, err)
		b.WriteString(token.Text)
	}
	return b.String()
}

// Every form of every weight computes the same text: dense, packed in another encoding, in either order, everywhere.
func TestEveryFormDecodesText(t *testing.T) {
	want := text(t, Options{})
	require.NotEmpty(t, want)
	for _, form := range []string{"stored", "feed", "f32", "bf16", "f32+stored", "q8_0", "q8_0+stored", "q8_0+feed", "feed+q6_k", "q5_k", "keep+feed"} {
		for _, place := range []string{"", "heap", "offheap"} {
			o := resolver.Override{Pattern: "*", Form: form, Place: place}
			require.Equal(t, want, text(t, Options{Overrides: []resolver.Override{o}}), "%+v", o)
		}
	}
	require.Equal(t, want, text(t, Options{Overrides: resolver.DenseF32OnHeap(), Exact: true}))
	require.Equal(t, want, text(t, Options{Overrides: []resolver.Override{{Pattern: "blk.?.attn_*", Form: "f32"}, {Pattern: "blk.0.attn_q.weight", Form: "q8_0+feed"}, {Pattern: "*", Form: "q8_0"}}}))
}

// Uniform F32 on the heap means everything: weights, caches, slab.
func TestDenseF32OnHeap(t *testing.T) {
	m, err := Open(context.Background(), tinyFile, Options{Overrides: resolver.DenseF32OnHeap()})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	for _, d := range m.Resolution().Decisions {
		require.Equal(t, tensor.Heap, d.Spec.Domain, d.Name)
		if v, ok := m.Weight(d.Name); ok {
			require.Equal(t, tensor.Heap, v.Domain(), d.Name)
			require.Equal(t, tensor.EncF32, v.Format().Encoding, d.Name)
		}
	}
}

// Weights requantized at load are those of a file that was requantized, byte for byte, and so are the results; in feed order, too.
func TestRequantizedAtLoadAsByQuantize(t *testing.T) {
	for _, kind := range []string{"q4_0", "q6_k"} {
		source, err := gguf.Open(tinyFile, gguf.Options{})
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), kind+".gguf")
		_, err = quant.File(context.Background(), source, path, quant.Options{Type: kind, Pure: true})
		require.NoError(t, err)
		require.NoError(t, source.Close())
		for _, order := range []string{"stored", "feed"} {
			want := run(t, path, Options{Overrides: in(order)})
			got := runAs(t, tinyFile, Options{Overrides: in(kind + "+" + order)}, func(m *Model) {
				f := m.Forms()
				require.Positive(t, f.Requantized.Weights)
				if order == "stored" {
					sameBytes(t, m, path)
				}
			})
			require.Equal(t, want, got, "%s %s", kind, order)
		}
	}
}

// sameBytes compares a model's weights with a file's.
func sameBytes(t *testing.T, m *Model, path string) {
	file, err := gguf.Open(path, gguf.Options{})
	require.NoError(t, err)
	defer file.Close()
	for _, i := range file.Tensors() {
		v, ok := m.Weight(i.Name)
		require.True(t, ok)
		require.Equal(t, i.Encoding, v.Format().Encoding, i.Name)
		payload, err := file.Payload(i.Name)
		require.NoError(t, err)
		want := make([]byte, i.Bytes)
		_, err = payload.ReadAt(want, 0)
		require.NoError(t, err)
		got := make([]byte, i.Bytes)
		_, err = v.Storage().ReadAt(got, 0)
		require.NoError(t, err)
		require.Equal(t, want, got, i.Name)
	}
}
