package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/stretchr/testify/require"
)

// workshop is a folder with models, and the command that works in it.
type workshop struct {
	*testing.T
	command, dir string
}

// newWorkshop has tiny.gguf, the embedded model; set-0000?-of-00003.gguf, the same in parts; links to them; text.txt, p.json.
func newWorkshop(t *testing.T) workshop {
	w := workshop{t, itself(t), t.TempDir()}
	w.write("tiny.gguf", embedded.Model(), 0o640)
	w.write("text.txt", []byte("1+2=3\n"), 0o600)
	w.write("p.json", []byte(`{"name": "kiosk"}`), 0o600)
	f, err := gguf.Open(w.path("tiny.gguf"), gguf.Options{})
	require.NoError(t, err)
	paths, err := gguf.Split(t.Context(), f, w.path("set"), gguf.PartLimits{Tensors: 10})
	require.NoError(t, err)
	require.Len(t, paths, 3)
	require.NoError(t, f.Close())
	for _, name := range []string{"tiny.gguf", "set-00002-of-00003.gguf", "p.json", "text.txt"} {
		require.NoError(t, os.Link(w.path(name), w.path("hard-"+name)))
		require.NoError(t, os.Symlink(name, w.path("soft-"+name)))
	}
	require.NoError(t, os.Symlink(".", w.path("here")))
	return w
}

func (w workshop) path(name string) string { return filepath.Join(w.dir, name) }

func (w workshop) write(name string, content []byte, mode os.FileMode) {
	require.NoError(w, os.WriteFile(w.path(name), content, mode))
	require.NoError(w, os.Chmod(w.path(name), mode))
}

func (w workshop) read(name string) string {
	b, err := os.ReadFile(w.path(name))
	require.NoError(w, err)
	return string(b)
}

// snapshot is every name with its permissions and a sum of its content.
func (w workshop) snapshot() map[string]string {
	all := map[string]string{}
	entries, err := os.ReadDir(w.dir)
	require.NoError(w, err)
	for _, e := range entries {
		st, err := os.Lstat(w.path(e.Name()))
		require.NoError(w, err)
		sum := sha256.New()
		if st.Mode().IsRegular() {
			f, err := os.Open(w.path(e.Name()))
			require.NoError(w, err)
			_, err = io.Copy(sum, f)
			require.NoError(w, errors.Join(err, f.Close()))
		}
		all[e.Name()] = fmt.Sprintf("%s %x", st.Mode(), sum.Sum(nil))
	}
	return all
}

// unchanged requires that the folder is what it was, but for some names.
func (w workshop) unchanged(before map[string]string, what any, but ...string) {
	w.Helper()
	after := w.snapshot()
	for _, name := range but {
		delete(before, name)
		delete(after, name)
	}
	for name, was := range before {
		is, there := after[name]
		require.True(w, there, "%v: %s is gone", what, name)
		require.True(w, is == was, "%v: %s is another", what, name)
		delete(after, name)
	}
	require.Empty(w, after, "%v: left behind", what)
}

// run runs the command to its end; streams change what it is given for standard input, output and error.
func (w workshop) run(args []string, streams ...func(*exec.Cmd)) (code int, stdout, stderr string) {
	w.Helper()
	cmd := exec.Command(w.command, args...)
	cmd.Dir = w.dir
	var out, notes bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &notes
	for _, s := range streams {
		s(cmd)
	}
	err := cmd.Run()
	require.NotNil(w, cmd.ProcessState, "%v: %v", args, err)
	require.NotContains(w, notes.String(), "goroutine", "%v", args)
	return cmd.ProcessState.ExitCode(), out.String(), notes.String()
}

func (w workshop) open(name string, flag int) *os.File {
	f, err := os.OpenFile(w.path(name), flag, 0o600)
	require.NoError(w, err)
	w.Cleanup(func() { _ = f.Close() })
	return f
}

