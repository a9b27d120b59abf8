package tokenizer_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/tokenizer"
)

func mustNew(t require.TestingT, h arch.Header, o ...tokenizer.Options) *tokenizer.Tokenizer {
	tok, err := tokenizer.New(h, append(o, tokenizer.Options{})[0])
	require.NoError(t, err)
	return tok
}

// texts are the tokens that ids stand for.
func texts(tok *tokenizer.Tokenizer, ids []int32) []string {
	all := []string{}
	for _, id := range ids {
		all = append(all, tok.Text(id))
	}
	return all
}

var (
	words    = []string{"▁a", "▁", "▁he", "he", "▁hel", "lo", "▁hello", "▁▁", "hel", "l", "h", "e", "o", "a", "b", "é", "中", "▁中", "x▁y", "y", "▁y"}
	smallSPM = spmHeader(words, extra{"\n\n", 4}, extra{"\n\n\n", 4}, extra{"<tag>", 4}, extra{"▁▁▁▁", 4})
	smallBPE = bpeHeader("llama-bpe", []string{"h e", "l l", "he ll", "Ġ hell", "hell o", "Ġ Ġ", "ĠĠ ĠĠ", "1 2", "12 3", "a a", "aa aa"},
		extra{"<|s|>", 3}, extra{"<|end|>", 3}, extra{"   ", 4}, extra{"<x>", 4}, extra{"<x>>", 4}, extra{"hey", 3})
)

func TestSpaces(t *testing.T) {
	for _, c := range []struct {
		text    string
		special bool
		prefix  any // of add_space_prefix; nil = absent
		want    []string
	}{
		{"a", false, nil, []string{"▁a"}},
		{" a", false, nil, []string{"▁", "▁a"}},
		{"  a", false, nil, []string{"▁▁", "▁a"}},
		{"", false, nil, []string{}},
		{" ", false, nil, []string{"▁▁"}},
		{"a", false, true, []string{"▁a"}},
		{"a", false, false, []string{"a"}},
		{" a", false, false, []string{"▁a"}},
		{"", false, false, []string{}},
		{"<s>a", true, nil, []string{"<s>", "▁a"}},
		{"<s> a", true, nil, []string{"<s>", "▁", "▁a"}},
		{"<s>a", true, false, []string{"<s>", "a"}},
		{"<s> a", true, false, []string{"<s>", "▁a"}},
		{"a</s>a", true, nil, []string{"▁a", "</s>", "▁a"}},
		{"<s>a", false, false, []string{"<0x3C>", "<0x73>", "<0x3E>", "a"}},
		{"a<tag>a", false, nil, []string{"▁a", "<tag>", "▁a"}},
		{"x y", false, false, []string{"x▁y"}},
		{"hello  hello", false, nil, []string{"▁hello", "▁", "▁hello"}},
	} {
		tok := mustNew(t, smallSPM.with("add_space_prefix", c.prefix))
		got := tok.Encode(c.text, tokenizer.EncodeOptions{Special: c.special})
		require.Equal(t, c.want, texts(tok, got), "%+v", c)
		require.Equal(t, c.text, tok.Decode(got, tokenizer.DecodeOptions{Special: true}), "%+v", c)
	}
}

func TestUserDefinedTokensComeFirst(t *testing.T) {
	spm, bpe := mustNew(t, smallSPM), mustNew(t, smallBPE)
	for _, c := range []struct {
		tok  *tokenizer.Tokenizer
		text string
		want []string
	}{
		{spm, "\n\n\n\n\n", []string{"\n\n\n", "\n\n"}}, // the longest first
		{spm, "\n", []string{"▁", "<0x0A>"}},
		{spm, "    b", []string{"▁▁▁▁", "▁", "b"}}, // spelled with ▁: merged, not cut
		{bpe, "<x>>hello", []string{"<x>>", "hello"}},
		{bpe, "<x> hello", []string{"<x>", " hell", "o"}},
		{bpe, "<xa", []string{"<", "x", "a"}},
		{bpe, "     a", []string{"   ", " ", " ", "a"}},
	} {
		got := c.tok.Encode(c.text, tokenizer.EncodeOptions{})
		require.Equal(t, c.want, texts(c.tok, got), c.text)
	}
}

