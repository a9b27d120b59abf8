package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/stretchr/testify/require"
)

// TestCrashNamesCFunctions: a fault inside of a kernel ends the process with a trace that names the kernel and the Go
// code that called it. What is between them is missing: cgosymbolizer gives up 1 KiB above the first frame. One
// thread, since a fault on a thread that Go does not know ends the process without any trace.
func TestCrashNamesCFunctions(t *testing.T) {
	crash := filepath.Join(t.TempDir(), "crash")
	out, err := exec.Command("go", "build", "-o", crash, "./testdata/crash").CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.Command(crash, "1").CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, string(out))
	trace := string(out)
	require.Contains(t, trace, "SIGSEGV")
	for _, want := range []string{`skeep_matmul_t_f32_\w+`, `(f32/matmul_t|tile/exact)_\w+\.h:\d+`, `exec\.\(\*Eager\)\.MatMulT`, `main\.main`} {
		require.Regexp(t, want, trace)
	}
}

// TestProfileNamesCFunctions: run --cpuprofile writes what go tool pprof shows C functions of.
func TestProfileNamesCFunctions(t *testing.T) {
	dir := t.TempDir()
	command := filepath.Join(dir, "skeep") // with its symbols, which the test's binary lacks
	out, err := exec.Command("go", "build", "-o", command, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	model, profile := filepath.Join(dir, "tiny.gguf"), filepath.Join(dir, "cpu.out")
	require.NoError(t, os.WriteFile(model, embedded.Model(), 0o644))
	// The profiler looks a hundred times a second: the slowest way to compute a prompt.
	cmd := exec.Command(command, "run", model, "-p", strings.Repeat("1", 240), "-n", "1", "--chunk", "1", "--threads", "1",
		"--cpuprofile", profile)
	cmd.Env = append(os.Environ(), "SKEEP_ISA=portable")
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.Command("go", "tool", "pprof", "-top", "-nodecount=1000", profile).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `\bskeep_matmul_t_f16_f32_portable\b`, string(out))
}
