package tokenizer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/internal/argument"
)

const (
	keyModel    = "tokenizer.ggml.model"
	keyPre      = "tokenizer.ggml.pre"
	keyTokens   = "tokenizer.ggml.tokens"
	keyTypes    = "tokenizer.ggml.token_type"
	keyScores   = "tokenizer.ggml.scores"
	keyMerges   = "tokenizer.ggml.merges"
	keyBOS      = "tokenizer.ggml.bos_token_id"
	keyEOS      = "tokenizer.ggml.eos_token_id"
	keyEOT      = "tokenizer.ggml.eot_token_id"
	keyEOM      = "tokenizer.ggml.eom_token_id"
	keyEOSs     = "tokenizer.ggml.eos_token_ids"
	keyPadFIM   = "tokenizer.ggml.fim_pad_token_id"
	keyRepFIM   = "tokenizer.ggml.fim_rep_token_id"
	keySepFIM   = "tokenizer.ggml.fim_sep_token_id"
	keyUnk      = "tokenizer.ggml.unknown_token_id"
	keySuppress = "tokenizer.ggml.suppress_tokens"
	keyAddBOS   = "tokenizer.ggml.add_bos_token"
	keyAddEOS   = "tokenizer.ggml.add_eos_token"
	keyAddSpace = "tokenizer.ggml.add_space_prefix"

	modelSPM = "llama"
	modelBPE = "gpt2"

	noID = math.MaxUint32 // a special token's id for "none"
)

// Options configure how a vocabulary is read. The zero Options follow the file.
type Options struct {
	// Pre is the pre-tokenizer of a byte-level BPE vocabulary; "" means the one that the file names.
	Pre string
}

// New makes the tokenizer of a model file. It checks the whole vocabulary, so encoding cannot fail. Errors are *Error,
// which names the key, or *PreError.
//
// If several tokens have the same text, encoding uses the first; all of them can be decoded. If
// tokenizer.ggml.token_type is absent, SentencePiece tokens of the form <0x0A> are byte tokens, and BOS, EOS and EOT
// are control tokens. If the ids of special tokens are absent, SentencePiece uses 1, 2 and 0 for BOS, EOS and the
// unknown token, provided that their texts are <s>, </s> and <unk>.
func New(h arch.Header, o Options) (*Tokenizer, error) {
	if h == nil {
		return nil, argument.Nil("tokenizer: new", "header")
	}
	l := &loader{h: h, t: &Tokenizer{}}
	for _, step := range []func(){
		func() { l.model(o.Pre) }, l.refuse, l.tokens, l.ids, l.types, l.texts, l.scores, l.merges, l.bytes, l.ends, l.flags,
	} {
		if step(); l.err != nil {
			return nil, l.err
		}
	}
	return l.t, nil
}

// loader builds a tokenizer in steps, each of which needs those before it. err is the first error.
type loader struct {
	h     arch.Header
	t     *Tokenizer
	row   *preTokenizer // of byte-level BPE
	array arch.Values   // the tokens
	err   error
}

func (l *loader) fail(kind error, key string, index int, format string, args ...any) {
	if l.err == nil {
		l.err = &Error{File: l.h.Name(), Key: key, Index: index, Reason: fmt.Sprintf(format, args...), Err: kind}
	}
}

// text is the value of a string, "" when absent.
func (l *loader) text(key string) string {
	v, ok := l.value(key)
	if !ok {
		return ""
	}
	s, ok := v.Text()
	if !ok {
		l.fail(ErrInvalid, key, -1, "is of kind %s, not string", v.Kind())
	}
	return s
}

// flag is the value of a boolean, or what it is when absent.
func (l *loader) flag(key string, absent bool) bool {
	v, ok := l.value(key)
	if !ok {
		return absent
	}
	b, ok := v.Bool()
	if !ok {
		l.fail(ErrInvalid, key, -1, "is of kind %s, not bool", v.Kind())
	}
	return b
}

// id is the value of a special token's id, or None; given is false when the key is absent.
func (l *loader) id(key string) (id int32, given bool) {
	v, ok := l.value(key)
	if !ok {
		return None, false
	}
	switch i, ok := v.Int(); {
	case !ok:
		l.fail(ErrInvalid, key, -1, "is of kind %s, not an id", v.Kind())
	case i == noID || i == -1:
	case i < 0 || i >= int64(l.array.Len()):
		l.fail(ErrInvalid, key, -1, "id %d is out of range, the vocabulary has %d tokens", i, l.array.Len())
	default:
		return int32(i), true
	}
	return None, true
}