// TestOutputIsNoInput: whatever a command writes, and by whatever name, it is nothing that the command reads and
// nothing that it writes otherwise. It is refused before anything is computed, and nothing changes.
func TestOutputIsNoInput(t *testing.T) {
	w := newWorkshop(t)
	type command struct {
		args   []string // OUT stands for the output
		inputs []string // names of it that are inputs
	}
	var commands []command
	names := func(name string) []string {
		return []string{name, "./" + name, "here/" + name, "hard-" + name, "soft-" + name, "here/soft-" + name, w.path(name)}
	}
	tiny, profile := names("tiny.gguf"), names("p.json")
	var parts []string
	for i := 1; i <= 3; i++ {
		parts = append(parts, fmt.Sprintf("set-%05d-of-00003.gguf", i))
	}
	parts = append(parts, "hard-"+parts[1], "soft-"+parts[1], "here/"+parts[2])
	for _, flag := range []string{"--trace", "--cpuprofile"} {
		commands = append(commands,
			command{[]string{"run", "tiny.gguf", "-p", "1+1=", flag, "OUT"}, tiny},
			command{[]string{"run", "soft-tiny.gguf", "-p", "1+1=", flag, "OUT"}, tiny},
			command{[]string{"run", "set-00003-of-00003.gguf", "-p", "1+1=", flag, "OUT"}, parts},
			command{[]string{"run", "tiny.gguf", "-p", "1+1=", "--profile", "./p.json", flag, "OUT"}, profile},
			command{[]string{"run", "-p", "1+1=", "--profile", "p.json", flag, "OUT"}, profile},
			command{[]string{"run", "tiny.gguf", flag, "OUT"}, names("text.txt")}, // standard input
			command{[]string{"run", flag, "OUT"}, names("text.txt")})
	}
	commands = append(commands,
		command{[]string{"quantize", "tiny.gguf", "OUT", "--type", "q8_0"}, tiny},
		command{[]string{"quantize", "set-00001-of-00003.gguf", "OUT", "--type", "q8_0"}, parts},
		command{[]string{"synth", "OUT", "--params", "1"}, names("text.txt")})
	before := w.snapshot()
	for i, c := range commands {
		if testing.Short() { // each command and each name, not each with each
			c.inputs = []string{c.inputs[i%len(c.inputs)]}
		}
		for _, name := range c.inputs {
			args := strings.Split(strings.ReplaceAll(strings.Join(c.args, "\x00"), "OUT", name), "\x00")
			code, stdout, stderr := w.run(args, func(cmd *exec.Cmd) { cmd.Stdin = w.open("text.txt", os.O_RDONLY) })
			require.Equal(t, 2, code, "%v: %s", args, stderr)
			require.Empty(t, stdout, args)
			require.Regexp(t, `^skeep: \S+ .* is (the input itself|a part of (IN|MODEL)): .+\n$`, stderr, args)
			require.Contains(t, stderr, name, args)
			other := strings.Contains(name, "set-") && !strings.HasSuffix(args[1], name[len(name)-len("00001-of-00003.gguf"):])
			require.Equal(t, other, strings.Contains(stderr, "is a part of"), args)
			w.unchanged(before, args)
		}
	}

	// Standard output that goes into an input.
	for i, args := range [][]string{
		{"run", "FILE", "-p", "1+1="}, {"inspect", "FILE"}, {"explain", "FILE"}, {"dump", "FILE", "output_norm.weight"}, {"tokenize", "FILE"},
		{"perplexity", "FILE", "text.txt"}, {"bench", "FILE", "-p", "1", "-n", "0", "-r", "1"}, {"perplexity", "tiny.gguf", "FILE"}, {"quantize", "FILE", "--type", "q8_0", "--dry-run"},
		{"explain", "tiny.gguf", "--profile", "./FILE"}, {"run", "--trace", "FILE"}, {"run", "--cpuprofile", "FILE"}, {"synth", "FILE"},
		{"quantize", "tiny.gguf", "FILE", "--type", "q8_0"},
		{"run", "FILE", "-n", "0"}, {"inspect", "FILE", "--nope"}, {"explain", "FILE", "more"}, {"explain", "--profile=./FILE", "-o", "xml"}, // wrong otherwise
		{"inspect", "./FILE", "-o", "xml"}, {"explain", "--profile", "FILE"},
	} {
		inputs := []string{"tiny.gguf", "hard-set-00002-of-00003.gguf", "soft-text.txt"}
		if testing.Short() {
			inputs = inputs[i%3:][:1]
		}
		for _, name := range inputs {
			args := strings.Split(strings.ReplaceAll(strings.Join(args, "\x00"), "FILE", name), "\x00")
			for _, stream := range []func(*exec.Cmd, *os.File){
				func(cmd *exec.Cmd, f *os.File) { cmd.Stdout = f }, func(cmd *exec.Cmd, f *os.File) { cmd.Stderr = f },
			} {
				flag := []int{os.O_APPEND, 0}[i%2] // behind it, or over its beginning
				code, _, _ := w.run(args, func(cmd *exec.Cmd) { stream(cmd, w.open(name, os.O_WRONLY|flag)) })
				require.Equal(t, 2, code, args)
				w.unchanged(before, args) // not even by the message
			}
		}
	}

	for _, args := range [][]string{{"run"}, {"tokenize", "--decode"}, {"run", "-n", "0"}, {"inspect", "set-00001-of-00003.gguf", "-o", "xml"}} {
		in, name := "text.txt", "text.txt"
		if args[0] == "inspect" { // one part of a set, and errors into another
			name = "set-00003-of-00003.gguf"
		}
		code, _, _ := w.run(args, func(cmd *exec.Cmd) {
			cmd.Stdin, cmd.Stderr = w.open(in, os.O_RDONLY), w.open(name, os.O_WRONLY|os.O_APPEND)
		})
		require.Equal(t, 2, code, args)
		w.unchanged(before, args)
	}

	// Two outputs in one.
	w.write("old.json", []byte("old"), 0o600)
	require.NoError(t, os.Symlink("old.json", w.path("soft.json")))
	before = w.snapshot()
	for _, pair := range [][2]string{{"new", "new"}, {"new", "here/new"}, {"old.json", "soft.json"}, {"old.json", "here/old.json"}} {
		code, _, stderr := w.run([]string{"run", "-p", "1+1=", "--trace", pair[0], "--cpuprofile", pair[1]})
		require.Equal(t, 2, code, pair)
		require.Equal(t, fmt.Sprintf("skeep: --cpuprofile %s and --trace %s are the same file\n", pair[1], pair[0]), stderr)
		w.unchanged(before, pair)
	}
	code, _, stderr := w.run([]string{"run", "-p", "1+1=", "--trace", "old.json"}, func(cmd *exec.Cmd) { cmd.Stdout = w.open("old.json", os.O_WRONLY) })
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--trace old.json and standard output are the same file")
	w.unchanged(before, "standard output")
}

