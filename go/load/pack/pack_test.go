package pack

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skeep-project/skeep/go/export/irpa"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/quant"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// model writes a random model of 4 million parameters and opens it. Processors without vector kernels pack nothing: they skip.
func model(t testing.TB, dir, kind string) *gguf.File {
	t.Helper()
	path := filepath.Join(dir, "model-"+kind+".gguf")
	shape, err := quant.ShapeFor(4e6)
	require.NoError(t, err)
	_, err = quant.Synth(context.Background(), path, quant.SynthOptions{Shape: shape, Type: kind})
	require.NoError(t, err)
	return opened(t, path)
}

func opened(t testing.TB, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path, gguf.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	list, err := Wanted(f)
	require.NoError(t, err)
	if len(list) == 0 {
		t.Skip("no kernel of this machine gains by another order")
	}
	return f
}

// at has states of files count from the moment when they are made, as if they had been made long ago.
func at(t testing.TB) {
	old := settled
	settled = 0
	t.Cleanup(func() { settled = old })
}

// names are those of all files in a folder.
func names(t testing.TB, dir string) (list []string) {
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range all {
		list = append(list, e.Name())
	}
	return list
}

func made(t testing.TB, f *gguf.File, o Options) *Result {
	t.Helper()
	r, err := Make(t.Context(), f, o)
	require.NoError(t, err)
	require.True(t, r.Made)
	return r
}

// TestAPackHasTheBlocksInFeedOrder compares each blob with what Prepack makes of the file's weight, and reads the archive as any
// reader would. Case E12. Metadata name the geometry of blocks. Case C22. A second Make finds the pack; what is not in it is not served.
func TestAPackHasTheBlocksInFeedOrder(t *testing.T) {
	at(t)
	for _, kind := range []string{"q4_k_m", "q8_0"} {
		dir := t.TempDir()
		f := model(t, dir, kind)
		var last Progress
		o := Options{Folder: Folder{Path: filepath.Join(dir, "cache")}, Progress: func(p Progress) {
			require.GreaterOrEqual(t, p.Done, last.Done)
			last = p
		}}
		r := made(t, f, o)
		require.Equal(t, Progress{Packing: true, Done: f.Parts()[0].Size, Total: f.Parts()[0].Size}, last)
		require.Equal(t, []string{filepath.Base(r.Path), indexName}, names(t, o.Folder.Path))
		a, err := irpa.Open(r.Path)
		require.NoError(t, err)
		list, err := Wanted(f)
		require.NoError(t, err)
		require.Len(t, a.Entries(), len(list)+1)
		require.Equal(t, r.Weights, len(list))
		pool, err := skeep.NewPool(2)
		require.NoError(t, err)
		for _, w := range list {
			require.Equal(t, tensor.Feed, w.Order)
			e, ok := a.Entry(w.Name)
			require.True(t, ok)
			require.Zero(t, e.Offset%64)
			info, _ := w.Encoding.Info()
			require.Contains(t, string(e.Metadata), `"block_elements":`)
			require.Contains(t, string(e.Metadata), info.Name)
			in, err := a.Bytes(e)
			require.NoError(t, err)
			got, err := io.ReadAll(in)
			require.NoError(t, err)
			payload, err := f.Payload(w.Name)
			require.NoError(t, err)
			stored := make([]byte, w.Bytes)
			_, err = payload.ReadAt(stored, 0)
			require.NoError(t, err)
			s, err := skeep.Borrow(w.Name, stored)
			require.NoError(t, err)
			v, err := s.View(w.Name, 0, tensor.FormatOf(w.Encoding), w.Shape)
			require.NoError(t, err)
			packed, err := skeep.Prepack(pool, w.Name, v, tensor.Feed, skeep.Ambient())
			require.NoError(t, err)
			want := make([]byte, w.Bytes)
			_, err = packed.Storage().ReadAt(want, 0)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got), w.Name)
			require.False(t, bytes.Equal(stored, got), w.Name)
			require.NoError(t, s.Close())
		}
		pool.Close()
		require.NoError(t, a.Close())
		require.NoError(t, Verify(t.Context(), r.Path, nil))

		again, err := Make(t.Context(), f, o)
		require.NoError(t, err)
		require.False(t, again.Made)
		require.Equal(t, r.Path, again.Path)
		p, err := Find(t.Context(), f, o)
		require.NoError(t, err)
		require.True(t, p.Serves(list[0].Name, list[0].Encoding, tensor.Feed))
		require.False(t, p.Serves(list[0].Name, list[0].Encoding, tensor.Order{}))
		require.False(t, p.Serves("x", list[0].Encoding, tensor.Feed))
		require.NoError(t, p.Close())
	}
}

