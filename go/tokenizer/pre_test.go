package tokenizer_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/skeep-project/skeep/go/tokenizer"
)

// node is a part of an expression. It calls next with each place where it can end when it begins at byte
// i, the one that it likes best first, until next says that the rest matches there as well.
type node func(text string, i int, next func(int) bool) bool

// expression is a backtracking matcher of the published patterns: slow, and deep in the stack, but what
// it does can be seen to be what they mean.
type expression struct {
	rest string // what is still to be parsed
}

func compile(pattern string) node {
	e := &expression{rest: pattern}
	n := e.alternatives()
	if e.rest != "" {
		panic("cannot parse " + e.rest)
	}
	return n
}

func (e *expression) take(s string) bool {
	rest, ok := strings.CutPrefix(e.rest, s)
	e.rest = rest
	return ok
}

func (e *expression) rune() rune {
	r, n := utf8.DecodeRuneInString(e.rest)
	e.rest = e.rest[n:]
	return r
}

func (e *expression) alternatives() node {
	choices := []node{e.sequence()}
	for e.take("|") {
		choices = append(choices, e.sequence())
	}
	return func(text string, i int, next func(int) bool) bool {
		for _, c := range choices {
			if c(text, i, next) {
				return true
			}
		}
		return false
	}
}

func (e *expression) sequence() node {
	var all node = func(_ string, i int, next func(int) bool) bool { return next(i) }
	for e.rest != "" && e.rest[0] != '|' && e.rest[0] != ')' {
		first, second := all, e.repeated()
		all = func(text string, i int, next func(int) bool) bool {
			return first(text, i, func(j int) bool { return second(text, j, next) })
		}
	}
	return all
}

func (e *expression) repeated() node {
	n := e.atom()
	low, high := 1, 1
	switch {
	case e.take("?"):
		low, high = 0, 1
	case e.take("*"):
		low, high = 0, 1<<30
	case e.take("+"):
		low, high = 1, 1<<30
	case e.take("{1,3}"):
		low, high = 1, 3
	default:
		return n
	}
	var times func(text string, i, k int, next func(int) bool) bool
	times = func(text string, i, k int, next func(int) bool) bool {
		if k < high && n(text, i, func(j int) bool { return j > i && times(text, j, k+1, next) }) {
			return true
		}
		return k >= low && next(i)
	}
	return func(text string, i int, next func(int) bool) bool { return times(text, i, 0, next) }
}

