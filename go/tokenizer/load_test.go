package tokenizer_test

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/skeep-project/skeep/go/tokenizer"
)

func TestBrokenVocabularies(t *testing.T) {
	n := len(smallSPM["tokenizer.ggml.tokens"].([]string))
	types := func(i int, y int32) []int32 {
		all := slices.Clone(smallSPM["tokenizer.ggml.token_type"].([]int32))
		all[i] = y
		return all
	}
	scores := make([]float32, n)
	scores[7] = float32(math.NaN())
	for _, c := range []struct {
		h     header
		kind  error
		key   string
		index int
		text  string
	}{
		{header{}, tokenizer.ErrMissing, "model", -1, "absent"},
		{smallSPM.with("model", uint32(1)), tokenizer.ErrInvalid, "model", -1, "is of kind u32, not string"},
		{smallSPM.with("model", "bert"), tokenizer.ErrUnsupported, "model", -1, `"bert"; supported are "llama" and "gpt2"`},
		{smallSPM.with("tokens", nil), tokenizer.ErrMissing, "tokens", -1, "absent"},
		{smallSPM.with("tokens", "a"), tokenizer.ErrInvalid, "tokens", -1, "is of kind string, not array"},
		{smallSPM.with("tokens", make([]float32, n)), tokenizer.ErrInvalid, "tokens", -1, "is an array of f32, not of string"},
		{smallSPM.with("tokens", []string{}), tokenizer.ErrInvalid, "tokens", -1, "no tokens"},
		{smallSPM.with("scores", make([]float32, 3)), tokenizer.ErrInvalid, "scores", -1, "has 3 elements for"},
		{smallSPM.with("scores", make([]uint8, n)), tokenizer.ErrInvalid, "scores", -1, "is an array of u8, not of f32"},
		{smallSPM.with("scores", scores), tokenizer.ErrInvalid, "scores", 7, "is not a number"},
		{smallSPM.with("scores", nil), tokenizer.ErrMissing, "scores", -1, "absent"},
		{smallBPE.with("scores", make([]float32, 3)), tokenizer.ErrInvalid, "scores", -1, "has 3 elements for"},
		{smallSPM.with("token_type", make([]int32, n-1)), tokenizer.ErrInvalid, "token_type", -1, "elements for"},
		{smallSPM.with("token_type", make([]float32, n)), tokenizer.ErrInvalid, "token_type", -1, "is an array of f32, not of i32"},
		{smallSPM.with("token_type", types(9, 0)), tokenizer.ErrInvalid, "token_type", 9, "0 is not a token type"},
		{smallSPM.with("token_type", types(9, -1)), tokenizer.ErrInvalid, "token_type", 9, "-1 is not a token type"},
		{smallSPM.with("token_type", types(9, 7)), tokenizer.ErrInvalid, "token_type", 9, "7 is not a token type"},
		{smallSPM.with("token_type", types(1, 6)), tokenizer.ErrInvalid, "token_type", 1, `is byte, but the token is "<s>"`},
		{smallBPE.with("merges", nil), tokenizer.ErrMissing, "merges", -1, "absent"},
		{smallBPE.with("merges", []int32{1}), tokenizer.ErrInvalid, "merges", -1, "is an array of i32, not of string"},
		{smallSPM.with("merges", []int32{1}), tokenizer.ErrInvalid, "merges", -1, "is an array of i32, not of string"},
		{smallBPE.with("merges", []string{"h e", "he"}), tokenizer.ErrInvalid, "merges", 1, `"he" is not two tokens`},
		{smallSPM.with("merges", []string{"he"}), tokenizer.ErrInvalid, "merges", 0, `"he" is not two tokens`},
		{smallBPE.with("merges", []string{""}), tokenizer.ErrInvalid, "merges", 0, `"" is not two tokens`},
		{smallBPE.with("merges", []string{" "}), tokenizer.ErrInvalid, "merges", 0, `" " is not two tokens`},
		{smallBPE.with("merges", []string{"h "}), tokenizer.ErrInvalid, "merges", 0, `"h " is not two tokens`},
		{smallBPE.with("merges", []string{" h"}), tokenizer.ErrInvalid, "merges", 0, `" h" is not two tokens`},
		{smallBPE.with("merges", []string{"q q"}), tokenizer.ErrInvalid, "merges", 0, `"q q": "qq" is not a token`},
		{smallBPE.with("merges", []string{"qq h"}), tokenizer.ErrInvalid, "merges", 0, `"qq h": "qq" is not a token`},
		{smallSPM.with("bos_token_id", uint32(n)), tokenizer.ErrInvalid, "bos_token_id", -1, "out of range"},
		{smallSPM.with("eos_token_id", int32(-2)), tokenizer.ErrInvalid, "eos_token_id", -1, "id -2 is out of range"},
		{smallSPM.with("unknown_token_id", "0"), tokenizer.ErrInvalid, "unknown_token_id", -1, "is of kind string, not an id"},
		{smallSPM.with("eot_token_id", uint32(n)), tokenizer.ErrInvalid, "eot_token_id", -1, "out of range"},
		{smallSPM.with("eom_token_id", uint32(n)), tokenizer.ErrInvalid, "eom_token_id", -1, "out of range"},
		{smallSPM.with("add_bos_token", uint32(1)), tokenizer.ErrInvalid, "add_bos_token", -1, "is of kind u32, not bool"},
		{smallBPE.with("add_bos_token", true), tokenizer.ErrInvalid, "add_bos_token", -1, "no BOS token"},
		{smallBPE.with("add_eos_token", true), tokenizer.ErrInvalid, "add_eos_token", -1, "no EOS token"},
		{smallSPM.with("add_space_prefix", "no"), tokenizer.ErrInvalid, "add_space_prefix", -1, "is of kind string, not bool"},
		{smallBPE.with("pre", uint8(1)), tokenizer.ErrInvalid, "pre", -1, "is of kind u8, not string"},
	} {
		_, err := tokenizer.New(c.h, tokenizer.Options{})
		require.ErrorIs(t, err, c.kind, c.text)
		var e *tokenizer.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "tokenizer.ggml."+c.key, e.Key, "%v", err)
		require.Equal(t, c.index, e.Index, "%v", err)
		require.Contains(t, err.Error(), c.text)
		require.Contains(t, err.Error(), e.Key)
		require.Contains(t, err.Error(), "test.gguf")
	}
}

