package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryCaseHasATest finds a test whose comment names it ("Case B07.") for each row of testdata/cases.tsv: failures of
// other programs, each with the behaviour that is right; and no comment names a case that is not there.
func TestEveryCaseHasATest(t *testing.T) {
	table, err := os.ReadFile("testdata/cases.tsv")
	require.NoError(t, err)
	untested := map[string]bool{}
	for _, row := range strings.Split(strings.TrimSpace(string(table)), "\n")[1:] {
		id, _, _ := strings.Cut(row, "\t")
		untested[id] = true
	}
	require.Greater(t, len(untested), 50)
	known := len(untested)
	named := map[string]bool{}
	cases := regexp.MustCompile(`\bCase ([A-Z]\d\d)\.`)
	require.NoError(t, filepath.WalkDir("../go", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			for _, c := range cases.FindAllStringSubmatch(f.Doc.Text(), -1) {
				named[c[1]] = true
				delete(untested, c[1])
			}
		}
		return nil
	}))
	require.Empty(t, untested, "cases without a test")
	require.Len(t, named, known, "comments name cases that the table does not have: %v", named)
}
