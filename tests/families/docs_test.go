package families

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/families.md instead of comparing with it")

// TestDocsListTheFixtures: docs/families.md says what the tests of this folder compare.
func TestDocsListTheFixtures(t *testing.T) {
	x := read(t)
	var b strings.Builder
	b.WriteString(`# Model families

This page is generated from ` + "`tests/families/index.json`" + `, and a test compares it with that. Each row is a tiny random model, made by ` + "`tests/families/make.py`" + `.
The tests compute its logits for 48 positions and compare them with the stored logits of the programs named here: exact mode differs by at most 2e-4 of
the largest logit, and Q8_0 with 8-bit activations has the same best token in 95 % of the positions. Every feature named here is switched off once and must
then change the logits by at least ten times as much. Tensor names, shapes and orders come from the converter of llama.cpp.

| model | architecture | logits of | features that were switched off | where programs disagree |
|---|---|---|---|---|
`)
	for _, name := range slices.Sorted(maps.Keys(x.Fixtures)) {
		f := x.Fixtures[name]
		file, err := os.ReadFile(name + ".gguf")
		require.NoError(t, err)
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", name, architecture(t, file), strings.Join(f.By, ", "),
			strings.Join(slices.Sorted(maps.Keys(f.Off)), ", "), f.Why)
	}
	fmt.Fprintf(&b, "\nVersions:")
	for i, name := range slices.Sorted(maps.Keys(x.Versions)) {
		fmt.Fprintf(&b, "%s %s %s", map[bool]string{true: ",", false: ""}[i > 0], name, x.Versions[name])
	}
	b.WriteString(".\n")
	path := filepath.Join("..", "..", "docs", "families.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "run this test with -update")
}