func TestControlTokensNeedSpecial(t *testing.T) {
	for _, tok := range []*tokenizer.Tokenizer{mustNew(t, smallSPM), mustNew(t, smallBPE)} {
		for id := range int32(tok.Len()) {
			if y := tok.Type(id); y != tokenizer.Control && y != tokenizer.Unknown {
				continue
			}
			text := tok.Text(id)
			for _, got := range append(tok.Encode("a"+text+"b", tokenizer.EncodeOptions{}), tok.Encode(text, tokenizer.EncodeOptions{})...) {
				require.NotContains(t, []tokenizer.TokenType{tokenizer.Control, tokenizer.Unknown}, tok.Type(got), text)
			}
			require.Contains(t, tok.Encode("a"+text+"b", tokenizer.EncodeOptions{Special: true}), id)
			require.Equal(t, "ab", tok.Decode(tok.Encode("a"+text+"b", tokenizer.EncodeOptions{Special: true}), tokenizer.DecodeOptions{}))
		}
	}
}

func TestEnds(t *testing.T) {
	bos, eos := int32(1), int32(2)
	for _, c := range []struct {
		h    header
		o    tokenizer.EncodeOptions
		text string
		want []int32
	}{
		{smallSPM, tokenizer.EncodeOptions{}, "", nil},
		{smallSPM, tokenizer.EncodeOptions{BOS: true}, "", []int32{bos}}, // add_bos_token is absent: SentencePiece adds it
		{smallSPM.with("add_bos_token", false), tokenizer.EncodeOptions{BOS: true}, "", nil},
		{smallSPM.with("add_eos_token", true), tokenizer.EncodeOptions{BOS: true, EOS: true}, "", []int32{bos, eos}},
		{smallSPM.with("add_eos_token", true), tokenizer.EncodeOptions{BOS: true}, "", []int32{bos}}, // a text that is to be continued
		{smallSPM, tokenizer.EncodeOptions{EOS: true}, "", nil},
		{smallSPM.with("add_eos_token", true), tokenizer.EncodeOptions{}, "", nil},
		{smallSPM.with("add_eos_token", true), tokenizer.EncodeOptions{BOS: true, EOS: true, Special: true}, "<s></s>", []int32{bos, eos}},
		{smallSPM, tokenizer.EncodeOptions{BOS: true, Special: true}, "<s><s>", []int32{bos, bos}},
		{smallSPM.with("bos_token_id", nil, "eos_token_id", nil), tokenizer.EncodeOptions{BOS: true}, "", []int32{bos}},
		{smallSPM.with("bos_token_id", uint32(1<<32-1)), tokenizer.EncodeOptions{BOS: true}, "", nil},
		{smallBPE.with("bos_token_id", uint32(1)), tokenizer.EncodeOptions{BOS: true}, "", []int32{1}}, // llama-bpe
		{smallBPE.with("bos_token_id", uint32(1), "pre", "gpt-2"), tokenizer.EncodeOptions{BOS: true}, "", nil},
		{smallBPE.with("bos_token_id", uint32(1), "pre", "gpt-2", "add_bos_token", true), tokenizer.EncodeOptions{BOS: true}, "", []int32{1}},
	} {
		require.Equal(t, c.want, mustNew(t, c.h).Encode(c.text, c.o), "%+v %q", c.o, c.text)
	}
	tok := mustNew(t, smallSPM.with("unknown_token_id", uint32(1<<32-1), "eos_token_id", int32(-1)))
	require.Equal(t, []int32{1, tokenizer.None, tokenizer.None, tokenizer.None}, []int32{tok.BOS(), tok.EOS(), tok.EOT(), tok.Unk()})
	require.Empty(t, tok.EOG())
}