// values is an array with elements of one of the kinds, nil when it is absent or wrong. Its length is
// that of the tokens, unless any is right.
func (l *loader) values(key string, any bool, kinds ...arch.Kind) arch.Values {
	v, ok := l.value(key)
	if !ok {
		return nil
	}
	a, ok := v.Array()
	switch {
	case !ok:
		l.fail(ErrInvalid, key, -1, "is of kind %s, not array", v.Kind())
	case !slices.Contains(kinds, a.Elem()):
		l.fail(ErrInvalid, key, -1, "is an array of %s, not of %s", a.Elem(), kinds[0])
	case !any && a.Len() != l.array.Len():
		l.fail(ErrInvalid, key, -1, "has %d elements for %d tokens", a.Len(), l.array.Len())
	default:
		return a
	}
	return nil
}

// idList is the value of an array of ids, those that stand for none left out.
func (l *loader) idList(key string) (ids []int32) {
	list := l.values(key, true, arch.Int32, arch.Uint32, arch.Int64, arch.Uint64, arch.Int16, arch.Uint16)
	if list == nil {
		return nil
	}
	for i := range list.Len() {
		switch id, ok := list.At(i).Int(); {
		case ok && (id == noID || id == -1):
		case !ok:
			l.fail(ErrInvalid, key, i, "not a valid id, the vocabulary has %d tokens", l.array.Len())
			return nil
		case id < 0 || id >= int64(l.array.Len()):
			l.fail(ErrInvalid, key, i, "id %d is out of range, the vocabulary has %d tokens", id, l.array.Len())
			return nil
		default:
			ids = append(ids, int32(id))
		}
	}
	return ids
}

// model reads which kind of vocabulary it is, and finds the pre-tokenizer.
func (l *loader) model(pre string) {
	l.t.model = l.text(keyModel)
	switch l.t.model {
	case modelBPE:
	case modelSPM:
		if pre != "" {
			l.fail(ErrPre, keyPre, -1, "model %q has no pre-tokenizer, but %s was named", modelSPM, quote(pre))
		}
		return
	case "":
		l.fail(ErrMissing, keyModel, -1, "absent: the file has no tokenizer")
		return
	default:
		l.fail(ErrUnsupported, keyModel, -1, "%s; supported are %q and %q", quote(l.t.model), modelSPM, modelBPE)
		return
	}
	if pre == "" {
		pre = l.text(keyPre)
	}
	i := slices.IndexFunc(preTokenizers, func(p preTokenizer) bool { return slices.Contains(p.names, pre) })
	switch {
	case l.err != nil:
	case i < 0:
		l.err = &PreError{File: l.h.Name(), Name: pre, Known: Pretokenizers()}
	default:
		l.row = &preTokenizers[i]
		l.t.pre, l.t.stages, l.t.wholePieces = pre, l.row.stages(), l.row.whole
	}
}

func (l *loader) tokens() {
	l.array = l.values(keyTokens, true, arch.String)
	switch {
	case l.array == nil:
		l.fail(ErrMissing, keyTokens, -1, "absent: the file has no vocabulary")
	case l.array.Len() == 0:
		l.fail(ErrInvalid, keyTokens, -1, "no tokens")
	case l.array.Len() >= math.MaxInt32:
		l.fail(ErrInvalid, keyTokens, -1, "%d tokens do not fit into ids of 31 bits", l.array.Len())
	}
}

// ids reads the special tokens.
func (l *loader) ids() {
	for _, s := range []struct {
		key      string
		id       *int32
		usual    int32
		spelling string
	}{
		{keyBOS, &l.t.bos, 1, "<s>"}, {keyEOS, &l.t.eos, 2, "</s>"}, {keyUnk, &l.t.unk, 0, "<unk>"}, {keyEOT, &l.t.eot, None, ""},
	} {
		id, given := l.id(s.key)
		if !given && l.t.model == modelSPM && s.usual != None && int(s.usual) < l.array.Len() &&
			l.array.Text(int(s.usual)) == s.spelling {
			id = s.usual
		}
		*s.id = id
	}
}