func TestPreNames(t *testing.T) {
	for _, c := range []struct {
		file   any
		option string
		want   string // effective name, or a part of the error
	}{
		{"gpt-2", "", "gpt-2"},
		{"qwen2", "", "qwen2"},
		{"qwen2", "gpt-2", "gpt-2"},
		{nil, "qwen2", "qwen2"},
		{"default", "qwen2", "qwen2"},
		{"unknown-xyz", "qwen2", "qwen2"},
		{nil, "", "tokenizer.ggml.pre: absent"},
		{"", "", "tokenizer.ggml.pre: absent"},
		{"default", "", `tokenizer.ggml.pre: "default" does not say`},
		{"unknown-xyz", "", `unknown pre-tokenizer "unknown-xyz"`},
		{"gpt-2", "unknown-xyz", `unknown pre-tokenizer "unknown-xyz"`},
		{"x\xff" + strings.Repeat("x", 1000), "", `unknown pre-tokenizer "x\xffxxx`},
	} {
		tok, err := tokenizer.New(smallBPE.with("pre", c.file), tokenizer.Options{Pre: c.option})
		if err == nil {
			require.Equal(t, c.want, tok.Pre())
			continue
		}
		require.ErrorContains(t, err, c.want)
		require.ErrorIs(t, err, tokenizer.ErrPre)
		var e *tokenizer.PreError
		require.ErrorAs(t, err, &e)
		require.Equal(t, tokenizer.Pretokenizers(), e.Known)
		for _, name := range []string{"gpt-2", "llama-bpe", "qwen2", "deepseek-llm"} {
			require.Contains(t, err.Error(), name)
		}
		require.Less(t, len(err.Error()), 500)
	}
	// SentencePiece has none, whatever the file says; naming one is a mistake.
	require.Equal(t, "", mustNew(t, smallSPM.with("pre", "default")).Pre())
	_, err := tokenizer.New(smallSPM, tokenizer.Options{Pre: "qwen2"})
	require.ErrorIs(t, err, tokenizer.ErrPre)
}

