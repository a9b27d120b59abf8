package tokenizer

import (
	"fmt"
	"hash/maphash"
	"unsafe"
)

// TokenType is the type of a token; numbers follow GGUF.
type TokenType uint8

// The types of tokens.
const (
	Normal      TokenType = 1
	Unknown     TokenType = 2 // replaces text that the vocabulary cannot represent
	Control     TokenType = 3 // a marker, such as the end of the text; not itself text
	UserDefined TokenType = 4 // text that is always one token
	Unused      TokenType = 5
	Byte        TokenType = 6 // one byte; its text is "<0x0A>"
)

var typeNames = [...]string{Normal: "normal", Unknown: "unknown", Control: "control",
	UserDefined: "user-defined", Unused: "unused", Byte: "byte"}

// String is the name of the type: "normal", "control"; "type 9" for a number without a name.
func (y TokenType) String() string {
	if int(y) >= len(typeNames) || y == 0 {
		return fmt.Sprintf("type %d", uint8(y))
	}
	return typeNames[y]
}

// marker reports whether tokens of the type are no text.
func (y TokenType) marker() bool { return y == Control || y == Unknown }

// vocab is the tokens: all texts in one string, and a hash table from text to id.
type vocab struct {
	arena   string
	offsets []uint32 // token i is arena[offsets[i]:offsets[i+1]]
	types   []TokenType
	plain   []bool // may be made of plain text by merging
	seed    maphash.Seed
	slots   []int32 // id+1, or 0; open addressing, at most half full
}

func (v *vocab) valid(id int32) bool { return uint32(id) < uint32(len(v.types)) }

func (v *vocab) text(id int32) string { return v.arena[v.offsets[id]:v.offsets[id+1]] }

// cut reports whether the token is recognized as a whole wherever the text spells it.
func (v *vocab) cut(id int32) bool { return v.types[id] == UserDefined && !v.plain[id] }

// Text is the token's text in the vocabulary. With SentencePiece, ▁ stands for a space and "<0x0A>" for a byte. With
// byte-level BPE it is the token's bytes, which need not be valid UTF-8. It is "" for an id out of range.
func (v *vocab) Text(id int32) string {
	if !v.valid(id) {
		return ""
	}
	return v.text(id)
}

// Type is the type of the token, 0 for an id out of range.
func (v *vocab) Type(id int32) TokenType {
	if !v.valid(id) {
		return 0
	}
	return v.types[id]
}

// ID finds the token with this text, spelled as Text returns it. If there are several, a token that plain text can be
// encoded to is preferred, then the lowest id.
func (v *vocab) ID(text string) (id int32, ok bool) {
	id = v.find(text)
	return id, id != None
}

// slot is where the text stands in the table, or the free place where it belongs.
func (v *vocab) slot(text string) uint64 {
	mask := uint64(len(v.slots) - 1)
	i := maphash.String(v.seed, text) & mask
	for v.slots[i] != 0 && v.text(v.slots[i]-1) != text {
		i = (i + 1) & mask
	}
	return i
}

func (v *vocab) find(text string) int32 {
	if len(v.slots) == 0 {
		return None
	}
	return v.slots[v.slot(text)] - 1
}

// findPlain finds a token that plain text may become.
func (v *vocab) findPlain(text string) int32 {
	if id := v.find(text); id != None && v.plain[id] {
		return id
	}
	return None
}

// index builds the table. Tokens that plain text may become go first, so that no other token hides one;
// empty tokens cannot be found.
func (v *vocab) index() {
	size := 2
	for size < 2*len(v.types) {
		size *= 2
	}
	v.seed, v.slots = maphash.MakeSeed(), make([]int32, size)
	for _, plain := range [...]bool{true, false} {
		for id := range int32(len(v.types)) {
			if v.plain[id] != plain || v.text(id) == "" {
				continue
			}
			if i := v.slot(v.text(id)); v.slots[i] == 0 {
				v.slots[i] = id + 1
			}
		}
	}
}

// view is the bytes as a string without a copy, for as long as they are not written.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
