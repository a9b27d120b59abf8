package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// DecodeOptions says how to decode. The zero DecodeOptions gives the text alone.
type DecodeOptions struct {
	// Special writes control tokens and the unknown token as their text; else they are left out.
	Special bool
	// Continue says that the ids continue a text, such as a prompt: a space at their beginning is part
	// of the text, and not the one that encoding puts in front.
	Continue bool
}

// Decode returns the bytes that the ids stand for, valid UTF-8 or not: the inverse of Encode. An id out
// of range becomes U+FFFD.
func (t *Tokenizer) Decode(ids []int32, o DecodeOptions) string {
	return string(t.AppendDecode(nil, ids, o))
}

// AppendDecode appends what Decode returns to dst.
func (t *Tokenizer) AppendDecode(dst []byte, ids []int32, o DecodeOptions) []byte {
	strip := t.addSpace && !o.Continue
	for _, id := range ids {
		dst = t.appendToken(dst, id, o.Special, &strip)
	}
	return dst
}

// appendToken appends the bytes of one token. strip says whether the next text begins with a space that
// encoding put there.
func (t *Tokenizer) appendToken(dst []byte, id int32, special bool, strip *bool) []byte {
	if !t.valid(id) {
		return utf8.AppendRune(dst, utf8.RuneError)
	}
	text := t.text(id)
	switch y := t.types[id]; {
	case y.marker():
		// With a token for every byte, the unknown token is there only where the text spelled it.
		*strip = t.addSpace && (y == Control || t.complete)
		if special {
			dst = append(dst, text...)
		}
		return dst
	case t.cut(id):
		*strip = t.addSpace
		return append(dst, text...)
	case y == Byte:
		*strip = false
		b, _ := byteToken(text)
		return append(dst, b)
	case text == "" || t.order == nil:
		return append(dst, text...)
	}
	if *strip {
		text = strings.TrimPrefix(text, space)
	}
	*strip = false
	for {
		i := strings.Index(text, space)
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(append(dst, text[:i]...), ' ')
		text = text[i+len(space):]
	}
}

// Decoder decodes a stream of ids into text that is valid UTF-8 at every step: bytes of a character that
// is not complete yet are held back. What no further byte can make valid becomes U+FFFD, one per byte, so
// all parts together are the conversion of Decode's bytes to runes and back. It is not safe for concurrent use.
type Decoder struct {
	t     *Tokenizer
	o     DecodeOptions
	strip bool
	held  []byte // an incomplete character, at most 3 bytes between calls
}

// NewDecoder returns a decoder at the beginning of a stream.
func (t *Tokenizer) NewDecoder(o DecodeOptions) *Decoder {
	d := &Decoder{t: t, o: o}
	d.Reset()
	return d
}

// Reset forgets what was held back and begins a new stream.
func (d *Decoder) Reset() {
	d.held = d.held[:0]
	d.strip = d.t.addSpace && !d.o.Continue
}

// Append appends the text that is complete with this token to dst: nothing, if all of it is held back.
func (d *Decoder) Append(dst []byte, id int32) []byte {
	d.held = d.t.appendToken(d.held, id, d.o.Special, &d.strip)
	return d.release(dst, false)
}

// Flush ends the stream: it appends a U+FFFD to dst for each byte that was held back, and resets.
func (d *Decoder) Flush(dst []byte) []byte {
	dst = d.release(dst, true)
	d.Reset()
	return dst
}

func (d *Decoder) release(dst []byte, end bool) []byte {
	i := 0
	for i < len(d.held) && (end || utf8.FullRune(d.held[i:])) {
		r, n := utf8.DecodeRune(d.held[i:])
		dst = utf8.AppendRune(dst, r)
		i += n
	}
	d.held = slices.Delete(d.held, 0, i)
	return dst
}
