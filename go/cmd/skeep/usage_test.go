package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// misuse is what cannot be meant, and the word for it. Where the model is missing.gguf, the word shows that the misuse
// was found before any file was opened.
var misuse = []struct {
	args  string // separated by spaces; ~ is an empty one, _ a space
	stdin string
	want  string
}{
	// The prompt, of every kind.
	{"run missing.gguf --ids ~", "", `--ids.*empty`},
	{"run missing.gguf --ids _", "", `--ids: no token id`},
	{"run missing.gguf --ids 1,two", "", `--ids: "two" is not a token id`},
	{"run missing.gguf --ids -1", "", `--ids: "-1" is not a token id`},
	{"run missing.gguf --ids 4294967297", "", `--ids: "4294967297" is not a token id`},
	{"run missing.gguf -p ~", "", `--prompt.*empty`},
	{"run missing.gguf", "\n", `the prompt is empty: standard input contains only a newline`},
	{"run missing.gguf -p x --ids 1", "", `\[prompt ids\]`},
	{"run cut.gguf --ids 9999", "", `cut.gguf`}, // what can be told of the header comes first
	{"run headed.gguf --ids 9999", "", `--ids: token id 9999, want 0 to 259`},
	{"run headed.gguf -p 1234567 --ctx 4", "", `8 more tokens do not fit after 0: the context has 4 positions`},
	{"run mute.gguf", "", `no prompt: standard input is empty`},
	{"perplexity headed.gguf empty.txt", "", `empty.txt: the text has only 1 token`},
	{"perplexity headed.gguf text.txt --ctx 1", "", `a context of 1 position predicts nothing, want at least 2: set --ctx`},
	{"perplexity missing.gguf missing.txt", "", `missing.txt: no such file`},
	{"perplexity missing.gguf .", "", `is a directory`},
	{"tokenize tiny.gguf --decode", "1 9999\n", `token id 9999, want 0 to 259`},
	{"tokenize tiny.gguf --decode", "1 x\n", `"x" is not a token id`},
	{"tokenize tiny.gguf --decode", "1\n\nx\n", `line 3: "x" is not a token id`},
	{"inspect tiny.gguf --tensors blk.9.*", "", `--tensors "blk.9.*": no tensor of the model has a matching name`},

	// Flags: out of range, unknown, empty, given twice, against each other.
	{"run missing.gguf -p x -n 0", "", `-n 0, want at least 1`},
	{"run missing.gguf -p x -n 99999999999999999999", "", `out of range`},
	{"run missing.gguf -p x -n x", "", `invalid syntax`},
	{"run missing.gguf -p x --temp -1", "", `temperature`},
	{"run missing.gguf -p x --temp NaN", "", `temperature`},
	{"run missing.gguf -p x --temp Inf", "", `temperature`},
	{"run missing.gguf -p x --top-k -1", "", `top-k is -1, want 0 to 2147483647`},
	{"run missing.gguf -p x --top-k 99999999999", "", `top-k is 99999999999, want 0 to 2147483647`},
	{"run missing.gguf -p x --top-p 1.5", "", `top-p`},
	{"run missing.gguf -p x --min-p NaN", "", `min-p`},
	{"run missing.gguf -p x --seed -1", "", `--seed`},
	{"run missing.gguf -p x --threads -1", "", `threads -1, want`},
	{"run missing.gguf -p x --threads 1025", "", `threads 1025, want`},
	{"run missing.gguf -p x --ctx -1", "", `context -1, want`},
	{"run missing.gguf -p x --ctx 1073741825", "", `context 1073741825, want`},
	{"run missing.gguf -p x --chunk -1", "", `chunk -1, want`},
	{"run missing.gguf -p x --load sideways", "", `load mode "sideways", want one of`},
	{"run missing.gguf -p x --kv q9", "", `--kv.*"q9"`},
	{"run missing.gguf -p x --kv q8_0", "", `KV cache in Q8_0`},
	{"run missing.gguf -p x --pre none", "", `unknown pre-tokenizer "none"`},
	{"run missing.gguf -p x --form f32", "", `--form "f32", want GLOB=VALUE`},
	{"run missing.gguf -p x --form *=f33", "", `form "f33"`},
	{"run missing.gguf -p x --form [=f32", "", `pattern "\["`},
	{"run missing.gguf -p x --place *=", "", `--place "\*=", want GLOB=VALUE`},
	{"run missing.gguf -p x --place *=cloud", "", `placement "cloud"`},
	{"run missing.gguf -p x --profile phone", "", `mobile_2gb`},
	{"run missing.gguf -p x --profile ./missing.json", "", `missing.json: no such file`},
	{"run missing.gguf -p x --profile ..", "", `--profile ..: not a regular file`},
	{"run missing.gguf -p x --output yaml", "", `output format "yaml", want`},
	{"run missing.gguf -p x --trace .", "", `--trace: .: a folder`},
	{"run missing.gguf -p x --trace -", "", `--trace -, want the name of a file`},
	{"run missing.gguf -p x --trace nowhere/x", "", `--trace: .*nowhere`},
	{"run missing.gguf -p x --cpuprofile tiny.gguf/x", "", `--cpuprofile: .*not a directory`},
	{"run missing.gguf -p x --exact --exact=false", "", `--exact.*already given as "true"`},
	{"run missing.gguf -p x -p y", "", `--prompt.*already given as "x"`},
	{"explain missing.gguf --threads 1 --threads 2", "", `--threads.*already given as "1"`},
	{"explain missing.gguf --why ~", "", `--why.*empty`},
	{"explain tiny.gguf --why nothing", "", `no tensor "nothing"`},
	{"explain missing.gguf -o xml", "", `output format "xml", want`},
	{"inspect missing.gguf --tensors [", "", `--tensors "\["`},
	{"dump missing.gguf t --range 5:4", "", `--range "5:4", want`},
	{"dump missing.gguf t --range 5", "", `--range "5", want`},
	{"dump missing.gguf t --range a:b", "", `--range "a:b", want`},
	{"dump tiny.gguf output_norm.weight --range 0:257", "", `--range "0:257", want A:B with 0 ≤ A ≤ B ≤ 256`},
	{"dump missing.gguf t -o csv", "", `output format "csv", want`},
	{"tokenize missing.gguf --split ~", "", `--split.*empty`},
	{"tokenize missing.gguf --pre none", "", `unknown pre-tokenizer "none"`},
	{"tokenize missing.gguf --decode --split x", "", `\[decode split\]`},
	{"tokenize missing.gguf --decode --bos", "", `\[decode bos\]`},
	{"kernels -o xml", "", `output format "xml", want`},
	{"bench missing.gguf -p -1", "", `-p -1, want 0 to 1048576`},
	{"bench missing.gguf -p x", "", `--prompt.*invalid syntax`},
	{"bench missing.gguf -n 1048577", "", `-n 1048577, want 0 to 1048576`},
	{"bench missing.gguf -p 0 -n 0", "", `nothing to test: -p and -n are 0`},
	{"bench missing.gguf -r 0", "", `-r 0, want 1 to 10000`},
	{"bench missing.gguf -r 99999999999", "", `-r 99999999999, want 1 to 10000`},
	{"bench missing.gguf -r 1 -r 2", "", `--repetitions.*already given as "1"`},
	{"bench missing.gguf -o yaml", "", `output format "yaml", want`},
	{"bench missing.gguf -t 1025", "", `threads 1025, want`},
	{"bench headed.gguf -p 5 -n 0 --ctx 4", "", `5 more tokens do not fit after 0: the context has 4 positions`},
	{"quantize missing.gguf out.gguf", "", `"type" not set`},
	{"quantize missing.gguf out.gguf --type q9", "", `type "q9": unknown type`},
	{"quantize missing.gguf out.gguf --type iq2_xxs", "", `has no encoder`},
	{"quantize missing.gguf out.gguf --type q8_0 --threads -1", "", `-1 threads, want`},
	{"quantize missing.gguf out.gguf --type q8_0 -o json", "", `dry-run`},
	{"quantize missing.gguf - --type q8_0", "", `want the name of a file`},
	{"quantize tiny.gguf . --type q8_0", "", `a folder`},
	{"quantize tiny.gguf /dev/null --type q8_0", "", `OUT: /dev/null is a device, a pipe or an open stream, want a regular file`},
	{"quantize tiny.gguf /dev/stdout --type q8_0", "", `OUT: /dev/stdout is a device, a pipe`},
	{"quantize tiny.gguf fifo --type q8_0", "", `OUT: fifo is a device, a pipe`},
	{"synth /dev/null --params 1", "", `OUT: /dev/null is a device, a pipe`},
	{"inspect /dev/null", "", `gguf: /dev/null: not a regular file`},
	{"inspect lone-00003-of-00005.gguf", "", `gguf: lone-00003-of-00005.gguf: named part 3 of 5, but says it is part 3 of 3`},
	{"inspect miss-00003-of-00003.gguf", "", `gguf: miss-00001-of-00003.gguf: part 1 of 3 is missing`},
	{"synth out.gguf --params -1", "", `--params "-1", want`},
	{"synth out.gguf --params 1e300", "", `--params 1e300: quant: 1e\+300 parameters, want 1 to`},
	{"synth out.gguf --params many", "", `--params "many", want`},
	{"synth out.gguf --arch gpt2", "", `--arch "gpt2", want`},
	{"synth out.gguf --type q9", "", `type "q9"`},
	{"synth out.gguf --seed x", "", `--seed`},
	{"synth out.gguf --layers 0", "", `layers is 0`},
	{"synth out.gguf --width -1", "", `width is -1`},
	{"synth out.gguf --heads 7", "", `heads`},
	{"synth out.gguf --kv-heads 7", "", `7 key-value heads`},
	{"synth out.gguf --ff 0", "", `feed-forward width is 0`},
	{"synth out.gguf --vocab 1", "", `vocabulary is 1`},
	{"synth out.gguf --ctx 0", "", `context is 0`},

	// Profiles.
	{"explain missing.gguf --profile ./null.json", "", `null.json: .*want a JSON object`},
	{"explain missing.gguf --profile ./behind.json", "", `behind.json: .*something follows the object`},
	{"explain missing.gguf --profile ./twice.json", "", `twice.json: .*"budget" occurs twice`},
	{"explain missing.gguf --profile ./2G.json", "", `2G.json: .*"budget" is "2Q", want a number of bytes`},
	{"explain missing.gguf --profile ./nothing.json", "", `nothing.json: .*"kv" is null, want`},
	{"explain missing.gguf --profile ./empty.txt", "", `empty.txt: .*empty, want a JSON object`},
	{"explain missing.gguf --profile ./list.json", "", `list.json: .*want a JSON object`},

	// Arguments and commands.
	{"nope", "", `unknown command "nope"`},
	{"help nope", "", `unknown command "nope"`},
	{"help run nope", "", `unknown command "run nope"`},
	{"completion nope", "", `unknown command "nope"`},
	{"run --nope", "", `unknown flag: --nope`},
	{"run ~", "", `argument 1 is empty`},
	{"run missing.gguf more", "", `received 2`},
	{"run .", "", `not a regular file`},
	{"run missing.gguf -p x", "", `missing.gguf: no such file`},
	{"inspect", "", `received 0`},
	{"inspect missing.gguf more", "", `received 2`},
	{"explain missing.gguf more", "", `received 2`},
	{"dump missing.gguf", "", `received 1`},
	{"dump missing.gguf ~", "", `argument 2 is empty`},
	{"tokenize missing.gguf more", "", `received 2`},
	{"kernels more", "", `unknown command "more"`},
	{"perplexity missing.gguf", "", `received 1`},
	{"bench", "", `received 0`},
	{"bench missing.gguf more", "", `received 2`},
	{"bench missing.gguf", "", `missing.gguf: no such file`},
	{"quantize missing.gguf --type q8_0", "", `OUT is missing`},
	{"quantize missing.gguf ~ --type q8_0", "", `argument 2 is empty`},
	{"quantize missing.gguf a b --type q8_0", "", `received 3`},
	{"synth", "", `received 0`},
	{"pack", "", `received 0`},
	{"plan missing.gguf more", "", `received 2`},
	{"plan missing.gguf", "", `missing.gguf: no such file`},
	{"plan tiny.gguf --budget 1Q", "", `--budget.*"1Q", want a number of bytes`},
	{"plan tiny.gguf --parallel -1", "", `--parallel -1, want at least 1`},
	{"plan tiny.gguf --set nothing", "", `--set "nothing", want KEY=VALUE`},
	{"plan tiny.gguf --compare tiny.gguf", "", `--compare.*needs --html`},
	{"plan tiny.gguf --html new.html --compare missing.gguf", "", `missing.gguf: no such file`},
	{"plan tiny.gguf --html tiny.gguf", "", `--html tiny.gguf is the input itself`},
	{"plan tiny.gguf --html missing/new.html", "", `--html: write missing/new.html: no such file`},
	{"pack missing.gguf more", "", `received 2`},
	{"pack missing.gguf", "", `missing.gguf: no such file`},
	{"pack missing.gguf --output yaml", "", `output format "yaml", want`},
	{"pack tiny.gguf --threads -1", "", `-1 threads, want`},
	{"cache nope", "", `unknown command "nope"`},
	{"cache ls more", "", `unknown command "more"`},
	{"cache rm", "", `want the names of packs, or --all`},
	{"cache rm tiny.gguf", "", `not the name of a pack`},
	{"cache rm ../tiny.gguf", "", `not the name of a pack`},
	{"cache verify ./missing.irpa", "", `missing.irpa: no such file`},
	{"synth ~", "", `argument 1 is empty`},
}