func TestGenerationEnds(t *testing.T) {
	eog := func(h header) (names []string) { tok := mustNew(t, h); return texts(tok, tok.EOG()) }
	h := bpeHeader("qwen2", nil, extra{"<|endoftext|>", 3}, extra{"<|im_start|>", 3}, extra{"<|im_end|>", 3}, extra{"[EOS]", 1})
	require.Equal(t, []string{"<|endoftext|>", "<|im_end|>"}, eog(h)) // [EOS] is text here
	require.Equal(t, []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, eog(h.with("eot_token_id", uint32(257))))
	require.EqualValues(t, 257, mustNew(t, h.with("eot_token_id", uint32(257))).EOT())
	tok := mustNew(t, h)
	require.EqualValues(t, 258, tok.EOT())
	require.True(t, tok.IsEOG(256))
	require.False(t, tok.IsEOG(257))
	require.False(t, tok.IsEOG(tokenizer.None))
	require.Equal(t, []string{"<|return|>"}, eog(bpeHeader("gpt-4o", nil, extra{"<|end|>", 3}, extra{"<|return|>", 3})))
	require.Equal(t, []string{"</s>"}, eog(smallSPM))
}

func TestWholePieces(t *testing.T) {
	h := bpeHeader("llama-bpe", []string{"a b"}, extra{"abc", 1}) // no merges lead to abc
	want := map[string]string{"llama-bpe": "abc", "llama3": "abc", "tekken": "abc", "dbrx": "ab c", "qwen2": "ab c"}
	for pre, tokens := range want {
		tok := mustNew(t, h, tokenizer.Options{Pre: pre})
		require.Equal(t, pre, tok.Pre())
		require.Equal(t, strings.Fields(tokens), texts(tok, tok.Encode("abc", tokenizer.EncodeOptions{})), pre)
	}
}

func TestAccess(t *testing.T) {
	tok := mustNew(t, smallBPE)
	require.Equal(t, "gpt2", tok.Model())
	require.Equal(t, len(smallBPE["tokenizer.ggml.tokens"].([]string)), tok.Len())
	require.True(t, tok.ByteComplete())
	id, ok := tok.ID(" hell")
	require.True(t, ok)
	require.Equal(t, " hell", tok.Text(id))
	require.Equal(t, tokenizer.Normal, tok.Type(id))
	_, ok = tok.ID("nothing like it")
	require.False(t, ok)
	_, ok = tok.ID("")
	require.False(t, ok)
	for _, bad := range []int32{-1, int32(tok.Len()), 1<<31 - 1, -1 << 31} {
		require.Equal(t, "", tok.Text(bad))
		require.EqualValues(t, 0, tok.Type(bad))
		require.Equal(t, "\uFFFD", tok.Decode([]int32{bad}, tokenizer.DecodeOptions{}))
	}
	require.Equal(t, "user-defined", tokenizer.UserDefined.String())
	require.Equal(t, "type 9", tokenizer.TokenType(9).String())
}

// awkward are texts that are no clean UTF-8, or next to nothing.
var awkward = []string{"", "\x00", "\xe2\x96", "\xff", "\xed\xa0\x80", "a\xf0\x9f\x98b", "\xe2\x96\x81"[:2] + " ", "\xc0\x80", "\xf4\x90\x80\x80", "é\xcc"}

func TestBytesAreKept(t *testing.T) {
	for _, h := range []header{smallSPM, smallSPM.with("add_space_prefix", false), smallBPE, smallBPE.with("pre", "deepseek-v3")} {
		tok := mustNew(t, h)
		for _, text := range awkward {
			require.Equal(t, text, tok.Decode(tok.Encode(text, tokenizer.EncodeOptions{}), tokenizer.DecodeOptions{}))
		}
	}
}

