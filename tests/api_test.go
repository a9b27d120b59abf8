package tests

import (
	"flag"
	"go/build"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var renew = flag.Bool("renew", false, "write api.txt instead of comparing with it")

// TestAPI compares what the packages export with api.txt, so that nothing is added or broken unnoticed.
func TestAPI(t *testing.T) {
	var lines, internals []string
	for _, dir := range publicPackages(t) {
		p, err := build.ImportDir(filepath.Join("..", dir), 0)
		require.NoError(t, err)
		sources := map[string]string{}
		for _, name := range append(p.GoFiles, p.CgoFiles...) {
			source, err := os.ReadFile(filepath.Join("..", dir, name))
			require.NoError(t, err)
			sources[path.Join(dir, name)] = string(source)
		}
		exported, inner := api(t, path.Join(modulePath, dir), sources)
		lines, internals = append(lines, exported...), append(internals, inner...)
	}
	require.Empty(t, internals, "exported, though nobody outside can name it")
	slices.Sort(lines)
	if *renew {
		require.NoError(t, os.WriteFile("api.txt", []byte(strings.Join(lines, "\n")+"\n"), 0o644))
		return
	}
	text, err := os.ReadFile("api.txt")
	require.NoError(t, err)
	listed := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for _, c := range []struct {
		what         string
		these, those []string
	}{{"gone", listed, lines}, {"new", lines, listed}} {
		for _, line := range c.these {
			if _, found := slices.BinarySearch(c.those, line); !found {
				t.Errorf("%s: %s", c.what, line)
			}
		}
	}
	if t.Failed() {
		t.Log("when this is meant: go test ./tests -run 'TestAPI$' -renew (and a line in CHANGELOG.md for what is gone)")
	}
}

// publicPackages are the folders of the packages that a program can import.
func publicPackages(t *testing.T) (dirs []string) {
	require.NoError(t, fs.WalkDir(os.DirFS(".."), "go", func(dir string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return err
		case slices.Contains([]string{"cmd", "internal", "testdata"}, d.Name()):
			return fs.SkipDir
		}
		if sources, _ := filepath.Glob(filepath.Join("..", dir, "*.go")); len(sources) > 0 {
			dirs = append(dirs, dir)
		}
		return nil
	}))
	require.NotEmpty(t, dirs)
	return dirs
}

// What leads into an internal package is found, by whatever way; what cannot be reached from outside may.
func TestAPINamesInternals(t *testing.T) {
	for declaration, found := range map[string]bool{
		"type Pool = core.Pool":                                                    true,
		"type Pool struct { *core.Pool }":                                          true,
		"type Pool struct { Inner []core.Pool }":                                   true,
		"type Pool struct { inner core.Pool }":                                     false,
		"type pool = core.Pool; type Pool struct { pool }":                         true,
		"type pool = core.Pool; func Open() (p *pool)":                             true,
		"type pool struct { Inner core.Pool }; var Default pool":                   true,
		"type pool struct { inner core.Pool }; var Default pool":                   false,
		"type pool struct{}; func (pool) C() core.Pool; type Pool struct { pool }": true,
		"type pool struct{}; func (pool) c() core.Pool; type Pool struct { pool }": false,
		"func F(func(...core.Status))":                                             true,
		"func F(core int) int":                                                     false,
		"func f() core.Status":                                                     false,
		"type C interface { M(map[string]core.Status) }":                           true,
		"const Kind = core.Kind":                                                   true,
		"const Kind int = core.Kind":                                               false,
		"var Err = core.Err":                                                       true,
		"var Err error = core.Err":                                                 false,
		"var Err = fmt.Errorf(\"%w\", core.Err)":                                   false,
		"var Text = strings.ToUpper(\"core.Err\")":                                 false,
	} {
		source := "package p\nimport (\n\"fmt\"\n\"strings\"\n\"" + modulePath + "/go/internal/core\")\n" + strings.ReplaceAll(declaration, "; ", "\n")
		_, internals := api(t, modulePath+"/go/p", map[string]string{"p.go": source})
		require.Equal(t, found, len(internals) > 0, "%s: %v", declaration, internals)
	}
}