func (e *expression) atom() node {
	for prefix, kind := range map[string]func(matches bool) bool{
		"(?=": func(m bool) bool { return m },
		"(?!": func(m bool) bool { return !m },
	} {
		if e.take(prefix) {
			inner := e.alternatives()
			e.take(")")
			return func(text string, i int, next func(int) bool) bool {
				return kind(inner(text, i, func(int) bool { return true })) && next(i)
			}
		}
	}
	if e.take("(?:") || e.take("(") {
		inner := e.alternatives()
		e.take(")")
		return inner
	}
	if e.take("$") {
		return func(text string, i int, next func(int) bool) bool { return i == len(text) && next(i) }
	}
	in := e.set()
	return func(text string, i int, next func(int) bool) bool {
		if i == len(text) {
			return false
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		return in(r) && next(i+n)
	}
}

// set is a character, a class, or brackets.
func (e *expression) set() func(rune) bool {
	if !e.take("[") {
		in, _ := e.member()
		return in
	}
	negated := e.take("^")
	var members []func(rune) bool
	for !e.take("]") {
		in, low := e.member()
		if low >= 0 && strings.HasPrefix(e.rest, "-") && !strings.HasPrefix(e.rest, "-]") {
			e.take("-")
			_, high := e.member()
			in = func(r rune) bool { return low <= r && r <= high }
		}
		members = append(members, in)
	}
	return func(r rune) bool {
		return negated != slices.ContainsFunc(members, func(in func(rune) bool) bool { return in(r) })
	}
}

// member is one character, also returned, or a class.
func (e *expression) member() (in func(rune) bool, char rune) {
	for name, in := range map[string]func(rune) bool{
		`\p{L}`: unicode.IsLetter, `\p{N}`: unicode.IsNumber, `\p{M}`: unicode.IsMark,
		`\p{P}`: unicode.IsPunct, `\p{S}`: unicode.IsSymbol, `\s`: unicode.IsSpace,
		`\S`: func(r rune) bool { return !unicode.IsSpace(r) },
	} {
		if e.take(name) {
			return in, -1
		}
	}
	c := e.rune()
	if c == '\\' {
		c = e.rune()
		switch c {
		case 'r':
			c = '\r'
		case 'n':
			c = '\n'
		}
	}
	return func(r rune) bool { return r == c }, c
}

// cut splits text into matches and gaps.
func cut(n node, text string) (pieces []string) {
	gap := 0
	for i := 0; i < len(text); {
		end := i
		if n(text, i, func(j int) bool { end = j; return true }) && end > i {
			if gap < i {
				pieces = append(pieces, text[gap:i])
			}
			pieces = append(pieces, text[i:end])
			i, gap = end, end
			continue
		}
		_, w := utf8.DecodeRuneInString(text[i:])
		i += w
	}
	if gap < len(text) {
		pieces = append(pieces, text[gap:])
	}
	return pieces
}

// published reads the patterns, by name.
func published(t testing.TB) map[string][]node {
	raw, err := os.ReadFile("testdata/pretokenizers.txt")
	require.NoError(t, err)
	patterns := map[string][]node{}
	var names []string
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		switch pattern, ok := strings.CutPrefix(line, "\t"); {
		case ok:
			n := compile(pattern)
			for _, name := range names {
				patterns[name] = append(patterns[name], n)
			}
		case !strings.HasPrefix(line, "#"):
			names = strings.Split(line, ", ")
		}
	}
	return patterns
}

func reference(stages []node, text string) []string {
	pieces := []string{text}
	for _, n := range stages {
		var next []string
		for _, p := range pieces {
			next = append(next, cut(n, p)...)
		}
		pieces = next
	}
	return pieces
}

func TestPretokenizersAreAllPublished(t *testing.T) {
	var names []string
	for name := range published(t) {
		names = append(names, name)
	}
	slices.Sort(names)
	require.Equal(t, names, tokenizer.Pretokenizers())
}

func TestReferenceExpressions(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          []string
	}{
		{`\s+(?!\S)`, "a   b  ", []string{"a", "  ", " b", "  "}},
		{`\p{N}{1,3}`, "1234567", []string{"123", "456", "7"}},
		{`'(?:[sS]|[lL][lL])|x$`, "'LLx'sx", []string{"'LL", "x", "'s", "x"}},
		{`[^a-c\]\-]+`, "xa-]yb", []string{"x", "a-]", "y", "b"}},
		{`(?:a|ab)(?:bc)?`, "abcab", []string{"abc", "a", "b"}}, // the first choice, not the longest
		{`a*ab|\p{M}$`, "aaab\u0301b\u0301", []string{"aaab", "\u0301b", "\u0301"}},
	} {
		require.Equal(t, c.want, cut(compile(c.pattern), c.text), c.pattern)
	}
}

// interesting are characters of all classes that some pattern tells apart.
var interesting = []rune("aAbBsStTzZlLdDmMrRvVeEéÉßñΩжЖאهकあア一龥가中文" +
	"0123456789٣½Ⅷ²" + " \t\n\r\v\u0085\u00a0\u2003\u2028\u3000" + "'\"!?.,:;-_/\\()[]{}$+<=>^~|`#%&*@«»—…‘’～！。、" +
	"€©☃😀\u0301\u0943\u20dd\u200d\u00ad\x00\x7f\u0378\ufffd\U000e0001ªªǅʰ𝒜𐐀𐒰𞤀𠀀\U0001f1e6")

func randomText() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.Map(rapid.SampledFrom(interesting), func(r rune) string { return string(r) }),
		rapid.Map(rapid.SampledFrom(interesting), func(r rune) string { return string(r) }),
		rapid.SampledFrom([]string{"'s", "'LL", "'re", " '", "  ", "\r\n", " a", "aB", "Ab", "123", "a\u0301", "//\n", "\xff", "\xe2\x96", "\xed\xa0\x80"}),
		rapid.StringN(1, 4, -1),
		rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(string(rapid.SampledFrom(interesting).Draw(t, "char")), rapid.IntRange(1, 5).Draw(t, "times"))
		}),
	)
	return rapid.Map(rapid.SliceOfN(piece, 0, 16), func(p []string) string { return strings.Join(p, "") })
}

