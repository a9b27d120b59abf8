package core_test

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Tests named after the rows of testdata/cases.tsv: failures of other programs with numbers and text, each with the
// behaviour that is right.

// TestEveryCaseHasATest finds a test for each row, here or in the package that the case belongs to.
func TestEveryCaseHasATest(t *testing.T) {
	tests := map[string]bool{}
	for _, dir := range []string{".", "../../arch", "../../exec", "../../gguf", "../../load", "../../tokenizer"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			tree, err := goparser.ParseFile(token.NewFileSet(), file, nil, goparser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range tree.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
					if name, ok := strings.CutPrefix(f.Name.Name, "Test"); ok {
						id, _, _ := strings.Cut(name, "_")
						tests[id] = true
					}
				}
			}
		}
	}
	rows := strings.Split(strings.TrimSpace(string(read(t, "cases.tsv"))), "\n")[1:]
	if len(rows) != 24 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		if id, _, _ := strings.Cut(row, "\t"); !tests[id] {
			t.Errorf("no Test%s_…", id)
		}
	}
}