// TestStandardOutputByName: /dev/stdout is standard output, whatever that is: behind the text, in the same pipe or file.
func TestStandardOutputByName(t *testing.T) {
	w := newWorkshop(t)
	for _, name := range []string{"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"} {
		args := []string{"run", "-p", "1+1=", "--trace", name}
		code, piped, stderr := w.run(args)
		require.Zero(t, code, stderr)
		w.write("out", nil, 0o600)
		code, _, stderr = w.run(args, func(cmd *exec.Cmd) { cmd.Stdout = w.open("out", os.O_WRONLY) })
		require.Zero(t, code, stderr)
		for _, got := range []string{piped, w.read("out")} {
			require.Regexp(t, `^2\n\{"displayTimeUnit"`, got)
		}
	}
	args := []string{"run", "--trace", "/dev/stdin"} // is an input
	code, _, stderr := w.run(args, func(cmd *exec.Cmd) { cmd.Stdin = w.open("text.txt", os.O_RDWR) })
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--trace /dev/stdin is the input itself: standard input")
}

// TestRefusedRunLeavesOlderRecordings: what ends before anything is computed changes no file.
func TestRefusedRunLeavesOlderRecordings(t *testing.T) {
	w := newWorkshop(t)
	w.write("trace.json", []byte("old"), 0o600)
	w.write("cpu.out", []byte("old"), 0o600)
	w.write("tight.json", []byte(`{"budget": 1, "strict": true}`), 0o600)
	w.write("cut.gguf", embedded.Model()[:len(embedded.Model())-1], 0o600)
	before := w.snapshot()
	for _, x := range []struct {
		code int
		args []string
	}{
		{2, []string{"missing.gguf", "-p", "x"}}, {2, []string{"cut.gguf", "-p", "x"}}, {2, []string{"text.txt", "-p", "x"}},
		{2, []string{"tiny.gguf", "-p", ""}}, {2, []string{"tiny.gguf", "--ids", "1 9999"}}, {2, []string{"tiny.gguf", "--ids", "x"}},
		{2, []string{"tiny.gguf", "-p", "far too long", "--ctx", "4"}}, {2, []string{"tiny.gguf", "-p", "x", "--form", "nomatch*=f32"}},
		{2, []string{"tiny.gguf", "-p", "x", "--kv", "q8_0"}}, {1, []string{"tiny.gguf", "-p", "x", "--profile", "tight.json"}},
	} {
		for _, outputs := range [][]string{{"--trace", "trace.json"}, {"--cpuprofile", "cpu.out"}, {"--trace", "trace.json", "--cpuprofile", "cpu.out"}} {
			args := append(append([]string{"run"}, x.args...), outputs...)
			code, stdout, stderr := w.run(args)
			require.Equal(t, x.code, code, "%v: %s", args, stderr)
			require.Empty(t, stdout)
			w.unchanged(before, args)
		}
	}
}