func TestPretokenizers(t *testing.T) {
	patterns := published(t)
	for _, name := range tokenizer.Pretokenizers() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				text := randomText().Draw(rt, "text")
				if d := cmp.Diff(reference(patterns[name], text), tokenizer.Split(name, text)); d != "" && text != "" {
					rt.Fatalf("%q is split otherwise: -want +got\n%s", text, d)
				}
			})
		})
	}
}

// distinct are one name of each pre-tokenizer.
var distinct = []string{"gpt-2", "starcoder", "falcon", "deepseek-llm", "deepseek-coder", "deepseek-v3", "llama-bpe",
	"qwen2", "qwen35", "tekken", "gpt-4o"}

// edges are the characters on both sides of every border of a class or a range of the patterns.
func edges(t *testing.T) (chars []rune) {
	for _, table := range []*unicode.RangeTable{unicode.L, unicode.N, unicode.M, unicode.P, unicode.S, unicode.White_Space} {
		for _, r := range table.R16 {
			chars = append(chars, rune(r.Lo)-1, rune(r.Lo), rune(r.Lo)+1, rune(r.Hi)-1, rune(r.Hi), rune(r.Hi)+1)
		}
		for _, r := range table.R32 {
			chars = append(chars, rune(r.Lo)-1, rune(r.Lo), rune(r.Lo)+1, rune(r.Hi)-1, rune(r.Hi), rune(r.Hi)+1)
		}
	}
	raw, err := os.ReadFile("testdata/pretokenizers.txt")
	require.NoError(t, err)
	for _, r := range string(raw) {
		chars = append(chars, r-1, r, r+1)
	}
	slices.Sort(chars)
	return slices.Compact(chars)
}

func TestPretokenizersOnEveryEdge(t *testing.T) {
	patterns, chars := published(t), edges(t)
	for _, name := range distinct {
		for _, r := range chars {
			text := fmt.Sprintf("a%cB %c!%c\n %c1", r, r, r, r)
			if want, got := reference(patterns[name], text), tokenizer.Split(name, text); !slices.Equal(want, got) {
				t.Errorf("%s: %U: want %q, got %q", name, r, want, got)
			}
		}
	}
}

func FuzzPretokenizers(f *testing.F) {
	for _, text := range []string{"", "Hello, y'all! 'LL we've 1234 ", "  \r\n \n\t x", "éABcDé'S//\n", "\xe2\x96\xff 'd", "a\u0301\u0301 \u0301b",
		"0789 990 9999999", "éABC aÉB éé", "!\n/\r//a ?/", "'Ll'vE'Re's'M'd't 'x"} {
		f.Add(text)
	}
	patterns := published(f)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 { // the reference takes time without bound
			return
		}
		for _, name := range tokenizer.Pretokenizers() {
			if want, got := reference(patterns[name], text), tokenizer.Split(name, text); !slices.Equal(want, got) && text != "" {
				t.Fatalf("%s: %q: want %q, got %q", name, text, want, got)
			}
		}
	})
}

// Long runs: a splitter that looks at a run again at each of its characters would take half a minute.
func TestPretokenizersAreLinear(t *testing.T) {
	for _, unit := range []string{"A", "a", "éA", "aA", " ", "\n", " \n", "\t", "7", "!", "中", "\u0301", "\x01", "\xff", "'s", "\u3000", "/"} {
		for _, tail := range []string{"", "a"} {
			text := strings.Repeat(unit, 1<<17/len(unit)) + tail
			for _, name := range distinct {
				begin := time.Now()
				pieces := tokenizer.Split(name, text)
				require.Less(t, time.Since(begin), 5*time.Second, "%s: %q", name, unit)
				require.Equal(t, len(text), len(strings.Join(pieces, "")))
			}
		}
	}
}
