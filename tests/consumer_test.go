//go:build !race

// Package tests looks at skeep from outside: here as a module that a stranger's program depends on; in tests/c and
// tests/python as a library that other languages link. The race detector would see nothing here: the programs are
// built and run by themselves.
package tests

import (
	"archive/zip"
	"bytes"
	"fmt"
	"go/format"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/stretchr/testify/require"
)

const (
	modulePath = "github.com/skeep-project/skeep"
	version    = "v0.0.1"
)

// What an example that is not a whole program may name.
var imports = map[string]string{
	"errors": "errors", "fmt": "fmt", "exec": modulePath + "/go/exec", "skeep": modulePath + "/go/skeep",
	"tensor": modulePath + "/go/tensor",
}

// The programs are examples of the README with what stands around them.
var programs = []struct {
	name, marker string
	after        string
	want         string // output
}{
	{name: "generate", marker: "model.Open(", want: `^42\s*$`},
	{name: "multiply", marker: "skeep.MapFile(", want: `^\[1 64\] 96\n$`,
		after: `
func main() {
	ones := make([]float32, 96)
	for i := range ones {
		ones[i] = 1
	}
	if err := product("weights.bin", ones); err != nil {
		panic(err)
	}
}`},
}

// example is the Go block of the README that contains marker.
func example(t *testing.T, root, marker string) string {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	for _, block := range strings.Split(string(readme), "```go\n")[1:] {
		if block, _, _ = strings.Cut(block, "```"); strings.Contains(block, marker) {
			return block
		}
	}
	require.FailNow(t, "README.md has no Go example with "+marker)
	return ""
}

// writeModule makes a module that depends on nothing, with the programs and what they read.
func writeModule(t *testing.T, root string) string {
	dir := t.TempDir()
	write := func(name string, content []byte) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, content, 0o644))
	}
	write("go.mod", []byte("module stranger\n\ngo 1.26.0\n"))
	write("model.gguf", embedded.Model())
	block := append([]byte{0x00, 0x3c}, bytes.Repeat([]byte{0x99}, 16)...) // scale 1, codes 9 - 8
	write("weights.bin", bytes.Repeat(block, 64*96/32))
	for _, p := range programs {
		write(p.name+"/main.go", program(t, example(t, root, p.marker), p.after))
	}
	return dir
}

// program is an example that is a program already, or one made of it.
func program(t *testing.T, example, after string) []byte {
	if strings.HasPrefix(example, "package main\n") {
		return []byte(example)
	}
	body := example + after
	var list []string
	for name, path := range imports {
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(body) {
			list = append(list, fmt.Sprintf("%q", path))
		}
	}
	slices.Sort(list)
	source, err := format.Source([]byte("package main\n\nimport (\n" + strings.Join(list, "\n") + "\n)\n\n" + body + "\n"))
	require.NoError(t, err)
	return source
}

// writeProxy puts the working tree (what a commit of it would hold) into a module proxy of files.
func writeProxy(t *testing.T, root string) string {
	proxy := t.TempDir()
	dir := filepath.Join(proxy, filepath.FromSlash(modulePath), "@v")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "list"), []byte(version+"\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, version+".info"), []byte(`{"Version":"`+version+`"}`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, version+".mod"), mod, 0o644))
	f, err := os.Create(filepath.Join(dir, version+".zip"))
	require.NoError(t, err)
	z := zip.NewWriter(f)
	for _, name := range treeFiles(t, root) {
		in, err := os.Open(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted and not committed yet
		}
		require.NoError(t, err)
		out, err := z.Create(modulePath + "@" + version + "/" + name)
		require.NoError(t, err)
		_, err = io.Copy(out, in)
		require.NoError(t, err)
		require.NoError(t, in.Close())
	}
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
	return proxy
}

func treeFiles(t *testing.T, root string) (names []string) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	if out, err := list.Output(); err == nil {
		return slices.Compact(slices.Sorted(strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00")))
	}
	// No git, or no checkout: everything there is.
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, path)
		}
		return err
	}))
	return names
}

// stranger runs commands in a module of somebody else's.
type stranger struct {
	t   *testing.T
	dir string
	env []string
}

func (s stranger) try(args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), s.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s stranger) run(args ...string) string {
	s.t.Helper()
	out, err := s.try(args...)
	require.NoError(s.t, err, "%v\n%s", args, out)
	return out
}

