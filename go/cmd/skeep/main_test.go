package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"skeep": main})
}

// TestScripts runs testdata/script/*.txtar: what people type, what they get. tiny.gguf is the embedded
// model as a file; cut.gguf lacks its last byte, nan.gguf has a NaN among the weights of its last norm, asks.gguf
// asks for EOS behind a text, has "1" for a further end token and a key that nobody knows.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			model := embedded.Model()
			spoilt := bytes.Clone(model)
			f, err := gguf.Read(bytes.NewReader(model), int64(len(model)), gguf.Options{})
			if err != nil {
				return err
			}
			at, err := f.Extent("output_norm.weight")
			if err != nil {
				return err
			}
			copy(spoilt[at.Offset+8:], []byte{0xff, 0xff, 0xff, 0xff}) // NaN in every dense type
			h := gguf.HeaderOf(f)
			h.Set("llama.foo", gguf.NumberOf(uint32(1)))
			h.Set("tokenizer.ggml.add_eos_token", gguf.NumberOf(true))
			h.Set("tokenizer.ggml.eos_token_ids", gguf.NumbersOf([]int32{2, 52}))
			if err := gguf.WriteFile(filepath.Join(e.WorkDir, "asks.gguf"), h, func(w *gguf.Writer) error { return w.CopyFrom(context.Background(), f) }); err != nil {
				return err
			}
			for name, b := range map[string][]byte{"tiny.gguf": model, "cut.gguf": model[:len(model)-1], "nan.gguf": spoilt} {
				if err := os.WriteFile(filepath.Join(e.WorkDir, name), b, 0o644); err != nil {
					return err
				}
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			// jsonkeys FILE KEY…: the object in FILE has these keys; a.b is a key within a.
			"jsonkeys": func(ts *testscript.TestScript, _ bool, args []string) {
				var object map[string]any
				ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &object))
				for _, path := range args[1:] {
					at := any(object)
					for key := range strings.SplitSeq(path, ".") {
						if list, isList := at.([]any); isList && len(list) > 0 {
							at = list[0]
						}
						object, _ := at.(map[string]any)
						inner, found := object[key]
						if !found {
							ts.Fatalf("%s has no key %s", args[0], path)
						}
						at = inner
					}
				}
			},
		},
	})
}

// itself is the command, which the test's binary is when it is called so.
func itself(t *testing.T) string {
	path, err := exec.LookPath("skeep")
	require.NoError(t, err)
	return path
}

// TestMalformedFiles cuts and corrupts a model in many ways: each command ends by itself with exit status
// 0 or 2 and a named error, within a second of processor time and 256 MB, and writes nothing.
func TestMalformedFiles(t *testing.T) {
	command := itself(t)
	model := embedded.Model()
	header := bytes.Index(model, []byte("output_norm.weight")) + 64
	random := rand.New(rand.NewPCG(3, 4))
	files := map[string][]byte{"empty": {}, "text": []byte("hello, world\n"), "zeros": make([]byte, 4096)}
	for i := range 24 {
		cut := random.IntN(header)
		files[fmt.Sprintf("cut at %d", cut)] = model[:cut]
		at, b := random.IntN(header), byte(random.Uint32())
		changed := bytes.Clone(model)
		changed[at] = b
		files[fmt.Sprintf("byte %d set to %d, %d", at, b, i)] = changed
		for k := range 8 {
			changed := bytes.Clone(model[:header+1000])
			changed[(at+k)%header] = 0xff
			files[fmt.Sprintf("255 at %d and no payload, %d", (at+k)%header, i)] = changed
		}
	}
	files["payload cut"] = model[:len(model)-1]
	refused := 0
	for name, content := range files {
		dir := t.TempDir()
		path := filepath.Join(dir, "bad.gguf")
		require.NoError(t, os.WriteFile(path, content, 0o644))
		for _, args := range [][]string{{"inspect", path}, {"explain", path}, {"run", path, "-p", "1+1=", "-n", "1"}} {
			cmd := exec.Command(command, args...)
			cmd.Dir = dir
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			err := cmd.Run()
			state := cmd.ProcessState
			code := state.ExitCode()
			require.Contains(t, []int{0, 2}, code, "%s: %v: %v\n%s", name, args, err, stderr.String())
			if code == 2 {
				refused++
				last := strings.TrimSpace(stderr.String())
				last = last[strings.LastIndexByte(last, '\n')+1:]
				require.Regexp(t, `^skeep: (gguf|arch|tokenizer|model|load|exec|resolver|skeep|sample): .`, last, name)
			}
			require.NotContains(t, stderr.String(), "goroutine", name)
			require.Less(t, state.UserTime()+state.SystemTime(), time.Second+500*time.Millisecond, "%s: %v", name, args)
			require.Less(t, state.SysUsage().(*syscall.Rusage).Maxrss, int64(256<<10), "%s: %v: KiB", name, args)
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1, "nothing is written")
	}
	require.Greater(t, refused, len(files), "most of these are refused")
}

