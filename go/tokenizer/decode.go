package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// DecodeOptions configure decoding. With the zero value, special tokens are omitted.
type DecodeOptions struct {
	// Special writes the text of control tokens and of the unknown token; otherwise they are omitted.
	Special bool
	// Continue says that the ids continue a text, such as a prompt: a leading space is then part of the text and is
	// kept, not taken for the space that encoding adds in front of a text.
	Continue bool
}

// Decode is the inverse of Encode. The result need not be valid UTF-8. An id out of range becomes U+FFFD.
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

// Decoder decodes a stream of ids. Each piece of text that it returns is valid UTF-8: the bytes of an incomplete
// character are held back, and each byte that cannot become part of a valid character becomes U+FFFD. The concatenation
// equals string([]rune(s)), where s is the result of Decode. It is not safe for concurrent use.
type Decoder struct {
	t     *Tokenizer
	o     DecodeOptions
	strip bool
	held  []byte // an incomplete character, at most 3 bytes between calls
}

// NewDecoder returns a decoder for a new stream.
func (t *Tokenizer) NewDecoder(o DecodeOptions) *Decoder {
	d := &Decoder{t: t, o: o}
	d.Reset()
	return d
}

// Reset discards the bytes that were held back and begins a new stream.
func (d *Decoder) Reset() {
	d.held = d.held[:0]
	if d.t == nil { // the zero Decoder knows no id
		d.t = new(Tokenizer)
	}
	d.strip = d.t.addSpace && !d.o.Continue
}

// Append appends to dst the text that this token completes, which may be empty.
func (d *Decoder) Append(dst []byte, id int32) []byte {
	if d.t == nil {
		d.Reset()
	}
	d.held = d.t.appendToken(d.held, id, d.o.Special, &d.strip)
	return d.release(dst, false)
}

// Flush ends the stream: it appends to dst one U+FFFD for each byte that was held back, and resets the decoder.
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
