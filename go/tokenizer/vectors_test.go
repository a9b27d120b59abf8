package tokenizer_test

import (
	stdcmp "cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/tokenizer"
)

// vector is a text and its ids: no BOS, special tokens not parsed.
type vector struct {
	Text string  `json:"text"`
	IDs  []int32 `json:"ids"`
}

// vocabularies are the real ones in SKEEP_TEST_MODELS/vocab.
var vocabularies = []string{"llama-spm", "gpt-2", "falcon", "starcoder", "deepseek-llm", "qwen2"}

func models(t testing.TB) string {
	dir := os.Getenv("SKEEP_TEST_MODELS")
	if dir == "" {
		t.Skip("SKEEP_TEST_MODELS is not set: real vocabularies are not tested")
	}
	return dir
}

func open(t testing.TB, path string) arch.Header {
	f, err := gguf.Open(path, gguf.Options{HeaderOnly: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func vocabulary(t testing.TB, name string) (arch.Header, []vector) {
	path := filepath.Join(models(t), "vocab", name+".gguf")
	in, err := os.ReadFile(path + ".inp")
	require.NoError(t, err)
	out, err := os.ReadFile(path + ".out")
	require.NoError(t, err)
	const end = "\n__ggml_vocab_test__\n"
	texts := strings.Split(strings.TrimSuffix(string(in), end), end)
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	require.Equal(t, len(texts), len(lines))
	vectors := make([]vector, len(texts))
	for i, line := range lines {
		vectors[i].Text = texts[i]
		for _, f := range strings.Fields(line) {
			id, err := strconv.ParseInt(f, 10, 32)
			require.NoError(t, err)
			vectors[i].IDs = append(vectors[i].IDs, int32(id))
		}
	}
	return open(t, path), vectors
}

func check(t *testing.T, tok *tokenizer.Tokenizer, vectors []vector) {
	for _, v := range vectors {
		got := tok.Encode(v.Text, tokenizer.EncodeOptions{})
		if d := cmp.Diff(v.IDs, got); d != "" && len(v.IDs)+len(got) > 0 {
			t.Errorf("%q: want %d, got %d\n%s", v.Text, v.IDs, got, d)
		}
		if back := tok.Decode(got, tokenizer.DecodeOptions{}); back != v.Text {
			t.Errorf("%q decodes to %q", v.Text, back)
		}
	}
}

func TestVectors(t *testing.T) {
	for _, name := range vocabularies {
		t.Run(name, func(t *testing.T) {
			h, vectors := vocabulary(t, name)
			tok, err := tokenizer.New(h, tokenizer.Options{})
			require.NoError(t, err)
			require.Len(t, vectors, 46)
			check(t, tok, vectors)
		})
	}
}

func TestGemma(t *testing.T) {
	path := os.Getenv("SKEEP_TEST_GEMMA")
	if path == "" {
		t.Skip("SKEEP_TEST_GEMMA is not set: the Gemma vocabulary is not tested")
	}
	tok, err := tokenizer.New(open(t, path), tokenizer.Options{})
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(models(t), "gemma3-270m", "tokens.json"))
	require.NoError(t, err)
	var vectors []vector
	require.NoError(t, json.Unmarshal(raw, &vectors))
	require.Len(t, vectors, 46)
	check(t, tok, vectors)
}

// Prompts as other runtimes encode them, BOS added, and what the models said.
func TestGreedy(t *testing.T) {
	dir := models(t)
	files := map[string]string{"greedy.json": ""}
	if path := os.Getenv("SKEEP_TEST_GEMMA"); path != "" {
		files["gemma3-270m/greedy.json"] = path
	}
	for list, path := range files {
		raw, err := os.ReadFile(filepath.Join(dir, list))
		require.NoError(t, err)
		var runs []struct {
			File, Prompt, Text string
			PromptIDs          []int32 `json:"prompt_ids"`
			GenIDs             []int32 `json:"gen_ids"`
		}
		require.NoError(t, json.Unmarshal(raw, &runs))
		require.NotEmpty(t, runs)
		for _, r := range runs {
			tok, err := tokenizer.New(open(t, stdcmp.Or(path, filepath.Join(dir, r.File))), tokenizer.Options{})
			require.NoError(t, err)
			require.Equal(t, r.PromptIDs, tok.Encode(r.Prompt, tokenizer.EncodeOptions{BOS: true}), "%q", r.Prompt)
			if r.Text != "" { // noted without a newline at its end
				text := tok.Decode(append(r.PromptIDs, r.GenIDs...), tokenizer.DecodeOptions{})
				require.Equal(t, r.Text, strings.TrimRight(text, "\n"))
			}
		}
	}
}