// Another rule than the file's gives other ids: nothing but the name decides.
func TestPreDecidesTheSplit(t *testing.T) {
	for _, name := range []string{"gpt-2", "qwen2"} {
		h, vectors := vocabulary(t, name)
		own, other := mustNew(t, h), mustNew(t, h, tokenizer.Options{Pre: map[string]string{"gpt-2": "qwen2", "qwen2": "gpt-2"}[name]})
		differ := 0
		for _, v := range vectors {
			if !slices.Equal(own.Encode(v.Text, tokenizer.EncodeOptions{}), other.Encode(v.Text, tokenizer.EncodeOptions{})) {
				differ++
			}
		}
		require.Positive(t, differ)
	}
}

func TestWithoutTypes(t *testing.T) {
	tok := mustNew(t, smallSPM.with("token_type", nil))
	for text, want := range map[string]tokenizer.TokenType{"<0x0A>": tokenizer.Byte, "<s>": tokenizer.Control, "</s>": tokenizer.Control,
		"<unk>": tokenizer.Unknown, "▁hello": tokenizer.Normal, "<tag>": tokenizer.Normal} {
		id, _ := tok.ID(text)
		require.Equal(t, want, tok.Type(id), text)
	}
	bpe := mustNew(t, smallBPE.with("token_type", nil, "eos_token_id", uint32(267)))
	require.Equal(t, tokenizer.Control, bpe.Type(267))
	require.Equal(t, "é\x00ÿ", bpe.Decode(bpe.Encode("é\x00ÿ", tokenizer.EncodeOptions{}), tokenizer.DecodeOptions{}))
}

// A merge of characters that are no stand-ins never applies.
func TestForeignMerges(t *testing.T) {
	tok := mustNew(t, smallBPE.with("merges", []string{"中 文", "h e"}))
	require.Equal(t, []string{"he"}, texts(tok, tok.Encode("he", tokenizer.EncodeOptions{})))
}

// Whatever the arrays hold: an error of this package or a tokenizer that encodes.
func TestRandomHeaders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := rapid.SampledFrom([]header{smallSPM, smallBPE}).Draw(rt, "base")
		h = maps.Clone(h)
		keys := slices.Sorted(maps.Keys(h))
		texts := rapid.SliceOfN(rapid.OneOf(randomText(), rapid.SampledFrom([]string{"a b", "<0x00>", "▁", "Ġ a", "<s>"})), 0, 6)
		for range rapid.IntRange(0, 2).Draw(rt, "changes") {
			key := rapid.SampledFrom(keys).Draw(rt, "key")
			h[key] = rapid.OneOf(
				rapid.Map(texts, func(s []string) any { return s }),
				rapid.Map(rapid.SliceOfN(rapid.Float32(), 0, 6), func(s []float32) any { return s }),
				rapid.Map(rapid.SliceOfN(rapid.Int32(), 0, 6), func(s []int32) any { return s }),
				rapid.Map(rapid.Uint32(), func(v uint32) any { return v }),
				rapid.Map(rapid.Int32Range(-2, 300), func(v int32) any { return v }),
				rapid.Map(rapid.Bool(), func(v bool) any { return v }),
				rapid.Map(randomText(), func(v string) any { return v }),
			).Draw(rt, "value")
		}
		if rapid.Bool().Draw(rt, "tiny") { // all arrays of one length
			h["tokenizer.ggml.tokens"] = rapid.SliceOfN(randomText(), 4, 4).Draw(rt, "tokens")
			h["tokenizer.ggml.token_type"] = rapid.SliceOfN(rapid.Int32Range(1, 5), 4, 4).Draw(rt, "types")
			h["tokenizer.ggml.scores"] = rapid.SliceOfN(rapid.Float32(), 4, 4).Draw(rt, "scores")
			h["tokenizer.ggml.unknown_token_id"] = uint32(0)
			h["tokenizer.ggml.merges"] = []string{}
		}
		tok, err := tokenizer.New(h, tokenizer.Options{})
		var e *tokenizer.Error
		var pre *tokenizer.PreError
		if err != nil {
			if !errors.As(err, &e) && !errors.As(err, &pre) {
				rt.Fatalf("%T: %v", err, err)
			}
			return
		}
		text := randomText().Draw(rt, "text")
		for _, special := range []bool{false, true} {
			ids := tok.Encode(text, tokenizer.EncodeOptions{Special: special, BOS: true})
			back := tok.Decode(ids, tokenizer.DecodeOptions{Special: special})
			if len(text) > 0 && len(ids) == 0 {
				rt.Fatalf("%q has no ids", text)
			}
			_ = back
		}
	})
}