// buildAndRun builds all programs and checks what they print.
func (s stranger) buildAndRun(flags ...string) {
	s.t.Helper()
	for _, p := range programs {
		s.run(slices.Concat([]string{"go", "build", "-o", "bin/" + p.name}, flags, []string{"./" + p.name})...)
		require.Regexp(s.t, p.want, s.run("bin/"+p.name), p.name)
	}
}

func goEnv(t *testing.T, name string) string {
	out, err := exec.Command("go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// TestConsumer builds programs in an empty module that gets skeep by `go get` from a module proxy, then with its
// vendor folder, and by a replacement: no CMake, no make, nothing but Go and a C compiler.
func TestConsumer(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the core several times; run without -short")
	}
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	// The core is compiled here to see whether everything is found, not how fast it is: without optimization it
	// takes a tenth of the time. The flag stands behind those of the package.
	compiler := filepath.Join(t.TempDir(), "cc")
	require.NoError(t, os.WriteFile(compiler, []byte("#!/bin/sh\nexec "+goEnv(t, "CC")+` "$@" -O0`+"\n"), 0o755))
	common := []string{"GOWORK=off", "GOTOOLCHAIN=local", "GOSUMDB=off", "GOFLAGS=-mod=mod -modcacherw", "CGO_ENABLED=1",
		"CC=" + compiler}

	t.Run("proxy and vendor", func(t *testing.T) {
		cache := goEnv(t, "GOMODCACHE") // it has the layout of a proxy, too: works without a network
		proxies := []string{"file://" + writeProxy(t, root), "file://" + filepath.Join(cache, "cache", "download"), goEnv(t, "GOPROXY")}
		// A module cache of its own, or the second run would see the tree of the first.
		s := stranger{t, writeModule(t, root), append(common, "GOMODCACHE="+t.TempDir(), "GOPROXY="+strings.Join(proxies, ","))}
		s.run("go", "get", modulePath+"@"+version)
		s.run("go", "mod", "tidy")
		s.buildAndRun()
		list := s.run("go", "list", "-m", "-f", "{{.Path}}", "all")
		require.Contains(t, list, modulePath)
		used := s.run("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./...")
		for name := range strings.FieldsSeq(used) {
			require.Contains(t, []string{"stranger", modulePath, "golang.org/x/sys"}, name, "libraries import nothing else")
		}

		s.run("go", "mod", "vendor")
		for _, name := range []string{"include/skeep.h", "csrc/kernels.def", "csrc/encodings.def", "csrc/tile/tile.h"} {
			require.FileExists(t, filepath.Join(s.dir, "vendor", modulePath, name))
		}
		require.NoError(t, os.RemoveAll(filepath.Join(s.dir, "bin")))
		s.env = append(s.env, "GOFLAGS=-mod=vendor", "GOPROXY=off")
		s.buildAndRun()
	})

	t.Run("replace", func(t *testing.T) {
		s := stranger{t, writeModule(t, root), common}
		s.run("go", "mod", "edit", "-require="+modulePath+"@v0.0.0", "-replace="+modulePath+"="+root)
		s.buildAndRun()
	})
}

// TestUnsupported: without cgo, and for other platforms, the build ends with an error that says what is missing.
func TestUnsupported(t *testing.T) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	for _, c := range []struct{ env, pattern, want string }{
		{"CGO_ENABLED=0", "./go/model", "skeep_requires_cgo_and_a_C_compiler"},
		{"CGO_ENABLED=0", "./go/cmd/skeep", "skeep_requires_cgo_and_a_C_compiler"},
		{"GOOS=windows CGO_ENABLED=0", "./go/internal/core", "skeep_supports_linux_on_amd64_and_arm64"},
		{"GOOS=darwin CGO_ENABLED=0", "./go/internal/core", "skeep_supports_linux_on_amd64_and_arm64"},
		{"GOARCH=riscv64 CGO_ENABLED=0", "./go/internal/core", "skeep_supports_linux_on_amd64_and_arm64"},
	} {
		out, err := stranger{t, root, append(strings.Fields(c.env), "GOFLAGS=")}.try("go", "build", "-o", os.DevNull, c.pattern)
		require.Error(t, err, c.env)
		require.Contains(t, out, "undefined: "+c.want, "%s go build %s", c.env, c.pattern)
	}
	// The C side says it by itself, whoever compiles it.
	cc := strings.Fields(goEnv(t, "CC"))
	out, err := exec.Command(cc[0], append(cc[1:], "-I", filepath.Join(root, "include"), "-U__linux__", "-fsyntax-only",
		filepath.Join(root, "csrc", "op.c"))...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "skeep supports linux on amd64 and arm64")
}