func TestBytesWithoutAToken(t *testing.T) {
	bpe := bpeHeader("gpt-2", []string{"ï ¿"}, extra{"<e>", 3}).with("unknown_token_id", uint32(257))
	tokens := slices.Clone(bpe["tokenizer.ggml.tokens"].([]string))
	tokens[0xff] = "gone"
	tok := mustNew(t, bpe.with("tokens", tokens))
	require.False(t, tok.ByteComplete())
	require.Equal(t, "a\uFFFDb", tok.Decode(tok.Encode("a\xffb", tokenizer.EncodeOptions{}), tokenizer.DecodeOptions{}))
	require.Equal(t, []string{"\xef\xbf", "\xbd"}, texts(tok, tok.Encode("\xff", tokenizer.EncodeOptions{})))

	spm := smallSPM
	types := slices.Clone(spm["tokenizer.ggml.token_type"].([]int32))
	types[3+'z'] = 5
	tok = mustNew(t, spm.with("token_type", types))
	require.Equal(t, []string{"▁a", "<unk>", "b", "▁a"}, texts(tok, tok.Encode("azb a", tokenizer.EncodeOptions{})))
	require.Equal(t, "ab a", tok.Decode(tok.Encode("azb a", tokenizer.EncodeOptions{}), tokenizer.DecodeOptions{}))
	require.Equal(t, "a<unk> b", tok.Decode(tok.Encode("az b", tokenizer.EncodeOptions{}), tokenizer.DecodeOptions{Special: true}))
	_, err := tokenizer.New(spm.with("token_type", types, "unknown_token_id", uint32(1<<32-1)), tokenizer.Options{})
	require.ErrorContains(t, err, "tokenizer.ggml.tokens: no token for byte 0x7a")
}

// Tokens that are no valid UTF-8 are kept as bytes.
func TestTokensOfBrokenText(t *testing.T) {
	var broken []string
	for b := range 128 {
		broken = append(broken, string([]byte{byte(128 + b)}))
	}
	broken = append(broken, "\xf0\x9f\x98", "a\x80")
	tok := mustNew(t, spmHeader(append(slices.Clone(words), broken...)))
	for _, text := range []string{"\x80\xff", "a\x80", "\xf0\x9f\x98", "\xf0\x9f\x98\x80", "é"} {
		require.Equal(t, text, tok.Decode(tok.Encode(text, tokenizer.EncodeOptions{}), tokenizer.DecodeOptions{}))
	}
	require.Equal(t, []string{"▁a", "a\x80"}, texts(tok, tok.Encode("aa\x80", tokenizer.EncodeOptions{})))
	bpe := mustNew(t, bpeHeader("gpt-2", nil, extra{"\x80\xff", 4}, extra{"\xe2", 1}))
	require.Equal(t, []int32{256}, bpe.Encode("\x80\xff", tokenizer.EncodeOptions{}))
	require.Equal(t, []int32{0xe2}, bpe.Encode("\xe2", tokenizer.EncodeOptions{}))
}

func TestDuplicatesGoToTheFirst(t *testing.T) {
	h := spmHeader(append(slices.Clone(words), "▁a"), extra{"a", 3}, extra{"<0x7A>", 6})
	tok := mustNew(t, h)
	first, _ := tok.ID("▁a")
	second := first + int32(len(words))
	require.Equal(t, []int32{first}, tok.Encode("a", tokenizer.EncodeOptions{}))
	require.Equal(t, "a", tok.Decode([]int32{second}, tokenizer.DecodeOptions{}))
	require.Equal(t, []int32{first, 3 + 'z'}, tok.Encode("az", tokenizer.EncodeOptions{}))
	types := slices.Clone(h["tokenizer.ggml.token_type"].([]int32))
	types[first] = 3 // a control token hides no text
	require.Equal(t, []int32{second}, mustNew(t, h.with("token_type", types)).Encode("a", tokenizer.EncodeOptions{}))

	tok = mustNew(t, bpeHeader("gpt-2", []string{"a b", "b c", "a b"}))
	require.Equal(t, []string{"ab", "c"}, texts(tok, tok.Encode("abc", tokenizer.EncodeOptions{}))) // the rank of a merge is its first
	// A user-defined token is spelled, and hides no other: ø is a stand-in for byte 0xf8.
	tok = mustNew(t, bpeHeader("deepseek-llm", []string{"Ã ¸"}, extra{"ø", 4}))
	require.Equal(t, []int32{257}, tok.Encode("ø", tokenizer.EncodeOptions{}))
	require.Equal(t, "øø", tok.Decode([]int32{257, 256}, tokenizer.DecodeOptions{}))
	require.Equal(t, []int32{0xf8}, tok.Encode("\xf8", tokenizer.EncodeOptions{}))
	// A normal token that is no stand-ins is not what text becomes.
	tok = mustNew(t, bpeHeader("llama-bpe", nil, extra{"日", 1}))
	require.Equal(t, []int32{0xe6, 0x97, 0xa5}, tok.Encode("日", tokenizer.EncodeOptions{}))
	require.Equal(t, "日", tok.Decode([]int32{256}, tokenizer.DecodeOptions{}))
}

