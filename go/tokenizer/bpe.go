package tokenizer

import "unicode/utf8"

// appendBPE splits text by the stages of the pre-tokenizer, each of which splits the pieces of the one
// before it, and merges the last pieces.
func (t *Tokenizer) appendBPE(dst []int32, sc *scratch, text string, stages []splitter) []int32 {
	if len(stages) == 0 {
		return t.appendPiece(dst, sc, text)
	}
	for text != "" {
		n := stages[0](text)
		dst = t.appendBPE(dst, sc, text[:n], stages[1:])
		text = text[n:]
	}
	return dst
}

func (t *Tokenizer) appendPiece(dst []int32, sc *scratch, piece string) []int32 {
	if len(piece) == 1 {
		return t.appendByte(dst, piece[0])
	}
	if t.wholePieces {
		if id := t.findPlain(piece); id != None {
			return append(dst, id)
		}
	}
	for piece != "" {
		part := piece[:min(len(piece), maxPiece)]
		sc.begin(part)
		for i := range len(part) {
			sc.add(1, t.bytes[part[i]])
		}
		t.merge(sc, part)
		for i := range sc.symbols {
			switch s := &sc.symbols[i]; {
			case s.n == 0:
			case s.id != None:
				dst = append(dst, s.id)
			default: // a merge has a token: this is a byte without one
				dst = t.appendByte(dst, part[s.start])
			}
		}
		piece = piece[len(part):]
	}
	return dst
}

// standIns maps the printable characters that byte-level BPE writes for bytes to the bytes: printable
// Latin-1 characters for themselves, and U+0100 and on for the other bytes in their order.
var standIns = func() (table [256 + 68]int16) {
	for i := range table {
		table[i] = -1
	}
	next := rune(256)
	for b := range 256 {
		if b > ' ' && b < 0x7f || b > 0xa0 && b != 0xad {
			table[b] = int16(b)
		} else {
			table[next] = int16(b)
			next++
		}
	}
	return table
}()

// appendBytes appends the bytes that a text in stand-ins means. If a character is no stand-in, ok is
// false and dst as it was.
func appendBytes(dst []byte, text string) (_ []byte, ok bool) {
	start := len(dst)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if int(r) >= len(standIns) || standIns[r] < 0 {
			return dst[:start], false
		}
		dst = append(dst, byte(standIns[r]))
		i += n
	}
	return dst, true
}