// TestMisuse: what cannot be meant ends with status 2 and a word of its own, before anything is read that it does not
// depend on, and changes nothing.
func TestMisuse(t *testing.T) {
	w := newWorkshop(t)
	model := embedded.Model()
	w.write("cut.gguf", model[:len(model)/2], 0o600)
	for name, content := range map[string]string{"empty.txt": "", "null.json": "null", "behind.json": `{"name": "x"} y`, "twice.json": `{"budget": 1, "budget": 2}`,
		"2G.json": `{"budget": "2Q"}`, "nothing.json": `{"kv": null}`, "list.json": "[]"} {
		w.write(name, []byte(content), 0o600)
	}
	// headed.gguf is whole to those who look at its header; whoever reads a weight of it fails. mute.gguf has no example.
	f, err := gguf.Read(bytes.NewReader(model), int64(len(model)), gguf.Options{})
	require.NoError(t, err)
	at, err := f.Extent("token_embd.weight")
	require.NoError(t, err)
	w.write("headed.gguf", model[:at.Offset], 0o600)
	require.NoError(t, os.Truncate(w.path("headed.gguf"), int64(len(model)))) // a hole of zeros
	h := gguf.HeaderOf(f)
	h.Metadata = slices.DeleteFunc(h.Metadata, func(p gguf.Pair) bool { return p.Key == "skeep.example" })
	require.NoError(t, gguf.WriteFile(w.path("mute.gguf"), h, func(to *gguf.Writer) error { return to.CopyFrom(t.Context(), f) }))

	require.NoError(t, syscall.Mkfifo(w.path("fifo"), 0o600))
	for _, name := range []string{"lone-00003-of-00005.gguf", "miss-00003-of-00003.gguf"} {
		require.NoError(t, os.Link(w.path("set-00003-of-00003.gguf"), w.path(name)))
	}

	before := w.snapshot()
	tried := map[string]bool{}
	for _, x := range misuse {
		args := strings.Fields(x.args)
		for i, a := range args {
			args[i] = map[string]string{"~": "", "_": " "}[a]
			if args[i] == "" && a != "~" {
				args[i] = a
			}
			name, _, _ := strings.Cut(a, "=")
			tried[args[0]+" "+name] = true
		}
		code, stdout, stderr := w.run(args, func(cmd *exec.Cmd) { cmd.Stdin = strings.NewReader(x.stdin) })
		require.Equal(t, 2, code, "%s: %s", x.args, stderr)
		require.Empty(t, stdout, x.args)
		require.Regexp(t, `^skeep: [^\n]*`+x.want+`[^\n]*\n$`, stderr, x.args)
		require.NotContains(t, stderr, "not finite", x.args)
		w.unchanged(before, x.args)
	}

	// Every flag is among them, under one of the commands that have it, and every command.
	var untried []string
	for _, c := range rootCommand().Commands() {
		require.True(t, c.Name() == "help" || tried[c.Name()+" "+c.Name()], c.Name())
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" || c.Name() == "completion" {
				return
			}
			found := slices.ContainsFunc(rootCommand().Commands(), func(other *cobra.Command) bool {
				return other.Flags().Lookup(f.Name) != nil && (tried[other.Name()+" --"+f.Name] || f.Shorthand != "" && tried[other.Name()+" -"+f.Shorthand])
			})
			if !found {
				untried = append(untried, c.Name()+" --"+f.Name)
			}
		})
	}
	require.Empty(t, untried)
}

