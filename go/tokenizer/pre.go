package tokenizer

import (
	"sort"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Pre-tokenizers. The published ones are expressions; here each is written as what it comes to: a
// splitter that looks at each character a fixed number of times. In the comments L, N, M, P, S and s are
// letters, numbers, marks, punctuation, symbols and white space of Unicode.

// splitter returns the length of the first piece of a text that is not empty.
type splitter func(text string) int

// matcherFunc returns the length of the match at the beginning of a text, 0 if there is none. To find
// that there is none it looks at a fixed number of characters.
type matcherFunc func(text string) int

// split makes a splitter of an expression: matches are pieces, and so is what stands between two of them.
func split(match matcherFunc) splitter {
	return func(text string) int {
		if n := match(text); n > 0 {
			return n
		}
		i := 0
		for {
			_, n := utf8.DecodeRuneInString(text[i:])
			if i += n; i == len(text) || match(text[i:]) > 0 {
				return i
			}
		}
	}
}

// preTokenizer is one row of the table of pre-tokenizers.
type preTokenizer struct {
	names  []string
	stages func() []splitter
	whole  bool // a piece that is a token is taken as it is
	addBOS bool // unless the file says otherwise
}

// preTokenizers is the table; names as in tokenizer.ggml.pre.
var preTokenizers = []preTokenizer{
	{names: []string{"gpt-2", "olmo", "mpt"}, stages: func() []splitter { return []splitter{split(gpt2)} }},
	{names: []string{"starcoder", "refact", "smollm", "command-r"}, stages: func() []splitter {
		return []splitter{split(one(isNumber)), split(gpt2)}
	}},
	{names: []string{"falcon"}, stages: func() []splitter {
		return []splitter{split(run(isFalconMark)), split(gpt2), split(threeDigits)}
	}},
	{names: []string{"deepseek-llm"}, stages: func() []splitter {
		return []splitter{split(one(isNewline)), split(spaced(set(casedLetters))), split(spaced(set(asciiAndWideMarks))),
			trailingSpace, split(run(set(cjkAndMore))), split(run(isNumber))}
	}},
	{names: []string{"deepseek-coder"}, stages: func() []splitter {
		return []splitter{split(one(isNewline)), split(spaced(isLetter)), split(spaced(isPunctuation)),
			split(run(set(cjkAndMore))), split(one(isNumber))}
	}},
	{names: []string{"deepseek-v3"}, stages: func() []splitter {
		return []splitter{split(numbers(3)), split(run(set(cjkAndKana))), split(deepseekV3)}
	}},
	{names: []string{"llama-bpe", "llama3"}, whole: true, addBOS: true, stages: words{numbers: 3, contractions: true}.stages},
	{names: []string{"dbrx"}, stages: words{numbers: 3, contractions: true}.stages},
	{names: []string{"qwen2", "stablelm2"}, stages: words{numbers: 1, contractions: true}.stages},
	{names: []string{"qwen35"}, stages: words{numbers: 1, contractions: true, marks: mark}.stages},
	{names: []string{"tekken"}, whole: true, addBOS: true, stages: words{numbers: 1, cased: true, slashes: true}.stages},
	{names: []string{"gpt-4o"}, stages: words{numbers: 3, cased: true, slashes: true, endings: true}.stages},
}

// Pretokenizers returns the names of the supported pre-tokenizers for byte-level BPE, in alphabetical order.
func Pretokenizers() []string {
	var names []string
	for _, p := range preTokenizers {
		names = append(names, p.names...)
	}
	sort.Strings(names)
	return names
}

// class is a set of the classes of Unicode that the expressions name.
type class uint8

const (
	letter class = 1 << iota
	number
	mark
	punctuation
	symbolic
	whiteSpace
)

var classTables = []struct {
	class  class
	tables []*unicode.RangeTable
}{
	{letter, []*unicode.RangeTable{unicode.L}}, {number, []*unicode.RangeTable{unicode.N}},
	{mark, []*unicode.RangeTable{unicode.M}}, {punctuation, []*unicode.RangeTable{unicode.P}},
	{symbolic, []*unicode.RangeTable{unicode.S}}, {whiteSpace, []*unicode.RangeTable{unicode.White_Space}},
}

// basicPlane is the classes of the first 65,536 characters.
var basicPlane = sync.OnceValue(func() *[1 << 16]class {
	planes := new([1 << 16]class)
	for _, c := range classTables {
		for _, table := range c.tables {
			for _, r := range table.R16 {
				for i := uint32(r.Lo); i <= uint32(r.Hi); i += uint32(r.Stride) {
					planes[i] |= c.class
				}
			}
		}
	}
	return planes
})

func classOf(r rune) class {
	if r < 1<<16 {
		return basicPlane()[r]
	}
	for _, c := range classTables {
		if unicode.In(r, c.tables...) {
			return c.class
		}
	}
	return 0
}

// at decodes the character at byte i: its class and its length, zeros at the end of the text. A byte that
// is not valid UTF-8 has the class of U+FFFD.
func at(text string, i int) (class, int) {
	if i >= len(text) {
		return 0, 0
	}
	r, n := rune(text[i]), 1
	if r >= utf8.RuneSelf {
		r, n = utf8.DecodeRuneInString(text[i:])
	}
	return classOf(r), n
}

// while returns the end of the run from byte i of characters in one of the classes.
func while(text string, i int, in class) int {
	for {
		c, n := at(text, i)
		if c&in == 0 {
			return i
		}
		i += n
	}
}

// other returns the end of the run from byte i of characters in none of the classes.
func other(text string, i int, in class) int {
	for {
		c, n := at(text, i)
		if c&in != 0 || n == 0 {
			return i
		}
		i += n
	}
}

func isLetter(r rune) bool      { return classOf(r)&letter != 0 }
func isNumber(r rune) bool      { return classOf(r)&number != 0 }
func isPunctuation(r rune) bool { return classOf(r)&punctuation != 0 }
func isNewline(r rune) bool     { return r == '\r' || r == '\n' }
func isFalconMark(r rune) bool  { return isPunctuation(r) || strings.ContainsRune("$+<=>^~|`", r) }

// Sets of characters that expressions spell out, as ranges; escaped, since some of these characters have
// equivalents that look the same and that editors may put in their place.
const (
	casedLetters = "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373" +
		"\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481" +
		"\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b" +
		"\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b" +
		"\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb" +
		"\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128" +
		"\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4" +
		"\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf" +
		"\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3" +
		"\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df" +
		"\U0001e900-\U0001e943"
	asciiAndWideMarks = "!-/:-~\u2018-\u201f\u3000-\u3002\uff01-\uff0f\uff1a-\uff5e"
	cjkAndMore        = "\u0800-\u9fa5\uac00-\ud7ff"
	cjkAndKana        = "\u3040-\u30ff\u4e00-\u9fa5"
)

// set makes a test of ascending ranges, written as in an expression's brackets.
func set(ranges string) func(rune) bool {
	var low, high []rune
	rs := []rune(ranges)
	for i := 0; i < len(rs); i++ {
		low, high = append(low, rs[i]), append(high, rs[i])
		if i+2 < len(rs) && rs[i+1] == '-' {
			i += 2
			high[len(high)-1] = rs[i]
		}
	}
	return func(r rune) bool {
		i := sort.Search(len(low), func(i int) bool { return low[i] > r }) - 1
		return i >= 0 && r <= high[i]
	}
}

// one is [in].
func one(in func(rune) bool) matcherFunc {
	return func(text string) int {
		if r, n := utf8.DecodeRuneInString(text); n > 0 && in(r) {
			return n
		}
		return 0
	}
}

// run is [in]+.
func run(in func(rune) bool) matcherFunc {
	return func(text string) int {
		i := 0
		for i < len(text) {
			r, n := utf8.DecodeRuneInString(text[i:])
			if !in(r) {
				break
			}
			i += n
		}
		return i
	}
}

// spaced is s?[in]+. If a space is in the set itself, it makes no difference: the run takes it.
func spaced(in func(rune) bool) matcherFunc {
	match := run(in)
	return func(text string) int {
		if c, n := at(text, 0); c&whiteSpace != 0 {
			if m := match(text[n:]); m > 0 {
				return n + m
			}
		}
		return match(text)
	}
}

// numbers is N{1,most}.
func numbers(most int) matcherFunc {
	return func(text string) int {
		i := 0
		for range most {
			c, n := at(text, i)
			if c&number == 0 {
				break
			}
			i += n
		}
		return i
	}
}

// threeDigits is [0-9][0-9][0-9].
func threeDigits(text string) int {
	for i := range 3 {
		if i == len(text) || text[i]-'0' > 9 {
			return 0
		}
	}
	return 3
}

// trailingSpace is s+$ as a splitter: to find that it does not match at a character of a long run of
// white space would take a look at the whole of it.
func trailingSpace(text string) int {
	if rest := strings.TrimRightFunc(text, unicode.IsSpace); rest != "" {
		return len(rest)
	}
	return len(text)
}

// contraction is '(s|t|re|ve|m|ll|d), in any case if fold says so.
func contraction(text string, fold bool) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	lower := func(i int) byte {
		if i < len(text) && fold && 'A' <= text[i] && text[i] <= 'Z' {
			return text[i] + 'a' - 'A'
		} else if i < len(text) {
			return text[i]
		}
		return 0
	}
	switch a, b := lower(1), lower(2); {
	case a == 's' || a == 't' || a == 'm' || a == 'd':
		return 2
	case a == 'r' && b == 'e' || a == 'v' && b == 'e' || a == 'l' && b == 'l':
		return 3
	}
	return 0
}

