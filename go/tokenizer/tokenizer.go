// Package tokenizer converts text to token ids and back with the vocabulary in a model file's metadata. It supports
// SentencePiece with scores (tokenizer.ggml.model "llama") and byte-level BPE ("gpt2").
//
// Text may be any byte string. Each byte that is not part of valid UTF-8 is treated as one character and preserved: if
// the vocabulary has a token for every byte (see [Tokenizer.ByteComplete]), decoding returns exactly the bytes that
// were encoded. The only exception is U+2581 (▁) with SentencePiece, which uses this character for a space.
//
// Encoding a text of length n takes O(n·log n) time for every text: pre-tokenizers scan linearly, and merges use a
// priority queue.
package tokenizer

import (
	"cmp"
	"slices"
	"sync"
)

// None is returned instead of the id of a special token that the vocabulary does not have.
const None int32 = -1

// EncodeOptions configure encoding. With the zero value, no tokens are added at the ends, and text that spells a
// control token is treated as plain text.
type EncodeOptions struct {
	// BOS prepends the BOS token if the vocabulary asks for it (see [Tokenizer.AddBOS]), unless Special is set and the
	// text already begins with it.
	BOS bool
	// EOS appends the EOS token likewise (see [Tokenizer.AddEOS]). Use it for complete texts, such as training texts,
	// and not for a text that is to be continued or predicted.
	EOS bool
	// Special recognizes control tokens and the unknown token where the text spells them. Do not set it for untrusted
	// text. User-defined tokens are always recognized.
	Special bool
}

// Tokenizer encodes and decodes text with one vocabulary. It is safe for concurrent use and does not keep a reference
// to the header from which it was made. The zero Tokenizer has no tokens.
type Tokenizer struct {
	vocab
	model       string
	pre         string
	stages      []splitter // byte-level BPE: those of the pre-tokenizer
	wholePieces bool       // byte-level BPE: a piece that is a token is taken without merging
	pairs       pairTable  // byte-level BPE: merges
	order       []uint32   // SentencePiece: merge order of each token, from its score
	glue        [256]bool  // SentencePiece: bytes that some token has in front of a ▁
	bytes       [256]int32 // token of each single byte, or None
	replacement []int32    // stands for a byte without a token
	defined     matcher    // user-defined tokens
	special     matcher    // these, control tokens and unknown ones
	scratches   sync.Pool  // of *scratch

	bos, eos, eot, unk       int32
	ends                     []End // ascending
	suppressed               []int32
	complete                 bool // every byte has a token
	addBOS, addEOS, addSpace bool
}

// Encode returns the ids of the text.
func (t *Tokenizer) Encode(text string, o EncodeOptions) []int32 {
	return t.AppendEncode(nil, text, o)
}

// AppendEncode appends the ids of the text to dst. The Tokenizer keeps its scratch memory for later calls, so in steady
// state only the growth of dst allocates.
func (t *Tokenizer) AppendEncode(dst []int32, text string, o EncodeOptions) []int32 {
	if len(t.types) == 0 {
		return dst
	}
	sc, _ := t.scratches.Get().(*scratch)
	if sc == nil {
		sc = new(scratch)
	}
	start := len(dst)
	if o.BOS && t.addBOS {
		dst = append(dst, t.bos)
	}
	m := &t.defined
	if o.Special {
		m = &t.special
	}
	for text != "" {
		at, id, n := m.next(&t.vocab, text)
		dst = t.appendText(dst, sc, text[:at])
		if id != None {
			dst = append(dst, id)
		}
		text = text[at+n:]
	}
	if o.BOS && t.addBOS && len(dst)-start >= 2 && dst[start+1] == t.bos {
		dst = slices.Delete(dst, start, start+1) // the text has its own
	}
	if o.EOS && t.addEOS && (len(dst) == start || dst[len(dst)-1] != t.eos) {
		dst = append(dst, t.eos)
	}
	if sc.worthKeeping() {
		t.scratches.Put(sc)
	}
	return dst
}

// appendText encodes text in which no token is to be recognized as a whole.
func (t *Tokenizer) appendText(dst []int32, sc *scratch, text string) []int32 {
	switch {
	case text == "":
		return dst
	case t.order != nil:
		return t.appendSPM(dst, sc, text)
	}
	return t.appendBPE(dst, sc, text, t.stages)
}

// appendByte appends the token of a byte, or what stands for a byte without one.
func (t *Tokenizer) appendByte(dst []int32, b byte) []int32 {
	if id := t.bytes[b]; id != None {
		return append(dst, id)
	}
	return append(dst, t.replacement...)
}

// Model is the kind of vocabulary: "llama" (SentencePiece) or "gpt2" (byte-level BPE).
func (t *Tokenizer) Model() string { return t.model }

// Pre is the name of the pre-tokenizer, or "" if the vocabulary uses none.
func (t *Tokenizer) Pre() string { return t.pre }

// Len is the number of tokens; ids run from 0 to Len()-1.
func (t *Tokenizer) Len() int { return len(t.types) }

// BOS is the id of the token that begins a text, or None.
func (t *Tokenizer) BOS() int32 { return t.bos }

// EOS is the id of the token that ends a text, or None.
func (t *Tokenizer) EOS() int32 { return t.eos }

// EOT is the id of the token that ends a turn of a conversation, or None.
func (t *Tokenizer) EOT() int32 { return t.eot }

// Unk is the id of the unknown token, which replaces text that the vocabulary cannot represent, or None.
func (t *Tokenizer) Unk() int32 { return t.unk }

// AddBOS reports whether the vocabulary asks for BOS at the beginning of a text.
func (t *Tokenizer) AddBOS() bool { return t.addBOS }

// AddEOS reports whether the vocabulary asks for EOS at the end of a complete text: see [EncodeOptions].
func (t *Tokenizer) AddEOS() bool { return t.addEOS }

// AddSpacePrefix reports whether encoding adds a space in front of a text, and in front of the text after each special
// or user-defined token that it recognizes. Decoding removes these spaces.
func (t *Tokenizer) AddSpacePrefix() bool { return t.addSpace }

// IsEOG reports whether generation ends with this token, as for EOS and EOT.
func (t *Tokenizer) IsEOG(id int32) bool {
	_, found := slices.BinarySearchFunc(t.ends, id, func(e End, id int32) int { return cmp.Compare(e.ID, id) })
	return found
}

// EOG returns the ids of all tokens that end generation, in ascending order.
func (t *Tokenizer) EOG() []int32 {
	ids := make([]int32, len(t.ends))
	for i, e := range t.ends {
		ids[i] = e.ID
	}
	return ids
}

// Ends returns the tokens that end generation, in ascending order of ids, each with the reason.
func (t *Tokenizer) Ends() []End { return slices.Clone(t.ends) }

// Suppressed returns the ids of tokens that must not be generated.
func (t *Tokenizer) Suppressed() []int32 { return slices.Clone(t.suppressed) }

// ByteComplete reports whether every byte has a token, so that every byte string can be encoded exactly. Otherwise a
// byte without a token becomes U+FFFD (byte-level BPE) or the unknown token.
func (t *Tokenizer) ByteComplete() bool { return t.complete }
