package tokenizer_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/tokenizer"
)

var update = flag.Bool("update", false, "regenerate docs/keys.md")

// TestDocsListTheTables: docs/keys.md is what the tables of keys and tensors say. go test ./go/tokenizer -run
// TestDocsListTheTables -update writes it.
func TestDocsListTheTables(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Metadata keys and tensors

This page is generated from the tables in ` + "`go/arch` and `go/tokenizer`" + `; a test compares it with them. It lists the metadata keys and tensors that could
change results, with one of three effects:

- *read*: the key is taken into account. The value in parentheses is the default if the key is absent.
- *refused*: a model with this key or tensor is not run, because results would be wrong. The values in parentheses are accepted, since they describe
  what is computed anyway.
- *harmless*: the key or tensor does not change results.

` + "`*`" + ` stands for any text. Unknown keys under the architecture's prefix or under ` + "`tokenizer.`" + ` are noted by ` + "`inspect` and `run`" + `. Unknown tensors are
refused.
`)
	section := func(title string, facts arch.Facts, skip arch.Facts) {
		fmt.Fprintf(&b, "\n## %s\n\n| name | effect | what it changes, or why it changes nothing | source |\n|---|---|---|---|\n", title)
		seen := map[string]bool{}
		for _, x := range facts {
			if other, ok := skip.Find(x.Name); seen[x.Name] || ok && fmt.Sprint(other) == fmt.Sprint(x) {
				continue
			}
			seen[x.Name] = true
			names := "`" + strings.Join(append([]string{x.Name}, x.Aliases...), "`, `") + "`"
			effect := x.Effect.String()
			switch {
			case x.Effect == arch.Read && x.Default == nil:
				effect += " (required)"
			case x.Effect == arch.Read:
				effect += fmt.Sprintf(" (%v)", x.Default)
			case len(x.Usual) > 0:
				effect += " (" + strings.Trim(strings.ReplaceAll(fmt.Sprint(x.Usual), " ", ", "), "[]") + ")"
				if s, ok := x.Usual[0].(string); ok {
					effect = fmt.Sprintf("refused (%q)", s)
				}
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", names, effect, x.Reason, x.Source)
		}
	}
	all := arch.Architectures()
	var common arch.Facts // rows that most families have
	for _, name := range all {
		for _, x := range arch.FactsOf(name) {
			if first, _ := arch.FactsOf(name).Find(x.Name); fmt.Sprint(first) != fmt.Sprint(x) {
				continue // the family has a row of its own
			}
			shared := 0
			for _, name := range all {
				if other, ok := arch.FactsOf(name).Find(x.Name); ok && fmt.Sprint(other) == fmt.Sprint(x) {
					shared++
				}
			}
			if _, listed := common.Find(x.Name); !listed && 2*shared > len(all) {
				common = append(common, x)
			}
		}
	}
	section("Keys of all architectures, unless one treats them differently", common, nil)
	for _, name := range all {
		section("Keys that only "+name+" has, or treats differently", arch.FactsOf(name), common)
	}
	section("Keys of files of all architectures", arch.FileFacts(), nil)
	section("Keys of tokenizers", tokenizer.Facts(), nil)
	section("Tensors that no architecture defines", arch.TensorFacts(), nil)
	path := filepath.Join("..", "..", "docs", "keys.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(want), "run this test with -update")
}