// blanks is s+(?!\S) for a text that begins with white space: all of a run of it at the end of the text,
// else all but its last character. end is where the run ends.
func blanks(text string) (n, end int) {
	end = while(text, 0, whiteSpace)
	if end == len(text) {
		return end, end
	}
	_, last := utf8.DecodeLastRuneInString(text[:end])
	return end - last, end
}

// lines is s*[\r\n]+|s+(?!\S)|s+ for a text that begins with white space.
func lines(text string) int {
	n, end := blanks(text)
	if i := strings.LastIndexAny(text[:end], "\r\n"); i >= 0 {
		return i + 1
	}
	if n > 0 {
		return n
	}
	return end
}

// gpt2 is 's|'t|'re|'ve|'m|'ll|'d| ?L+| ?N+| ?[^sLN]+|s+(?!\S).
func gpt2(text string) int {
	if n := contraction(text, false); n > 0 {
		return n
	}
	i := 0
	if text[0] == ' ' {
		i = 1
	}
	switch c, n := at(text, i); {
	case n == 0 || c&whiteSpace != 0: // white space, perhaps behind a space, or a space at the end
		n, _ := blanks(text)
		return n
	case c&letter != 0:
		return while(text, i, letter)
	case c&number != 0:
		return while(text, i, number)
	}
	return other(text, i, whiteSpace|letter|number)
}