func (l *loader) types() {
	t := l.t
	t.types = make([]TokenType, l.array.Len())
	if types := l.values(keyTypes, false, arch.Int32, arch.Uint32); types != nil {
		for i := range t.types {
			y, _ := types.At(i).Int()
			if y < int64(Normal) || y > int64(Byte) {
				l.fail(ErrInvalid, keyTypes, i, "%d is not a token type, want %d to %d", y, Normal, Byte)
				return
			}
			t.types[i] = TokenType(y)
		}
		return
	}
	for i := range t.types {
		t.types[i] = Normal
		if _, ok := byteToken(l.array.Text(i)); ok && t.model == modelSPM {
			t.types[i] = Byte
		}
	}
	for _, id := range []int32{t.bos, t.eos, t.eot} {
		if id != None {
			t.types[id] = Control
		}
	}
	if t.unk != None && t.types[t.unk] == Normal {
		t.types[t.unk] = Unknown
	}
}

// texts copies the tokens, decides which of them plain text may become, and builds what finds them.
func (l *loader) texts() {
	t, n := l.t, l.array.Len()
	t.plain, t.offsets = make([]bool, n), make([]uint32, 1, n+1)
	var arena []byte
	for i, y := range t.types {
		text, usual := l.array.Text(i), y == Normal || y == Unused
		decoded := false
		if usual && t.model == modelBPE {
			arena, decoded = appendBytes(arena, text)
		}
		if !decoded {
			arena = append(arena, text...)
		}
		// A user-defined token is cut out of the text as it is spelled, so it is none of merging's, unless
		// it is spelled with a ▁: text has spaces there.
		t.plain[i] = decoded || t.model == modelSPM && (usual || y == UserDefined && strings.Contains(text, space))
		if uint64(len(arena)) > math.MaxUint32 {
			l.fail(ErrInvalid, keyTokens, i, "the texts are larger than 4 GiB")
			return
		}
		t.offsets = append(t.offsets, uint32(len(arena)))
	}
	t.arena = string(arena)
	t.index()
	t.defined = newMatcher(&t.vocab, func(id int32) bool { return t.cut(id) })
	t.special = newMatcher(&t.vocab, func(id int32) bool { return t.cut(id) || t.types[id].marker() })
}

// scores reads the order of SentencePiece's merges.
func (l *loader) scores() {
	scores := l.values(keyScores, false, arch.Float32, arch.Float64)
	if scores == nil {
		if l.t.model == modelSPM {
			l.fail(ErrMissing, keyScores, -1, "absent, but required for model %q", modelSPM)
		}
		return
	}
	order := make([]uint32, scores.Len())
	for i := range order {
		score, _ := scores.At(i).Float()
		if math.IsNaN(score) {
			l.fail(ErrInvalid, keyScores, i, "is not a number")
			return
		}
		order[i] = mergeOrder(float32(score))
	}
	if l.t.model == modelSPM {
		l.t.order = order
		l.t.setGlue()
	}
}

// merges reads the merges of byte-level BPE; elsewhere it only checks what is there.
func (l *loader) merges() {
	merges, bpe := l.values(keyMerges, true, arch.String), l.t.model == modelBPE
	if merges == nil {
		if bpe {
			l.fail(ErrMissing, keyMerges, -1, "absent, but required for model %q", modelBPE)
		}
		return
	}
	if bpe {
		l.t.pairs = newPairTable(merges.Len())
	}
	var buf []byte
	for i := range merges.Len() {
		merge := merges.Text(i)
		at := 0
		if merge != "" {
			at = 1 + strings.IndexByte(merge[1:], ' ') // a space at the beginning belongs to the left token
		}
		if at == 0 || at == len(merge)-1 {
			l.fail(ErrInvalid, keyMerges, i, "%s is not two tokens separated by a space", quote(merge))
			return
		}
		if !bpe {
			continue
		}
		left, ok := appendBytes(buf[:0], merge[:at])
		both, too := appendBytes(left, merge[at+1:])
		if buf = both; !ok || !too {
			continue // of characters that text never has in its stand-ins
		}
		var ids [3]int32
		for j, text := range [...]string{view(both[:len(left)]), view(both[len(left):]), view(both)} {
			if ids[j] = l.t.find(text); ids[j] == None {
				l.fail(ErrInvalid, keyMerges, i, "%s: %s is not a token", quote(merge), quote(text))
				return
			}
		}
		l.t.pairs.add(ids[0], ids[1], uint32(i+1), ids[2])
	}
}

