package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/tensor"
)

var table = []tensor.KernelInfo{{Name: "a", ISA: "portable", Runnable: true}, {Name: "b", ISA: "avx2", Runnable: true}, {Name: "c", ISA: "neon"}}

func TestRowsNobodyRanAreNamed(t *testing.T) {
	folder := t.TempDir()
	one, two := filepath.Join(folder, "rows-1"), filepath.Join(folder, "rows-2")
	require.NoError(t, os.WriteFile(one, []byte("a\nb\n"), 0o600))
	require.NoError(t, os.WriteFile(two, []byte("c\n"), 0o600))
	judge := func(without ...string) (string, bool) {
		run, err := names(folder)
		require.NoError(t, err)
		var out strings.Builder
		ok := report(&out, table, run, without)
		return out.String(), ok
	}
	out, ok := judge()
	require.True(t, ok, out)
	require.Equal(t, "3 rows, 3 compared, 0 missing, 0 not judged\n", out)

	require.NoError(t, os.Remove(two))
	out, ok = judge()
	require.False(t, ok)
	require.Contains(t, out, "compared by no test: c\n")
	out, ok = judge("neon")
	require.True(t, ok)
	require.Equal(t, "not judged: c\n3 rows, 2 compared, 0 missing, 1 not judged\n", out)

	require.NoError(t, os.WriteFile(one, []byte("a\n"), 0o600)) // what runs here is judged, whatever was left out
	out, ok = judge("neon", "avx2")
	require.False(t, ok)
	require.Contains(t, out, "compared by no test: b\n")

	require.NoError(t, os.WriteFile(two, []byte("b\nc\nd\n"), 0o600))
	out, ok = judge()
	require.False(t, ok)
	require.Contains(t, out, "not in the table: d\n")
}