// stream decodes token by token and checks each step.
func stream(t require.TestingT, tok *tokenizer.Tokenizer, ids []int32, o tokenizer.DecodeOptions) {
	d := tok.NewDecoder(o)
	var got []byte
	for i, id := range ids {
		got = d.Append(got, id)
		raw := tok.Decode(ids[:i+1], o)
		held := 0
		for k := range min(len(raw), 3) + 1 {
			if !utf8.FullRuneInString(raw[len(raw)-k:]) {
				held = k
			}
		}
		require.Equal(t, string([]rune(raw[:len(raw)-held])), string(got), "%d", ids[:i+1])
	}
	got = d.Flush(got)
	require.Equal(t, string([]rune(tok.Decode(ids, o))), string(got), "%d", ids)
	require.Equal(t, string([]rune(tok.Decode(ids, o))), string(d.Flush(func() (again []byte) {
		for _, id := range ids {
			again = d.Append(again, id)
		}
		return again
	}())), "a flushed decoder begins again")
}

func TestDecoder(t *testing.T) {
	for _, h := range []header{smallSPM, smallBPE} {
		tok := mustNew(t, h)
		rapid.Check(t, func(rt *rapid.T) {
			ids := rapid.SliceOfN(rapid.OneOf(rapid.Int32Range(-1, int32(tok.Len())), rapid.Int32Range(0x80, 0x103)), 0, 12).Draw(rt, "ids")
			stream(rt, tok, ids, tokenizer.DecodeOptions{Special: rapid.Bool().Draw(rt, "special"), Continue: rapid.Bool().Draw(rt, "continue")})
		})
	}
	tok := mustNew(t, smallSPM)
	ids := tok.Encode("hello 中\xe2\x96", tokenizer.EncodeOptions{})
	require.Equal(t, " hello 中\xe2\x96", tok.Decode(ids, tokenizer.DecodeOptions{Continue: true}))
	a, _ := tok.ID("▁a")
	require.Equal(t, "\n a", tok.Decode([]int32{3 + '\n', a}, tokenizer.DecodeOptions{})) // the space is not the first
	d := tok.NewDecoder(tokenizer.DecodeOptions{})
	var out []byte
	for _, id := range ids {
		out = d.Append(out, id)
	}
	require.Equal(t, "hello 中", string(out))
	require.Equal(t, "hello 中\uFFFD\uFFFD", string(d.Flush(out)))
}

func TestAgainstReference(t *testing.T) {
	patterns := published(t)
	for name, h := range map[string]header{
		"spm": smallSPM, "bpe": smallBPE, "gpt-2": smallBPE.with("pre", "gpt-2"), "no prefix": smallSPM.with("add_space_prefix", false),
	} {
		t.Run(name, func(t *testing.T) {
			tok, ref := mustNew(t, h), newSlow(h, patterns)
			text := rapid.OneOf(randomText(), rapid.StringOfN(rapid.RuneFrom([]rune("helo abxy12\n<>▁")), 0, 40, -1))
			rapid.Check(t, func(rt *rapid.T) {
				text, special := text.Draw(rt, "text"), rapid.Bool().Draw(rt, "special")
				got, want := tok.Encode(text, tokenizer.EncodeOptions{Special: special}), ref.encode(text, special)
				if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
					rt.Fatalf("%q: want %q, got %q", text, texts(tok, want), texts(tok, got))
				}
			})
		})
	}
}

