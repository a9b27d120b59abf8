package tokenizer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/tokenizer"
)

// Tests of cases of tests/testdata/cases.tsv.

// changed is a header in which one key has another value, or is absent when that is nil.
type changed struct {
	arch.Header
	key   string
	value any
}

func (h changed) Value(key string) (arch.Value, bool) {
	if key == h.key {
		return value{h.value}, h.value != nil
	}
	return h.Header.Value(key)
}

const (
	keyPre         = "tokenizer.ggml.pre"
	keySpacePrefix = "tokenizer.ggml.add_space_prefix"
)

// A known name is its rule; an absent one, "default" and an unknown one are refused with the names there are, and
// Options.Pre decides. The small vocabulary needs no files, the real ones show that the rule matters.
// Case H01.
func TestPreIsAKnownRuleOrRefused(t *testing.T) {
	check := func(h arch.Header, own, other string) {
		require.Equal(t, own, mustNew(t, h).Pre())
		for _, pre := range []any{nil, "default", "unknown-xyz"} {
			_, err := tokenizer.New(changed{h, keyPre, pre}, tokenizer.Options{})
			var e *tokenizer.PreError
			require.ErrorAs(t, err, &e)
			for _, known := range tokenizer.Pretokenizers() {
				require.Contains(t, err.Error(), known)
			}
			require.Equal(t, own, mustNew(t, changed{h, keyPre, pre}, tokenizer.Options{Pre: own}).Pre())
		}
		renamed := mustNew(t, changed{h, keyPre, other})
		require.Equal(t, other, renamed.Pre())
		text := "In 2024 I'LL see 12345 of (self):\n\n\treturn\tthem.\n\n"
		a, b := mustNew(t, h).Encode(text, tokenizer.EncodeOptions{}), renamed.Encode(text, tokenizer.EncodeOptions{})
		require.NotEqual(t, a, b)
		require.Equal(t, a, mustNew(t, changed{h, keyPre, other}, tokenizer.Options{Pre: own}).Encode(text, tokenizer.EncodeOptions{}))
		require.Equal(t, b, mustNew(t, h, tokenizer.Options{Pre: other}).Encode(text, tokenizer.EncodeOptions{}))
	}
	check(bpeHeader("gpt-2", []string{"1 2", "12 3", "Ċ Ċ", "' L", "'L L"}), "gpt-2", "qwen2")
	gpt2, _ := vocabulary(t, "gpt-2")
	check(gpt2, "gpt-2", "qwen2")
	qwen2, _ := vocabulary(t, "qwen2")
	check(qwen2, "qwen2", "gpt-2")
}

// Spaces at the start and behind special tokens, as the vocabulary's flag says; absent means added.
// Case H02.
func TestLeadingSpaceFollowsTheFlag(t *testing.T) {
	h, vectors := vocabulary(t, "llama-spm")
	check(t, mustNew(t, h), vectors)
	for _, prefix := range []any{true, false, nil} {
		tok := mustNew(t, changed{h, keySpacePrefix, prefix})
		require.Equal(t, prefix != false, tok.AddSpacePrefix())
		want := map[string][]string{"": {}, "a": {"▁a"}, " a": {"▁▁a"}, "  a": {"▁▁▁a"}, "<s>a": {"<s>", "▁a"}, "<s> a": {"<s>", "▁▁a"}}
		for text, pieces := range want {
			got := tok.Encode(text, tokenizer.EncodeOptions{Special: true})
			spelled := strings.Join(texts(tok, got), "")
			expected := strings.Join(pieces, "")
			if prefix == false {
				expected = strings.Replace(expected, "▁", "", 1)
			}
			require.Equal(t, expected, spelled, "%q, add_space_prefix %v", text, prefix)
			require.Equal(t, text, tok.Decode(got, tokenizer.DecodeOptions{Special: true}), "%q, add_space_prefix %v", text, prefix)
			require.Equal(t, newSlow(changed{h, keySpacePrefix, prefix}, nil).encode(text, true), got, "%q", text)
		}
	}
}