// deepseekV3 is [!-/:-~ without letters][A-Za-z]+|[^\r\nLPS]?[LM]+| ?[PS]+[\r\n]*|s*[\r\n]+|s+(?!\S)|s+.
func deepseekV3(text string) int {
	ascii := func(i int) bool { return i < len(text) && 'a' <= text[i]|0x20 && text[i]|0x20 <= 'z' }
	c, n := at(text, 0)
	if text[0] < utf8.RuneSelf && c&(punctuation|symbolic) != 0 && ascii(1) {
		i := 2
		for ascii(i) {
			i++
		}
		return i
	}
	if c&(letter|mark) != 0 {
		return while(text, 0, letter|mark)
	}
	next, _ := at(text, n)
	if c&(punctuation|symbolic) == 0 && !isNewline(rune(text[0])) && next&(letter|mark) != 0 {
		return while(text, n, letter|mark)
	}
	if c&(punctuation|symbolic) != 0 || text[0] == ' ' && next&(punctuation|symbolic) != 0 {
		return newlines(text, while(text, n, punctuation|symbolic), "\r\n")
	}
	if c&whiteSpace != 0 {
		return lines(text)
	}
	return 0
}

// newlines returns the end of the run from byte i of bytes in the set.
func newlines(text string, i int, in string) int {
	for i < len(text) && strings.IndexByte(in, text[i]) >= 0 {
		i++
	}
	return i
}

// words is the family of expressions that began with GPT-4's. Its members match every text, and differ in
// what is said here.
type words struct {
	numbers      int   // N{1,numbers}
	contractions bool  // they come first, in any case
	endings      bool  // a contraction is the end of the word
	marks        class // mark, if marks are parts of words
	cased        bool  // words end in front of a capital A-Z that follows another letter than that
	slashes      bool  // slashes may follow marks like newlines
}

func (w words) stages() []splitter { return []splitter{w.next} }

// next is contractions|[^\r\nLN]?word|N{1,n}| ?[^sLN]+[\r\n]*|s*[\r\n]+|s+(?!\S)|s+.
func (w words) next(text string) int {
	if w.contractions {
		if n := contraction(text, true); n > 0 {
			return n
		}
	}
	c, n := at(text, 0)
	inWord := letter | w.marks
	if c&inWord != 0 {
		return w.word(text, 0)
	}
	if c&number != 0 {
		return numbers(w.numbers)(text)
	}
	next, _ := at(text, n)
	if next&inWord != 0 && !isNewline(rune(text[0])) {
		return w.word(text, n)
	}
	if c&whiteSpace != 0 && (text[0] != ' ' || n == len(text) || next&(whiteSpace|number) != 0) {
		return lines(text)
	}
	i := other(text, n, whiteSpace|number|inWord)
	if w.slashes {
		return newlines(text, i, "\r\n/")
	}
	return newlines(text, i, "\r\n")
}

// word returns the end of the word that begins at byte i.
func (w words) word(text string, i int) int {
	if !w.cased {
		return while(text, i, letter|w.marks)
	}
	end := casedWord(text, i)
	if w.endings {
		end += contraction(text[end:], true)
	}
	return end
}

// casedWord is U*V+|U+V* from byte i, where a letter stands: U is all letters but a-z, V all but A-Z, so
// other letters are both. The first alternative takes all of U that it can and gives back what V+ needs: up
// to the last letter that is both, unless one of a-z follows.
func casedWord(text string, i int) int {
	both := 0 // end of the last letter that is both
	for {
		c, n := at(text, i)
		if c&letter == 0 || n == 1 && 'a' <= text[i] && text[i] <= 'z' {
			if c&letter != 0 {
				break
			}
			if both > 0 {
				return both
			}
			return i
		}
		if i += n; n > 1 {
			both = i
		}
	}
	for {
		c, n := at(text, i)
		if c&letter == 0 || n == 1 && 'A' <= text[i] && text[i] <= 'Z' {
			return i
		}
		i += n
	}
}
