package main

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const committed = "../../go/internal/core/testdata/golden"

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return b
}

// reproduces makes the vectors of every committed encoding from the committed inputs and empty outputs.
func reproduces(t *testing.T, c codec) {
	dir := t.TempDir()
	files, err := os.ReadDir(committed)
	require.NoError(t, err)
	for _, f := range files {
		content := read(t, committed, f.Name())
		if strings.HasSuffix(f.Name(), ".random.f32") || strings.HasSuffix(f.Name(), ".edge.f32") || strings.HasSuffix(f.Name(), ".quant.blocks") {
			content = nil
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name()), content, 0o600))
	}
	x, err := readIndex(committed)
	require.NoError(t, err)
	made := map[string]bool{"index": true}
	for _, raw := range x.lines {
		var l line
		require.NoError(t, json.Unmarshal(raw, &l))
		if _, err := os.Stat(filepath.Join(committed, l.Name+".random.blocks")); err != nil || testing.Short() && len(made) > 4 {
			continue
		}
		err := golden(dir, l.Name, false, c)
		if errors.Is(err, errMissing) {
			t.Skip(err)
		}
		require.NoError(t, err, l.Name)
		made[l.Name] = true
	}
	require.True(t, testing.Short() || len(made) > 25, made)
	for _, f := range files {
		if name, _, _ := strings.Cut(f.Name(), "."); made[name] {
			require.Equal(t, read(t, committed, f.Name()), read(t, dir, f.Name()), f.Name())
		}
	}
}

func TestCommittedVectorsAreThoseOfPython(t *testing.T) { reproduces(t, codecs{python{}, own{}}) }

func TestCommittedVectorsAreThoseOfOurOwn(t *testing.T) { reproduces(t, codecs{own{}}) }

func TestNewEncodingGetsItsVectors(t *testing.T) {
	for _, c := range []struct {
		name     string
		searched bool
	}{{"Q8_0", false}, {"Q4_K", true}, {"IQ2_S", false}} {
		one, two := t.TempDir(), t.TempDir()
		for _, dir := range []string{one, two} {
			require.NoError(t, golden(dir, c.name, c.searched, own{}))
		}
		files, err := os.ReadDir(one)
		require.NoError(t, err)
		name, all := strings.ToLower(c.name), map[string]bool{}
		for _, f := range files {
			all[strings.TrimPrefix(f.Name(), name+".")] = true
			require.Equal(t, read(t, one, f.Name()), read(t, two, f.Name()), "the same for any run")
		}
		want := map[string]bool{"index.json": true, "random.blocks": true, "random.f32": true}
		if c.name != "IQ2_S" { // it has no encoder
			want["quant.f32"] = true
		}
		if c.name == "Q8_0" {
			want["quant.blocks"] = true
		}
		require.Equal(t, want, all)
		values := read(t, one, name+".random.f32")
		require.NotEmpty(t, values)
		for i := range len(values) / 4 {
			require.False(t, math.IsInf(float(values, i), 0) || math.IsNaN(float(values, i)))
		}
		require.Equal(t, c.searched, strings.Contains(string(read(t, one, "index.json")), "row_rms_error_over_rms"))

		// Of a second encoding the first one's line stays, and so do the inputs of a second run.
		before := string(read(t, one, "index.json"))
		require.NoError(t, golden(one, "Q5_0", false, own{}))
		after := string(read(t, one, "index.json"))
		require.Contains(t, after, strings.TrimSuffix(strings.TrimPrefix(before, "[\n"), "\n]\n"))
		require.NoError(t, golden(one, "Q5_0", false, own{}))
		require.Equal(t, after, string(read(t, one, "index.json")))
	}
}