// TestWritesToWhatIsThere: a trace goes through links and into pipes and devices, and replaces none of them.
func TestWritesToWhatIsThere(t *testing.T) {
	command, dir := itself(t), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(path("real.json"), []byte("old"), 0o600))
	require.NoError(t, os.Symlink("real.json", path("link.json")))
	require.NoError(t, syscall.Mkfifo(path("fifo"), 0o600))
	read := make(chan []byte, 1)
	go func() {
		b, _ := os.ReadFile(path("fifo"))
		read <- b
	}()
	for _, name := range []string{"link.json", "fifo", "new.json"} {
		out, err := exec.Command(command, "run", "-p", "1+1=", "--trace", path(name)).CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
	}
	require.Contains(t, string(<-read), "traceEvents")
	for _, name := range []string{"real.json", "new.json"} {
		b, err := os.ReadFile(path(name))
		require.NoError(t, err)
		require.Contains(t, string(b), "traceEvents", name)
	}
	for name, kind := range map[string]os.FileMode{"link.json": os.ModeSymlink, "fifo": os.ModeNamedPipe, "new.json": 0} {
		st, err := os.Lstat(path(name))
		require.NoError(t, err)
		require.Equal(t, kind, st.Mode().Type(), name)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4, "nothing else is left")
}

// TestInterruptEndsWriting: the first signal ends a command whose output nobody takes.
func TestInterruptEndsWriting(t *testing.T) {
	hear(t)
	w := newWorkshop(t)
	cmd := exec.Command(w.command, "tokenize")
	cmd.Dir = w.dir
	cmd.Stdin = strings.NewReader(strings.Repeat("1+1=2\n", 100000)) // more ids than a pipe holds
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	var begun [1]byte
	_, err = out.Read(begun[:]) // and then no more
	require.NoError(t, err)
	time.Sleep(300 * time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	state, err := cmd.Process.Wait() // cmd.Wait would close the pipe, which ends the write too
	require.NoError(t, err)
	late.Stop()
	require.Equal(t, 2, state.ExitCode())
	_ = cmd.Wait()
	require.Equal(t, "skeep: interrupted\n", stderr.String())
}

// TestInterruptEndsReading: the first signal ends a command that waits for input, whichever it is, or works on it.
func TestInterruptEndsReading(t *testing.T) {
	hear(t)
	w := newWorkshop(t)
	require.NoError(t, syscall.Mkfifo(w.path("fifo"), 0o600)) // never opened by anybody else
	long := bytes.Repeat([]byte("1+1=2\n"), 4<<20)
	for i, x := range []struct {
		args  []string
		stdin []byte // nil: none ever comes
	}{
		{[]string{"tokenize"}, nil}, {[]string{"tokenize", "--decode"}, nil}, {[]string{"run"}, nil}, {[]string{"run", "tiny.gguf", "-n", "1"}, nil},
		{[]string{"perplexity", "tiny.gguf", "fifo"}, nil}, {[]string{"perplexity", "tiny.gguf", "/dev/stdin"}, nil},
		{[]string{"tokenize"}, long}, {[]string{"tokenize", "--decode"}, bytes.Repeat([]byte("1 "), 16<<20)},
	} {
		cmd := exec.Command(w.command, x.args...)
		cmd.Dir = w.dir
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		if x.stdin != nil {
			_, err := in.Write(x.stdin)
			require.NoError(t, err)
			require.NoError(t, in.Close())
		} else {
			time.Sleep(300 * time.Millisecond)
		}
		require.NoError(t, cmd.Process.Signal([]os.Signal{os.Interrupt, syscall.SIGTERM}[i%2]))
		err = cmd.Wait()
		require.Equal(t, 2, cmd.ProcessState.ExitCode(), "%v: %v", x.args, err)
		require.Equal(t, "skeep: interrupted\n", stderr.String(), x.args)
		_ = in.Close() // Wait has
	}

	// A profile is a regular file, so nothing is waited for.
	for _, args := range [][]string{{"run", "-p", "x"}, {"explain"}, {"perplexity", "tiny.gguf", "text.txt"}} {
		for _, name := range []string{"./fifo", "/dev/zero", "."} {
			code, _, stderr := w.run(append(args, "--profile", name))
			require.Equal(t, 2, code, args)
			require.Equal(t, "skeep: --profile "+name+": not a regular file\n", stderr, args)
		}
	}
}

// TestForeignNames: nothing that a file calls anything acts on a terminal, or adds a line or a column to a table.
func TestForeignNames(t *testing.T) {
	w := newWorkshop(t)
	const hostile = "x\x1b[31m\u009b|\n\r\x00y"
	f, err := gguf.Read(bytes.NewReader(embedded.Model()), int64(len(embedded.Model())), gguf.Options{})
	require.NoError(t, err)
	h := gguf.HeaderOf(f)
	h.Set("llama."+hostile, gguf.TextOf(hostile))
	require.NoError(t, gguf.WriteFile(w.path("keys.gguf"), h, func(to *gguf.Writer) error { return to.CopyFrom(t.Context(), f) }))
	was, is := []byte("blk.0.attn_q.weight"), []byte("blk.0."+hostile)
	require.Len(t, is, len(was))
	w.write("names.gguf", bytes.ReplaceAll(embedded.Model(), was, is), 0o600)
	require.NoError(t, os.Link(w.path("tiny.gguf"), w.path("tiny\x1b.gguf")))
	control := func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 }
	for _, line := range []string{
		"inspect FILE", "inspect FILE -o csv", "inspect FILE -o md", "inspect FILE --check", "inspect FILE --metadata",
		"explain FILE", "explain FILE -o md", "explain FILE -o csv", "run FILE -p 1+1= -n 2", "run FILE -p 1+1= -n 2 -o json", "tokenize FILE --bos",
		"quantize FILE --type q8_0 --dry-run", "quantize FILE --type q8_0 --dry-run -o md", "quantize FILE out.gguf --type q8_0", "dump FILE token_embd.weight --range 0:1",
		"dump FILE x\x1b", "perplexity FILE text.txt", "bench FILE -p 2 -n 2 -r 1", "bench FILE -p 2 -n 0 -r 1 -o csv", "nope\x1b", "run FILE --nope\x1b", "inspect FILE\x1b",
	} {
		for _, name := range []string{"keys.gguf", "names.gguf", "tiny\x1b.gguf"} {
			args := strings.Fields(strings.ReplaceAll(line, "FILE", name))
			_, stdout, stderr := w.run(args)
			require.False(t, strings.ContainsFunc(stdout+stderr, control), "%q: %q", args, stdout+stderr)
		}
	}
	_, plain, _ := w.run([]string{"inspect", "tiny.gguf", "-o", "md"})
	_, stdout, stderr := w.run([]string{"inspect", "keys.gguf", "-o", "md"})
	require.Equal(t, strings.Count(plain, "\n")+1, strings.Count(stdout, "\n"), "one row more")
	require.Contains(t, stdout, `"llama.x\x1b[31m\u009b\|\n\r\x00y"`)
	require.Contains(t, stderr, `note: "llama.x\x1b[31m\u009b|\n\r\x00y": unknown key`)
	unescaped := regexp.MustCompile(`(^|[^\\])\|`)
	for line := range strings.Lines(strings.Split(stdout, "\n\n")[0]) {
		require.Len(t, unescaped.FindAllString(line, -1), 4, line)
	}
	_, stdout, _ = w.run([]string{"inspect", "names.gguf"})
	require.Contains(t, stdout, `"blk.0.x\x1b[31m\u009b|\n\r\x00y"`)
}

