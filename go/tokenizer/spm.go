package tokenizer

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// space is what SentencePiece writes for a space.
const space = "▁"

// appendSPM encodes text with SentencePiece.
func (t *Tokenizer) appendSPM(dst []int32, sc *scratch, text string) []int32 {
	extra := (1 + strings.Count(text, " ")) * len(space)
	buf := slices.Grow(sc.escaped[:0], len(text)+extra)
	if t.addSpace {
		buf = append(buf, space...)
	}
	for {
		i := strings.IndexByte(text, ' ')
		if i < 0 {
			break
		}
		buf = append(append(buf, text[:i]...), space...)
		text = text[i+1:]
	}
	buf = append(buf, text...)
	sc.escaped = buf
	for escaped := view(buf); escaped != ""; {
		n := t.word(escaped)
		dst = t.appendWord(dst, sc, escaped[:n])
		escaped = escaped[n:]
	}
	return dst
}

// word is the length of the first part of the text that merges on its own: no token has what stands at
// its end in front of a ▁.
func (t *Tokenizer) word(text string) int {
	text = text[:min(len(text), maxPiece)]
	for i := 1; ; i += len(space) {
		at := strings.Index(text[min(i, len(text)):], space)
		if at < 0 {
			return len(text)
		}
		if i += at; !t.glue[text[i-1]] && !strings.HasSuffix(text[:i], space) {
			return i
		}
	}
}

// setGlue notes what the tokens have in front of a ▁. The end of another ▁ is not noted: word never
// separates two of them.
func (t *Tokenizer) setGlue() {
	for id := range int32(len(t.types)) {
		if !t.plain[id] {
			continue
		}
		text := t.text(id)
		for i := 1; i < len(text); i += len(space) {
			at := strings.Index(text[i:], space)
			if at < 0 {
				break
			}
			if i += at; !strings.HasSuffix(text[:i], space) {
				t.glue[text[i-1]] = true
			}
		}
	}
}

func (t *Tokenizer) appendWord(dst []int32, sc *scratch, word string) []int32 {
	sc.begin(word)
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		sc.add(n, t.findPlain(word[i:i+n]))
		i += n
	}
	t.merge(sc, word)
	for i := range sc.symbols {
		switch s := &sc.symbols[i]; {
		case s.n == 0:
		case s.id != None:
			dst = append(dst, s.id)
		case t.unwritable(word[s.start : s.start+s.n]):
			dst = append(dst, t.unk)
		default:
			for _, b := range []byte(word[s.start : s.start+s.n]) {
				dst = t.appendByte(dst, b)
			}
		}
	}
	return dst
}

// unwritable reports whether a byte of the character has no token: then the unknown token stands for
// the whole of it.
func (t *Tokenizer) unwritable(char string) bool {
	for i := range len(char) {
		if t.bytes[char[i]] == None {
			return true
		}
	}
	return false
}

// mergeOrder maps a score to a number that is less for a greater score.
func mergeOrder(score float32) uint32 {
	bits := math.Float32bits(score + 0) // -0 becomes 0
	if bits>>31 == 1 {
		return bits
	}
	return ^bits &^ (1 << 31)
}