// Vocabularies of a few letters, where merges meet and scores tie all the time.
func TestRandomVocabularies(t *testing.T) {
	patterns := published(t)
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		letters := []string{"a", "b", "▁"}
		var h header
		if seed%2 == 0 {
			words := slices.Clone(letters)
			for n := 3 + rng.IntN(60); len(words) < n; {
				word := ""
				for range 2 + rng.IntN(4) {
					word += letters[rng.IntN(3)]
				}
				words = append(words, word)
			}
			h = spmHeader(words)
			for i := range h["tokenizer.ggml.scores"].([]float32) {
				h["tokenizer.ggml.scores"].([]float32)[i] = float32(rng.IntN(20)-10) / 4
			}
		} else {
			letters[2] = "Ġ"
			tokens := slices.Clone(letters)
			var merges []string
			for range rng.IntN(60) {
				l, r := tokens[rng.IntN(len(tokens))], tokens[rng.IntN(len(tokens))]
				merges, tokens = append(merges, l+" "+r), append(tokens, l+r)
			}
			rng.Shuffle(len(merges), func(i, j int) { merges[i], merges[j] = merges[j], merges[i] })
			h = bpeHeader("gpt-2", merges)
		}
		tok, ref := mustNew(t, h), newSlow(h, patterns)
		for range 20 {
			text := ""
			for range rng.IntN(80) {
				text += string("aaaaaabbbbb    c"[rng.IntN(16)])
			}
			require.Equal(t, texts(tok, ref.encode(text, false)), texts(tok, tok.Encode(text, tokenizer.EncodeOptions{})), "seed %d, %q", seed, text)
		}
	}
}

// Runs of spaces and newlines, and texts of all kinds, against the straight implementation.
func TestRealVocabulariesAgainstReference(t *testing.T) {
	patterns := published(t)
	for _, name := range vocabularies {
		t.Run(name, func(t *testing.T) {
			h, vectors := vocabulary(t, name)
			tok, ref := mustNew(t, h), newSlow(h, patterns)
			var all []string
			for n := 2; n <= 16; n++ {
				for _, unit := range []string{" ", "\n", "\t", " \n"} {
					all = append(all, "a"+strings.Repeat(unit, n)+"b", strings.Repeat(unit, n)+"x", "x"+strings.Repeat(unit, n))
				}
			}
			for _, v := range vectors {
				all = append(all, v.Text[:min(len(v.Text), 100)])
			}
			gen := randomText()
			for i := range 200 {
				all = append(all, gen.Example(i))
			}
			for _, text := range append(all, awkward...) {
				got, want := tok.Encode(text, tokenizer.EncodeOptions{}), ref.encode(text, false)
				require.Equal(t, texts(tok, want), texts(tok, got), "%q", text)
				if back := tok.Decode(got, tokenizer.DecodeOptions{}); tok.ByteComplete() || utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > 0xffff }) {
					require.Equal(t, strings.ReplaceAll(text, "▁", map[bool]string{true: " ", false: "▁"}[name == "llama-spm"]), back)
				}
				stream(t, tok, got, tokenizer.DecodeOptions{})
			}
		})
	}
}