// TestEndlessText: a text without an end is refused by a limit, in memory that the limit bounds.
func TestEndlessText(t *testing.T) {
	w := newWorkshop(t)
	zeros, err := os.Open("/dev/zero")
	if err != nil {
		t.Skip("no endless input: ", err)
	}
	defer zeros.Close()
	for _, args := range [][]string{{"run", "-n", "1"}, {"tokenize"}, {"tokenize", "--decode"}, {"perplexity", "tiny.gguf", "/dev/zero"}} {
		var ended *exec.Cmd
		code, stdout, stderr := w.run(args, func(cmd *exec.Cmd) { cmd.Stdin, ended = zeros, cmd })
		require.Less(t, ended.ProcessState.SysUsage().(*syscall.Rusage).Maxrss, int64(4*maxText>>10), "%v: KiB", args)
		require.Equal(t, 2, code, args)
		require.Empty(t, stdout, args)
		require.Regexp(t, `^skeep: (standard input|/dev/zero): the text is larger than the maximum of 256 MiB\n$`, stderr, args)
	}
}

// TestFullDevice: what could not be written is an error, whoever wrote it.
func TestFullDevice(t *testing.T) {
	command := itself(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no full device: ", err)
	}
	defer full.Close()
	model := filepath.Join(t.TempDir(), "tiny.gguf")
	require.NoError(t, os.WriteFile(model, embedded.Model(), 0o644))
	for _, args := range [][]string{{"kernels"}, {"kernels", "-o", "json"}, {"explain"}, {"inspect", model}, {"run", "-p", "1+1="},
		{"quantize", model, "--type", "q8_0", "--dry-run"}, {"dump", model, "output_norm.weight"}} {
		cmd := exec.Command(command, args...)
		cmd.Stdout = full
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		require.Error(t, cmd.Run(), args)
		require.Equal(t, 2, cmd.ProcessState.ExitCode(), args)
		require.Contains(t, stderr.String(), "no space left", args)
	}
}
