package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs of the README compile; its functions are those of the examples that run as tests.
func TestGoOfTheReadmeIsReal(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("../go/exec/example_test.go")
	require.NoError(t, err)
	parts := strings.Split(string(readme), "```go\n")
	require.Len(t, parts, 3)
	for _, part := range parts[1:] {
		code, _, closed := strings.Cut(part, "```")
		require.True(t, closed)
		if !strings.HasPrefix(code, "package main\n") {
			require.Contains(t, string(example), code)
			continue
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "main.go")
		require.NoError(t, os.WriteFile(file, []byte(code), 0o600))
		build := exec.Command("go", "build", "-o", filepath.Join(dir, "program"), file)
		build.Dir = ".."
		out, err := build.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}