// A megabyte of one character: quadratic merging would take an hour.
func TestLongRuns(t *testing.T) {
	merges := []string{"A A", "AA AA", "AAAA AAAA", "7 7", "77 7", "Ġ Ġ", "ĠĠ ĠĠ", "ĠĠĠĠ ĠĠĠĠ"}
	bpe, spm := mustNew(t, bpeHeader("gpt-2", merges)), mustNew(t, spmHeader([]string{"AA", "AAAA", "A", "▁▁", "▁▁▁▁", "▁"}))
	for _, c := range []struct {
		tok  *tokenizer.Tokenizer
		unit string
		n    int // bytes of each token, but for the last ones
	}{{bpe, "A", 8}, {bpe, " ", 8}, {bpe, "é", 1}, {mustNew(t, bpeHeader("llama-bpe", merges)), "7", 3}, {spm, "A", 4}, {spm, " ", 4}} {
		text := strings.Repeat(c.unit, 1<<20/len(c.unit))
		begin := time.Now()
		ids := c.tok.Encode(text, tokenizer.EncodeOptions{})
		require.Less(t, time.Since(begin), 60*time.Second)
		require.InDelta(t, len(text)/c.n, len(ids), 8)
		require.Equal(t, text, c.tok.Decode(ids, tokenizer.DecodeOptions{}), "%s %q", c.tok.Pre(), c.unit)
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	tok := mustNew(t, smallSPM)
	o := tokenizer.EncodeOptions{BOS: true, Special: true}
	require.Equal(t, append([]int32{1, 1}, tok.Encode("<s>a", o)...), tok.AppendEncode([]int32{1, 1}, "<s>a", o))
	require.Equal(t, "x a", string(tok.AppendDecode([]byte("x "), tok.Encode("a", tokenizer.EncodeOptions{}), tokenizer.DecodeOptions{})))
}

func TestConcurrentUse(t *testing.T) {
	tok := mustNew(t, smallBPE)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				text := strings.Repeat(fmt.Sprintf("hello %d ", g), i%17)
				if back := tok.Decode(tok.Encode(text, tokenizer.EncodeOptions{}), tokenizer.DecodeOptions{}); back != text {
					t.Errorf("%q became %q", text, back)
				}
			}
		})
	}
	wg.Wait()
}

// A vocabulary is a handful of objects, not one per token.
func TestLargeVocabularyIsCompact(t *testing.T) {
	words := make([]string, 262144-259)
	for i := range words {
		words[i] = fmt.Sprintf("▁w%d", i)
	}
	h := spmHeader(words)
	objects := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapObjects
	}
	before := objects()
	begin := time.Now()
	tok := mustNew(t, h)
	t.Logf("%d tokens in %v", tok.Len(), time.Since(begin))
	require.Less(t, int64(objects()-before), int64(500))
	id, ok := tok.ID("▁w261884")
	require.True(t, ok)
	require.Equal(t, "▁w261884", tok.Text(id))
	runtime.KeepAlive(h)
}

func FuzzEncode(f *testing.F) {
	for _, text := range append(slices.Clone(awkward), "hello <s>hello</s>  \n\n\n<tag>", "<|s|>a<x>>", "x y  x y▁") {
		f.Add(text, true, uint8(0))
		f.Add(text, false, uint8(1))
	}
	var toks []*tokenizer.Tokenizer
	for _, h := range []header{smallSPM, smallSPM.with("add_space_prefix", false), smallBPE} {
		toks = append(toks, mustNew(f, h))
	}
	for _, pre := range distinct {
		toks = append(toks, mustNew(f, smallBPE, tokenizer.Options{Pre: pre}))
	}
	f.Fuzz(func(t *testing.T, text string, special bool, which uint8) {
		tok := toks[int(which)%len(toks)]
		ids := tok.Encode(text, tokenizer.EncodeOptions{Special: special})
		want := text
		if tok.Model() == "llama" {
			want = strings.ReplaceAll(text, "▁", " ")
		}
		require.Equal(t, want, tok.Decode(ids, tokenizer.DecodeOptions{Special: true}))
		if len(text) < 300 { // it decodes every prefix
			stream(t, tok, ids, tokenizer.DecodeOptions{Special: special})
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x01\x83\x00\xff"), false)
	toks := []*tokenizer.Tokenizer{mustNew(f, smallSPM), mustNew(f, smallBPE)}
	f.Fuzz(func(t *testing.T, raw []byte, special bool) {
		var ids []int32
		for i := 0; i+1 < min(len(raw), 200); i += 2 {
			ids = append(ids, int32(int8(raw[i]&3))*256/2+int32(raw[i+1])-1)
		}
		for _, tok := range toks {
			stream(t, tok, ids, tokenizer.DecodeOptions{Special: special})
		}
	})
}