// TestStatus: what is no misuse, for the other two answers.
func TestStatus(t *testing.T) {
	w := newWorkshop(t)
	w.write("tight.json", []byte(`{"budget": 1, "strict": true}`), 0o600)
	for _, x := range []struct {
		code  int
		args  string
		stdin string
	}{
		{0, "", ""}, {0, "help", ""}, {0, "help run", ""}, {0, "help completion bash", ""}, {0, "completion", ""}, {0, "completion bash", ""}, {0, "run -h", ""},
		{0, "run", ""}, // an empty pipe is no prompt: the model's own example
		{0, "run -n 1 -n 1", "1+1="}, {0, "run --ids 1,2,,3 -n 1", ""}, {0, "tokenize", ""}, {0, "tokenize --decode", ""},
		{0, "run -p 1+1= --form *=f32 --form blk.*=f16 --trace /dev/null", ""},
		{1, "explain --profile tight.json", ""}, {1, "run -p x --profile tight.json", ""},
	} {
		code, _, stderr := w.run(strings.Fields(x.args), func(cmd *exec.Cmd) { cmd.Stdin = strings.NewReader(x.stdin) })
		require.Equal(t, x.code, code, "%s: %s", x.args, stderr)
	}
}

// TestMessagesQuoteWords: a word of the command line with a newline or a control character, whatever it stands for, is
// quoted in the message about it.
func TestMessagesQuoteWords(t *testing.T) {
	w := newWorkshop(t)
	const word = "a\nb\x1b"
	run := func(args ...string) {
		t.Helper()
		code, _, stderr := w.run(args)
		if code == 0 {
			return // a text to be continued is shown as it is
		}
		require.NotContains(t, stderr, "a\nb", "%q", args)
		require.NotContains(t, stderr, "\x1b", "%q", args)
	}
	run(word)
	run("help", word)
	run("completion", word)
	for _, c := range rootCommand().Commands() {
		name, positions, _ := strings.Cut(c.Use, " ")
		given := []string{name}
		for _, p := range strings.Fields(positions) {
			if p = strings.Trim(p, "[]"); p == "" || strings.HasPrefix(p, "-") {
				break
			}
			run(append(slices.Clone(given), word, word, word)[:min(len(given)+1, 4)]...)
			run(append(slices.Clone(given), word+"/x")...)
			given = append(given, map[string]string{"MODEL": "tiny.gguf", "IN": "tiny.gguf", "FILE": "text.txt", "OUT": "out.gguf", "TENSOR": "token_embd.weight"}[p])
		}
		run(append(slices.Clone(given), "--"+word)...)
		run(append(slices.Clone(given), "-"+word)...)
		run(append(slices.Clone(given), "--"+word+"=1")...)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for _, value := range []string{word, word + "=" + word, "./" + word} {
				run(append(slices.Clone(given), "--"+f.Name+"="+value)...)
			}
		})
	}
	t.Setenv("SKEEP_ISA", word)
	run("kernels")
}