// failure is what a trace says of how its run ended, and what a CPU profile says.
func (w workshop) failure(traceFile, cpuProfile string) (inTrace, inProfile string) {
	w.Helper()
	var got struct {
		OtherData   map[string]any
		TraceEvents []any
	}
	require.NoError(w, json.Unmarshal([]byte(w.read(traceFile)), &got))
	require.Greater(w, len(got.TraceEvents), 20)
	inTrace, _ = got.OtherData["failed"].(string)
	p, err := profile.ParseData([]byte(w.read(cpuProfile)))
	require.NoError(w, err)
	return inTrace, strings.Join(p.Comments, "\n")
}

// TestFailedRunIsRecorded: the trace and the profile of a run that failed on its way are kept, and say so.
func TestFailedRunIsRecorded(t *testing.T) {
	w := newWorkshop(t)
	model := bytes.Clone(embedded.Model())
	f, err := gguf.Read(bytes.NewReader(model), int64(len(model)), gguf.Options{})
	require.NoError(t, err)
	at, err := f.Extent("output_norm.weight")
	require.NoError(t, err)
	copy(model[at.Offset+8:], []byte{0xff, 0xff, 0xff, 0xff})
	w.write("nan.gguf", model, 0o600)
	w.write("trace.json", []byte("old"), 0o600)
	w.write("cpu.out", []byte("old"), 0o640)
	before := w.snapshot()
	args := []string{"-p", "1+1=", "--trace", "trace.json", "--cpuprofile", "cpu.out"}
	code, _, stderr := w.run(append([]string{"run", "nan.gguf"}, args...))
	require.Equal(t, 2, code)
	inTrace, inProfile := w.failure("trace.json", "cpu.out")
	require.NotEmpty(t, inTrace)
	require.Contains(t, stderr, inTrace)
	require.Equal(t, "failed: "+inTrace, inProfile)
	w.unchanged(before, args, "trace.json", "cpu.out")

	code, _, _ = w.run(append([]string{"run", "tiny.gguf"}, args...))
	require.Zero(t, code)
	inTrace, inProfile = w.failure("trace.json", "cpu.out")
	require.Empty(t, inTrace+inProfile)
	for name, want := range map[string]os.FileMode{"trace.json": 0o600, "cpu.out": 0o640} {
		st, err := os.Stat(w.path(name))
		require.NoError(t, err)
		require.Equal(t, want, st.Mode(), name)
	}
}

// hear makes signals reach the commands that a test starts, also where the test itself runs with some ignored.
func hear(t *testing.T) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, endings...)
	t.Cleanup(func() { signal.Stop(heard) })
}