// TestPagesAndPieces packs weights of several pieces, with rows left over behind the last panel, in a split set.
func TestPagesAndPieces(t *testing.T) {
	at(t)
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.gguf")
	shape := quant.Shape{Layers: 2, Width: 512, Heads: 4, KVHeads: 2, FF: 12808, Vocab: 1030, Context: 64}
	_, err := quant.Synth(t.Context(), whole, quant.SynthOptions{Shape: shape, Type: "q8_0", Pure: true})
	require.NoError(t, err)
	in, err := gguf.Open(whole, gguf.Options{})
	require.NoError(t, err)
	paths, err := gguf.Split(t.Context(), in, filepath.Join(dir, "part"), gguf.PartLimits{Tensors: 7})
	require.NoError(t, err)
	require.NoError(t, in.Close())
	require.Greater(t, len(paths), 2)
	f := opened(t, paths[1])
	o := Options{Folder: Folder{Path: filepath.Join(dir, "cache")}, Threads: 3}
	r := made(t, f, o)
	require.NoError(t, Verify(t.Context(), r.Path, nil))
	p, err := Find(t.Context(), f, o)
	require.NoError(t, err)
	defer p.Close()
	list, err := Wanted(f)
	require.NoError(t, err)
	scope := skeep.NewModelScope("test")
	defer scope.Close()
	file, err := skeep.Map(p.Path, p.OSFile(), 0, p.Bytes, skeep.In(scope))
	require.NoError(t, err)
	pieces := 0
	for _, w := range list {
		w, ok := p.Tensor(w.Name)
		require.True(t, ok)
		if rows, _, matrix := pieceOf(w); rows < matrix {
			pieces++
			require.Zero(t, w.Offset%page)
		}
		l, err := tensor.LayoutOf(tensor.FormatOf(w.Encoding), w.Shape, w.Order)
		require.NoError(t, err)
		v, err := file.ViewLayout(w.Name, w.Offset, tensor.FormatOf(w.Encoding), l)
		require.NoError(t, err)
		extent, err := f.Extent(w.Name)
		require.NoError(t, err)
		part, err := skeep.Map("part", f.Parts()[extent.Part].OSFile(), extent.Offset, extent.Bytes, skeep.In(scope))
		require.NoError(t, err)
		stored, err := part.View(w.Name, 0, tensor.FormatOf(w.Encoding), w.Shape)
		require.NoError(t, err)
		rows := w.Shape.Dims[0]
		for _, row := range []int64{0, 17, rows / 2, rows - 2, rows - 1} {
			for _, column := range []int64{0, 33, w.Shape.Dims[1] - 1} {
				want, err := stored.Get(row, column)
				require.NoError(t, err)
				got, err := v.Get(row, column)
				require.NoError(t, err)
				require.Equal(t, want, got, "%s %d %d", w.Name, row, column)
			}
		}
	}
	require.Positive(t, pieces)
}

// TestAPackServesEveryCopyOfItsModel copies, touches and renames a model: it is read once, and then known. Case C23.
func TestAPackServesEveryCopyOfItsModel(t *testing.T) {
	at(t)
	dir := t.TempDir()
	f := model(t, dir, "q4_0")
	reads, notes := 0, []string{}
	o := Options{Folder: Folder{Path: filepath.Join(dir, "cache")}, Note: func(text string) { notes = append(notes, text) },
		Progress: func(p Progress) {
			if !p.Packing && p.Done == p.Total {
				reads++
			}
		}}
	_, err := Find(t.Context(), f, o)
	require.ErrorIs(t, err, ErrNone)
	r := made(t, f, o)
	found := func(f *gguf.File) {
		t.Helper()
		p, err := Find(t.Context(), f, o)
		require.NoError(t, err)
		require.Equal(t, r.Path, p.Path)
		require.NoError(t, p.Close())
	}
	notes = nil
	found(f)
	require.Zero(t, reads, "the index knows the model from when it was packed")
	require.Empty(t, notes)

	copied := filepath.Join(dir, "copy.gguf")
	b, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(copied, b, 0o600))
	found(opened(t, copied))
	require.Equal(t, 1, reads)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "new here, copied or touched")
	found(opened(t, copied))
	require.Equal(t, 1, reads)
	require.NoError(t, os.Chtimes(copied, time.Now(), time.Now()))
	found(opened(t, copied))
	require.Equal(t, 2, reads)
	require.NoError(t, os.Rename(copied, copied+".x"))
	found(opened(t, copied+".x")) // a new name is a new ctime
	require.Equal(t, 3, reads)
	require.Len(t, readIndex(o.Folder.Path).Files, 2, "one entry for each file, in its last state")

	// One byte of a weight changes, and its time of modification is restored.
	st, err := os.Stat(f.Name())
	require.NoError(t, err)
	w, err := os.OpenFile(f.Name(), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = w.WriteAt([]byte{b[len(b)-100] ^ 1}, int64(len(b)-100))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, os.Chtimes(f.Name(), st.ModTime(), st.ModTime()))
	changed := opened(t, f.Name())
	_, err = Find(t.Context(), changed, o)
	require.ErrorIs(t, err, ErrNone)
	require.ErrorContains(t, err, "of other bytes")
	other := made(t, changed, o)
	require.NotEqual(t, r.Path, other.Path)
	require.Len(t, names(t, o.Folder.Path), 3)
}
