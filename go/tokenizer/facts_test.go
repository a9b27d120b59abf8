package tokenizer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/tokenizer"
)

// behavior is all that a vocabulary decides of some texts.
func behavior(tok *tokenizer.Tokenizer) []any {
	all := []any{tok.Model(), tok.Pre(), tok.EOG(), tok.Suppressed()}
	for _, text := range []string{"hello xhello  HELLO 12345 I'LL <|x|> \u00e9\xff", "", "<s>he</s>llo"} {
		for _, o := range []tokenizer.EncodeOptions{{}, {BOS: true}, {BOS: true, EOS: true, Special: true}} {
			ids := tok.Encode(text, o)
			all = append(all, ids, tok.Decode(ids, tokenizer.DecodeOptions{Special: true}), tok.Decode(ids, tokenizer.DecodeOptions{}))
		}
	}
	return all
}

// TestEveryKeyOfTheTable: altering a key that is read changes what becomes of a text, or is refused by the key's
// name; a key that asks for what no code does is refused by name; its usual value, and a harmless key, change nothing.
func TestEveryKeyOfTheTable(t *testing.T) {
	spm := spmHeader([]string{"▁h", "he", "el", "ll", "▁hello"}, extra{"<|x|>", 3}, extra{"<0x0A>", 1})
	spm["tokenizer.ggml.tokens"].([]string)[len(spm["tokenizer.ggml.tokens"].([]string))-1] = "zz"
	bpe := bpeHeader("gpt-2", []string{"h e", "l l", "H E", "1 2", "12 3", "' L", "'L L"}, extra{"<|x|>", 3}, extra{"<s>", 3}).with("bos_token_id", uint32(264), "eos_token_id", uint32(263))
	reversed := slices.Clone(bpe["tokenizer.ggml.merges"].([]string))
	slices.Reverse(reversed)
	types := slices.Clone(spm["tokenizer.ggml.token_type"].([]int32))
	types[len(types)-2] = 4
	scores := slices.Clone(spm["tokenizer.ggml.scores"].([]float32))
	scores[260] = -5 // he behind el
	tokens := slices.Clone(spm["tokenizer.ggml.tokens"].([]string))
	tokens[260] = "hell"
	x := uint32(len(tokens) - 2)
	cases := map[string]struct {
		h      header
		value  any
		refuse string
	}{
		"model": {spm, "gpt2", "pre"}, "pre": {bpe, "qwen2", ""}, "tokens": {spm, tokens, ""}, "token_type": {spm, types, ""}, "scores": {spm, scores, ""},
		"merges": {bpe, reversed[:3], ""}, "bos_token_id": {spm, x, ""}, "eos_token_id": {spm, x, ""}, "eos_token_ids": {spm, []int32{int32(x), 2}, ""},
		"eot_token_id": {spm, x, ""}, "eom_token_id": {spm, x, ""}, "fim_pad_token_id": {spm, x, ""}, "fim_rep_token_id": {spm, x, ""}, "fim_sep_token_id": {spm, x, ""},
		"unknown_token_id": {spm.with("tokens", slices.Concat(tokens[:258], []string{"no byte 255"}, tokens[259:]), "token_type", slices.Concat(types[:258], []int32{1}, types[259:])), uint32(1), ""},
		"suppress_tokens":  {spm, []int32{3, 4}, ""}, "add_bos_token": {spm, false, ""}, "add_eos_token": {spm, true, ""}, "add_space_prefix": {spm, false, ""},
	}
	for _, row := range tokenizer.Facts() {
		require.NotEmpty(t, row.Reason, row.Name)
		require.NotEmpty(t, row.Source, row.Name)
		key := strings.ReplaceAll(row.Name, "*", "x")
		alter := func(h header, value any) (header, string) {
			h = h.with()
			h[key] = value
			return h, key
		}
		refused := func(h header, value any) {
			h, key := alter(h, value)
			_, err := tokenizer.New(h, tokenizer.Options{})
			require.ErrorIs(t, err, tokenizer.ErrUnsupported, "%s = %v", key, value)
			require.ErrorContains(t, err, key)
		}
		stays := func(h header, value any) {
			usual := behavior(mustNew(t, h))
			h, key := alter(h, value)
			require.Equal(t, usual, behavior(mustNew(t, h)), "%s = %v", key, value)
		}
		switch row.Effect {
		case arch.Read:
			c, ok := cases[strings.TrimPrefix(key, "tokenizer.ggml.")]
			require.True(t, ok, "%s: read and not tested", key)
			h, _ := alter(c.h, c.value)
			tok, err := tokenizer.New(h, tokenizer.Options{})
			if c.refuse != "" {
				require.ErrorContains(t, err, c.refuse, key)
				continue
			}
			require.NoError(t, err, key)
			require.NotEqual(t, behavior(mustNew(t, c.h)), behavior(tok), "%s: the value changes nothing", key)
		case arch.Refused:
			for _, value := range []any{true, false, "other", uint32(7), []uint8{1, 2}} {
				if !slices.Contains(row.Usual, value) {
					refused(spm, value)
					refused(bpe, value)
				}
			}
			for _, value := range row.Usual {
				stays(spm, value)
				stays(bpe, value)
			}
			if row.Usual == nil {
				stays(spm, []uint8{})
			}
		case arch.Harmless:
			for _, value := range []any{true, "other", uint32(7), []int32{7}} {
				stays(spm, value)
				stays(bpe, value)
			}
		}
	}
	require.Equal(t, []string{"tokenizer.foo", "tokenizer.ggml.foo"}, tokenizer.UnknownKeys(header{"tokenizer.ggml.foo": true, "tokenizer.foo": "x", "general.foo": "x", "tokenizer.ggml.tokens": []string{}}))
}