// TestJSONKeepsNamesApart: keys and tensors whose names differ only in bytes that are no UTF-8 are two in JSON too.
func TestJSONKeepsNamesApart(t *testing.T) {
	w := newWorkshop(t)
	var h gguf.Header
	var names []string
	for _, name := range []string{"x.\xff", "x.\xfe", "x.\uFFFD", `"x.\xff"`, "x.plain"} {
		h.Set(name, gguf.NumberOf(uint32(len(names))))
		h.Tensors = append(h.Tensors, gguf.TensorSpec{Name: name, Encoding: tensor.EncF32, Shape: tensor.ShapeOf(1)})
		names = append(names, shown.Distinct(name))
	}
	require.NoError(t, gguf.WriteFile(w.path("names.gguf"), h, func(to *gguf.Writer) error {
		for _, x := range h.Tensors {
			out, err := to.Tensor(x.Name)
			if err != nil {
				return err
			}
			if _, err := out.Write([]byte{0, 0, 0xc0, 0x7f}); err != nil { // NaN
				return err
			}
		}
		return nil
	}))
	type named struct{ Name, Tensor string }
	var got struct {
		Metadata                     map[string]struct{ Value int }
		Tensors, Findings, Decisions []named
	}
	_, stdout, stderr := w.run([]string{"inspect", "names.gguf", "--check", "-o", "json"})
	require.NoError(t, json.Unmarshal([]byte(stdout), &got), stderr)
	_, stdout, stderr = w.run([]string{"quantize", "names.gguf", "--type", "q8_0", "--dry-run", "-o", "json"})
	require.NoError(t, json.Unmarshal([]byte(stdout), &got), stderr)
	require.Len(t, got.Metadata, len(names))
	for i, name := range names {
		require.Equal(t, i, got.Metadata[name].Value)
		require.Equal(t, name, got.Tensors[i].Name)
		require.Equal(t, name, got.Findings[i].Tensor)
		require.Equal(t, name, got.Decisions[i].Tensor)
	}
}
