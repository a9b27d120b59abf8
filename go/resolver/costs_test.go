package resolver

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/tokenizer"
)

// What a plan says of a tokenizer is what the Go heap grows by when it is made, or more: tables double as they grow, so
// vocabularies differ by up to a half in what a token takes.
func TestTokenizersTakeWhatAPlanSays(t *testing.T) {
	dir := os.Getenv("SKEEP_TEST_MODELS")
	if dir == "" {
		t.Skip("SKEEP_TEST_MODELS is not set: real vocabularies are not measured")
	}
	paths, err := filepath.Glob(filepath.Join(dir, "vocab", "*.gguf"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	costs := MeasuredCosts()
	for _, path := range paths {
		f, err := gguf.Open(path, gguf.Options{HeaderOnly: true})
		require.NoError(t, err)
		before := liveHeap()
		made, err := tokenizer.New(f, tokenizer.Options{})
		require.NoError(t, err)
		grown := liveHeap() - before
		runtime.KeepAlive(made)
		tokens, text, merges := vocabulary(f)
		said := tokens*costs.Token + text + merges*costs.Merge
		t.Logf("%s: %d tokens, %d bytes, %d merges: planned %s, heap %s", filepath.Base(path), tokens, text, merges, Size(said), Size(grown))
		require.InDelta(t, 1.3, float64(said)/float64(grown), 0.3, path)
		require.NoError(t, f.Close())
	}
}

// liveHeap is how many bytes of the Go heap are in use.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