// TestEveryEndIsFound: each id that metadata list, and each token that is known by its text, ends generation, and Ends
// says by what.
func TestEveryEndIsFound(t *testing.T) {
	h := bpeHeader("qwen2", nil, extra{"<|endoftext|>", 3}, extra{"<|im_end|>", 3}, extra{"<|a|>", 3}, extra{"<|b|>", 3}, extra{"<|c|>", 3}, extra{"<|fim_pad|>", 3},
		extra{"</s>", 4}, extra{"<｜end▁of▁sentence｜>", 3})
	h = h.with("eos_token_id", uint32(256), "eom_token_id", uint32(258), "eos_token_ids", []uint32{256, 259, 1<<32 - 1})
	tok := mustNew(t, h)
	require.Equal(t, []tokenizer.End{{ID: 256, Why: "tokenizer.ggml.eos_token_id"}, {ID: 257, Why: "text"}, {ID: 258, Why: "tokenizer.ggml.eom_token_id"},
		{ID: 259, Why: "tokenizer.ggml.eos_token_ids"}, {ID: 261, Why: "text"}, {ID: 263, Why: "text"}}, tok.Ends())
	for id := range int32(tok.Len()) {
		require.Equal(t, slices.Contains(tok.EOG(), id), tok.IsEOG(id))
	}
	require.EqualValues(t, 257, tok.EOT())
	_, err := tokenizer.New(h.with("eos_token_ids", []uint64{5, 1 << 63}), tokenizer.Options{})
	require.ErrorIs(t, err, tokenizer.ErrInvalid)
	require.NotContains(t, err.Error(), "id 0")
	for _, ids := range []any{[]int32{5, 300}, []int32{-2}} {
		for _, key := range []string{"eos_token_ids", "suppress_tokens"} {
			_, err := tokenizer.New(h.with(key, ids), tokenizer.Options{})
			require.ErrorIs(t, err, tokenizer.ErrInvalid)
			require.ErrorContains(t, err, "tokenizer.ggml."+key)
		}
	}
}