// Broken and empty text gives tokens, and vocabularies of bytes give it back.
// Case H04.
func TestBrokenTextGivesTokensAndComesBack(t *testing.T) {
	all := append([]string{"\xed\xa0\x80\xed\xb0\x80", "\x00\x00a\x00", "a\xe2\x96"}, awkward...)
	roundTrip := func(tok *tokenizer.Tokenizer) {
		require.True(t, tok.ByteComplete())
		for _, text := range all {
			require.Equal(t, text, tok.Decode(tok.Encode(text, tokenizer.EncodeOptions{}), tokenizer.DecodeOptions{}), "%q", text)
			tok.Encode(text, tokenizer.EncodeOptions{BOS: true, Special: true})
		}
	}
	roundTrip(mustNew(t, smallSPM))
	roundTrip(mustNew(t, smallBPE))
	for _, name := range []string{"llama-spm", "gpt-2", "qwen2"} {
		h, _ := vocabulary(t, name)
		roundTrip(mustNew(t, h))
	}
}

// Long runs of one class: all of them work, and eight times the text takes about eight times as long.
// Case H05.
func TestLongRunsTakeLinearTime(t *testing.T) {
	encode := func(tok *tokenizer.Tokenizer, unit string, n int) time.Duration {
		text := strings.Repeat(unit, n)
		begin := time.Now()
		ids := tok.Encode(text, tokenizer.EncodeOptions{})
		elapsed := time.Since(begin)
		require.Equal(t, text, tok.Decode(ids, tokenizer.DecodeOptions{}))
		return elapsed
	}
	merges := []string{"A A", "AA AA", "Z Z", "7 7", "Ġ Ġ", "ĠĠ ĠĠ"}
	for _, tok := range []*tokenizer.Tokenizer{
		mustNew(t, bpeHeader("gpt-2", merges)), mustNew(t, bpeHeader("qwen2", merges)), mustNew(t, bpeHeader("llama-bpe", merges)), mustNew(t, smallSPM),
	} {
		for unit, n := range map[string]int{"A": 43_000, "Z": 128 << 10, " ": 1 << 20, "7": 1 << 20} {
			best := 1e9
			for i := 0; i < 5 && best >= 30; i++ { // the machine may be busy; quadratic time is 64
				best = min(best, float64(encode(tok, unit, n))/float64(encode(tok, unit, n/8)))
			}
			require.Less(t, best, 30.0, "%s: %q", tok.Pre(), unit)
		}
	}
}

// Runs of spaces and newlines between letters, against the straight implementation of the published patterns; the
// longest user-defined token first.
// Case H09.
func TestRunsOfSpacesSplitAsPublished(t *testing.T) {
	tok := mustNew(t, bpeHeader("qwen2", nil, extra{"  ", 4}, extra{"    ", 4}, extra{"<a", 4}, extra{"<ab>", 4}))
	require.Equal(t, []string{"x", "    ", "  ", "y", "<ab>", "<a", "c"}, texts(tok, tok.Encode("x      y<ab><ac", tokenizer.EncodeOptions{})))
	patterns := published(t)
	for _, name := range []string{"qwen2", "starcoder"} {
		h, _ := vocabulary(t, name)
		tok, ref := mustNew(t, h), newSlow(h, patterns)
		for n := 2; n <= 16; n++ {
			for _, run := range []string{strings.Repeat(" ", n), strings.Repeat("\n", n), strings.Repeat(" ", n) + "\n", "\n" + strings.Repeat(" ", n)} {
				text := "a" + run + "b"
				got := tok.Encode(text, tokenizer.EncodeOptions{})
				require.Equal(t, ref.encode(text, false), got, "%s: %q", name, text)
				require.Equal(t, text, tok.Decode(got, tokenizer.DecodeOptions{}), name)
			}
		}
	}
}