// bytes finds the token of each byte, and what stands for a byte without one.
func (l *loader) bytes() {
	t := l.t
	for b := range t.bytes {
		t.bytes[b] = None
	}
	for id, y := range t.types {
		if y != Byte {
			continue
		}
		b, ok := byteToken(t.text(int32(id)))
		if !ok {
			l.fail(ErrInvalid, keyTypes, id, "is %s, but the token is %s, not like \"<0x0A>\"", Byte, quote(t.text(int32(id))))
			return
		}
		if t.bytes[b] == None {
			t.bytes[b] = int32(id)
		}
	}
	if t.model == modelBPE {
		for b := range t.bytes {
			if id := t.findPlain(string([]byte{byte(b)})); id != None {
				t.bytes[b] = id
			}
		}
	}
	missing := slices.Index(t.bytes[:], None)
	t.complete = missing < 0
	const replacement = "\uFFFD"
	switch {
	case t.complete:
	case t.model == modelBPE && !t.unwritable(replacement):
		t.replacement = t.appendPiece(nil, new(scratch), replacement)
	case t.unk != None:
		t.replacement = []int32{t.unk}
	default:
		l.fail(ErrInvalid, keyTokens, -1, "no token for byte %#02x, and no token that could replace it", missing)
	}
}

// Tokens that end a turn, and others that end generation, by the texts that models give them.
var (
	turnEnds  = []string{"<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<turn|>", "<|end|>", "<end_of_utterance>", "<EOT>", "_<EOT>", "[EOT]"}
	otherEnds = []string{"<|eom_id|>", "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>",
		"<|tool_response>", "[e~[", "<eos>", "[EOS]", "</s>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"}
)

// End is a token that ends generation.
type End struct {
	ID  int32
	Why string // the metadata key that names it, or "text" if its text identifies it
}

// ends finds the tokens that end generation.
func (l *loader) ends() {
	t := l.t
	add := func(id int32, why string) {
		if id != None && !slices.ContainsFunc(t.ends, func(e End) bool { return e.ID == id }) {
			t.ends = append(t.ends, End{id, why})
		}
	}
	add(t.eos, keyEOS)
	add(t.eot, keyEOT)
	for _, key := range []string{keyEOM, keyPadFIM, keyRepFIM, keySepFIM} {
		id, _ := l.id(key)
		add(id, key)
	}
	for _, id := range l.idList(keyEOSs) {
		add(id, keyEOSs)
	}
	for i, name := range slices.Concat(turnEnds, otherEnds) {
		id := t.find(name)
		switch {
		case id == None || t.plain[id]: // text that happens to be spelled so
			continue
		case name == "<|end|>" && (t.find("<|return|>") != None || t.find("<|flush|>") != None): // ends a part of a turn
			continue
		case name == "</s>" && (t.types[id] != Control || t.eos == None): // a mark of hypertext, or a file that has no EOS
			continue
		}
		add(id, "text")
		if i < len(turnEnds) && t.eot == None {
			t.eot = id
		}
	}
	slices.SortFunc(t.ends, func(a, b End) int { return cmp.Compare(a.ID, b.ID) })
	t.suppressed = l.idList(keySuppress)
}

// flags reads what is added to a text.
func (l *loader) flags() {
	t, spm := l.t, l.t.model == modelSPM
	t.addBOS = l.flag(keyAddBOS, t.bos != None && (spm || l.row.addBOS))
	t.addEOS = l.flag(keyAddEOS, false)
	t.addSpace = l.flag(keyAddSpace, true) && spm
	if t.addBOS && t.bos == None {
		l.fail(ErrInvalid, keyAddBOS, -1, "is true, but there is no BOS token")
	}
	if t.addEOS && t.eos == None {
		l.fail(ErrInvalid, keyAddEOS, -1, "is true, but there is no EOS token")
	}
}

// byteToken is the byte that a token like "<0x0A>" stands for.
func byteToken(text string) (b byte, ok bool) {
	if len(text) != len("<0x0A>") || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	for _, c := range []byte(text[3:5]) {
		digit := strings.IndexByte("0123456789ABCDEFabcdef", c)
		if digit < 0 {
			return 0, false
		}
		if digit >= 16 {
			digit -= 6 // a lower-case letter
		}
		b = b<<4 | byte(digit)
	}
	return b, true
}
