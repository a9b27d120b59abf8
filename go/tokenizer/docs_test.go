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

var update = flag.Bool("update", false, "write docs/keys.md anew")

// TestDocsListTheTables: docs/keys.md is what the tables of keys and tensors say. go test ./go/tokenizer -run
// TestDocsListTheTables -update writes it.
func TestDocsListTheTables(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Metadata keys and tensors: what is read, refused, harmless

Made from the tables in ` + "`go/arch` and `go/tokenizer`" + `; a test compares. *read*: taken into account; the value in brackets is what an absent key stands
for. *refused*: a file that states it is not run, unless with the values in brackets, which ask for what is computed anyway. *harmless*: changes no
result. ` + "`*`" + ` stands for any text. A key under the architecture's prefix, or under ` + "`tokenizer.`" + `, that no row knows is a note of ` + "`inspect` and `run`" + `; a
tensor that no row knows is refused.
`)
	section := func(title string, facts arch.Facts, skip arch.Facts) {
		fmt.Fprintf(&b, "\n## %s\n\n| key | effect | what it changes, or why nothing | written or defined by |\n|---|---|---|---|\n", title)
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
	var common arch.Facts // rows that all families have
	for _, x := range arch.FactsOf(all[0]) {
		shared := true
		for _, name := range all {
			other, ok := arch.FactsOf(name).Find(x.Name)
			shared = shared && ok && fmt.Sprint(other) == fmt.Sprint(x)
		}
		if shared {
			common = append(common, x)
		}
	}
	section("Keys under the prefix of every architecture", common, nil)
	for _, name := range all {
		section("Keys of "+name+" alone, or different there", arch.FactsOf(name), common)
	}
	section("Keys of files", arch.FileFacts(), nil)
	section("Keys of tokenizers", tokenizer.Facts(), nil)
	section("Tensors beside those of the architecture", arch.TensorFacts(), nil)
	path := filepath.Join("..", "..", "docs", "keys.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(want), "run this test with -update")
}