// half waits for a temporary of a file with something in it, while cmd runs.
func (w workshop) half(cmd *exec.Cmd, name string) (temporary string) {
	w.Helper()
	for range 6000 {
		found, err := filepath.Glob(w.path(name) + ".skeep-*.tmp")
		require.NoError(w, err)
		if len(found) > 0 {
			if st, err := os.Stat(found[0]); err == nil && st.Size() > 0 {
				return found[0]
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	require.Fail(w, "nothing is written")
	return ""
}

// start starts a command that takes long to write big.gguf.
func (w workshop) start(args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	w.Helper()
	cmd = exec.Command(w.command, args...)
	cmd.Dir = w.dir
	stderr = &bytes.Buffer{}
	cmd.Stderr = stderr
	require.NoError(w, cmd.Start())
	return cmd, stderr
}

// TestSignalsLeaveNothing: a signal in the middle of writing a model leaves what was there, and nothing else; so do
// two, of which the second ends the process at once. What even a signal cannot do, the next run does.
func TestSignalsLeaveNothing(t *testing.T) {
	hear(t)
	w := newWorkshop(t)
	w.write("big.gguf", []byte("old"), 0o600)
	code, _, stderr := w.run([]string{"synth", "in.gguf", "--params", "80M", "--type", "f16"})
	require.Zero(t, code, stderr)
	before := w.snapshot()
	endless := [][]string{{"synth", "big.gguf", "--params", "13B", "--type", "f32"}, {"quantize", "in.gguf", "big.gguf", "--type", "q2_k", "--threads", "1"}}
	for _, args := range endless {
		for _, s := range endings {
			cmd, stderr := w.start(args...)
			w.half(cmd, "big.gguf")
			require.NoError(t, cmd.Process.Signal(s))
			_ = cmd.Wait()
			require.Equal(t, 2, cmd.ProcessState.ExitCode(), "%v %v", args, s)
			require.Contains(t, stderr.String(), "skeep: interrupted\n")
			w.unchanged(before, s)
		}
		cmd, stacks := w.start(args...)
		w.half(cmd, "big.gguf")
		require.NoError(t, cmd.Process.Signal(syscall.SIGQUIT))
		require.Error(t, cmd.Wait())
		require.Contains(t, stacks.String(), "SIGQUIT: quit", "the stacks, as the signal is for")
		w.unchanged(before, "quit")

		for _, second := range append([]os.Signal{syscall.SIGQUIT}, endings...) {
			cmd, _ = w.start(args...)
			w.half(cmd, "big.gguf")
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			_ = cmd.Process.Signal(second)
			require.Error(t, cmd.Wait())
			w.unchanged(before, fmt.Sprint("two signals, the second ", second))
		}

		cmd, _ = w.start(args...)
		left := w.half(cmd, "big.gguf")
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		require.FileExists(t, left)
		w.unchanged(before, "killed", filepath.Base(left))

		other, _ := w.start(args...) // beside the leftover, another that is alive
		alive := ""
		for alive == "" || alive == left {
			alive = w.half(other, "big.gguf")
		}
		code, _, stderr := w.run([]string{"synth", "big.gguf", "--params", "1"})
		require.Zero(t, code, stderr)
		require.NoFileExists(t, left)
		require.FileExists(t, alive)
		require.NoError(t, other.Process.Signal(os.Interrupt))
		require.Error(t, other.Wait())
		st, err := os.Stat(w.path("big.gguf"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), st.Mode())
		w.write("big.gguf", []byte("old"), 0o600)
		w.unchanged(before, "next run")
	}
}

// TestInterruptedRunIsRecorded: signals end a run on its way, and its trace and profile say so; so does the end of who
// reads its text. A signal before that leaves older ones.
func TestInterruptedRunIsRecorded(t *testing.T) {
	hear(t)
	w := newWorkshop(t)
	code, _, stderr := w.run([]string{"synth", "long.gguf", "--params", "4M", "--type", "f16"})
	require.Zero(t, code, stderr)
	args := []string{"run", "long.gguf", "--ctx", "1000000", "-n", "900000", "--ids", "1", "--trace", "trace.json", "--cpuprofile", "cpu.out", "--temp", "1"}
	for _, s := range append(endings, nil) {
		w.write("trace.json", []byte("old"), 0o600)
		w.write("cpu.out", []byte("old"), 0o600)
		before := w.snapshot()
		cmd := exec.Command(w.command, args...)
		cmd.Dir = w.dir
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		var notes bytes.Buffer
		cmd.Stderr = &notes
		require.NoError(t, cmd.Start())
		_, err = io.ReadFull(out, make([]byte, 3))
		require.NoError(t, err, "%s", notes.String())
		want := "interrupted"
		if s == nil {
			want = "broken pipe"
			require.NoError(t, out.Close())
		} else {
			require.NoError(t, cmd.Process.Signal(s))
			_, _ = io.Copy(io.Discard, out)
		}
		_ = cmd.Wait()
		require.Equal(t, 2, cmd.ProcessState.ExitCode(), "%v: %s", s, notes.String())
		require.Equal(t, s != nil, strings.HasSuffix(notes.String(), "skeep: interrupted\n"), "%v: %s", s, notes.String())
		inTrace, inProfile := w.failure("trace.json", "cpu.out")
		require.Contains(t, inTrace, want, s)
		require.Equal(t, "failed: "+inTrace, inProfile)
		w.unchanged(before, s, "trace.json", "cpu.out")
	}

	before := w.snapshot()
	cmd := exec.Command(w.command, "run", "--trace", "trace.json")
	cmd.Dir = w.dir
	in, err := cmd.StdinPipe() // never written to
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for range 1000 {
		if found, _ := filepath.Glob(w.path("trace.json.skeep-*")); len(found) > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	_ = cmd.Wait()
	_ = in.Close()
	require.Equal(t, 2, cmd.ProcessState.ExitCode())
	w.unchanged(before, "waiting")
}

// TestHangUpStaysIgnored: a command under nohup goes on.
func TestHangUpStaysIgnored(t *testing.T) {
	w := newWorkshop(t)
	cmd := exec.Command("sh", "-c", `trap "" HUP; exec "$0" quantize tiny.gguf out.gguf --type q2_k --threads 1`, w.command)
	cmd.Dir = w.dir
	require.NoError(t, cmd.Start())
	w.half(cmd, "out.gguf")
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	require.NoError(t, cmd.Wait())
	require.FileExists(t, w.path("out.gguf"))
}

// TestOneOfTwoWins: of two processes that write one file at once, one wins wholly.
func TestOneOfTwoWins(t *testing.T) {
	w := newWorkshop(t)
	var whole []string
	for seed := range 3 {
		name := fmt.Sprintf("%d.gguf", seed)
		code, _, stderr := w.run([]string{"synth", name, "--params", "1", "--seed", fmt.Sprint(seed)})
		require.Zero(t, code, stderr)
		whole = append(whole, w.read(name))
	}
	require.NotEqual(t, whole[0], whole[1])
	before := w.snapshot()
	for range 3 {
		var all []*exec.Cmd
		for seed := range 3 {
			cmd, _ := w.start("synth", "out.gguf", "--params", "1", "--seed", fmt.Sprint(seed))
			all = append(all, cmd)
		}
		for _, cmd := range all {
			require.NoError(t, cmd.Wait())
		}
		require.Contains(t, whole, w.read("out.gguf"))
		w.unchanged(before, "three", "out.gguf")
	}
}

// TestFullDisk: where there is no room, there is an error, the older file, and nothing else.
func TestFullDisk(t *testing.T) {
	w := newWorkshop(t)
	require.NoError(t, os.Mkdir(w.path("small"), 0o755))
	if err := syscall.Mount("none", w.path("small"), "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("no small file system: ", err)
	}
	defer func() { require.NoError(t, syscall.Unmount(w.path("small"), 0)) }()
	w.write("small/old", []byte("old"), 0o600)
	for _, args := range [][]string{
		{"quantize", "tiny.gguf", "small/old", "--type", "q8_0"}, {"synth", "small/old"},
		{"run", "-p", "12345+54321=", "--trace", "small/old", "--form", "*=f32"},
	} {
		if args[0] == "run" { // leave no room for a trace
			w.write("small/rest", make([]byte, 200<<10), 0o600)
		}
		code, _, stderr := w.run(args)
		require.Equal(t, 2, code, args)
		require.Contains(t, stderr, "small/old: no space left on device", args)
		require.Equal(t, "old", w.read("small/old"))
		left, err := fs.Glob(os.DirFS(w.path("small")), "*.tmp")
		require.NoError(t, err)
		require.Empty(t, left)
	}
}
