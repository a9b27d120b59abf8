package tokenizer_test

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/skeep-project/skeep/go/arch"
)

// header is an arch.Header of Go values: string, bool, numbers, and slices of them.
type header map[string]any

func (h header) Name() string               { return "test.gguf" }
func (h header) Keys() iter.Seq[string]     { return maps.Keys(h) }
func (h header) Tensors() []arch.TensorInfo { return nil }

func (h header) Value(key string) (arch.Value, bool) {
	v, ok := h[key]
	return value{v}, ok
}

// with is the header with other values; nil takes one away.
func (h header) with(pairs ...any) header {
	h = maps.Clone(h)
	for i := 0; i < len(pairs); i += 2 {
		if key := "tokenizer.ggml." + pairs[i].(string); pairs[i+1] == nil {
			delete(h, key)
		} else {
			h[key] = pairs[i+1]
		}
	}
	return h
}

type value struct{ v any }

func (v value) Kind() arch.Kind {
	switch v.v.(type) {
	case uint8:
		return arch.Uint8
	case uint32:
		return arch.Uint32
	case int32:
		return arch.Int32
	case float32:
		return arch.Float32
	case bool:
		return arch.Bool
	case string:
		return arch.String
	}
	return arch.Array
}

func (v value) Int() (int64, bool) {
	switch x := v.v.(type) {
	case uint8:
		return int64(x), true
	case uint32:
		return int64(x), true
	case int32:
		return int64(x), true
	}
	return 0, false
}

func (v value) Uint() (uint64, bool) {
	i, ok := v.Int()
	return uint64(i), ok && i >= 0
}

func (v value) Float() (float64, bool) {
	if f, ok := v.v.(float32); ok {
		return float64(f), true
	}
	i, ok := v.Int()
	return float64(i), ok
}

func (v value) Bool() (b, ok bool) { b, ok = v.v.(bool); return b, ok }

func (v value) Text() (s string, ok bool) { s, ok = v.v.(string); return s, ok }

func (v value) Array() (arch.Values, bool) {
	switch a := v.v.(type) {
	case []string:
		return values[string](a), true
	case []float32:
		return values[float32](a), true
	case []int32:
		return values[int32](a), true
	case []uint32:
		return values[uint32](a), true
	case []uint8:
		return values[uint8](a), true
	}
	return nil, false
}

type values[T any] []T

func (a values[T]) Elem() arch.Kind     { var zero T; return value{zero}.Kind() }
func (a values[T]) Len() int            { return len(a) }
func (a values[T]) At(i int) arch.Value { return value{a[i]} }
func (a values[T]) Text(i int) string   { s, _ := any(a[i]).(string); return s }

// standIn is how byte-level BPE writes a byte.
func standIn(b byte) string {
	if b > ' ' && b < 0x7f || b > 0xa0 && b != 0xad {
		return string(rune(b))
	}
	r := rune(256)
	for c := range b {
		if !(c > ' ' && c < 0x7f || c > 0xa0 && c != 0xad) {
			r++
		}
	}
	return string(r)
}

func standIns(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteString(standIn(text[i]))
	}
	return b.String()
}

// extra is a token that is no result of merging.
type extra struct {
	text string
	typ  int32
}

// bpeHeader is a vocabulary of byte-level BPE: all bytes, a token for each merge, and the extra tokens.
func bpeHeader(pre string, merges []string, extras ...extra) header {
	var tokens []string
	for b := range 256 {
		tokens = append(tokens, standIn(byte(b)))
	}
	for _, m := range merges {
		tokens = append(tokens, strings.Replace(m, " ", "", 1))
	}
	types := slices.Repeat([]int32{1}, len(tokens))
	for _, e := range extras {
		tokens, types = append(tokens, e.text), append(types, e.typ)
	}
	return header{"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens,
		"tokenizer.ggml.token_type": types, "tokenizer.ggml.merges": merges}
}

// spmHeader is a SentencePiece vocabulary: <unk>, <s>, </s>, all bytes, words with descending scores, and
// the extra tokens.
func spmHeader(words []string, extras ...extra) header {
	tokens, types, scores := []string{"<unk>", "<s>", "</s>"}, []int32{2, 3, 3}, []float32{0, 0, 0}
	add := func(text string, typ int32, score float32) {
		tokens, types, scores = append(tokens, text), append(types, typ), append(scores, score)
	}
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), 6, 0)
	}
	for i, w := range words {
		add(w, 1, -float32(i))
	}
	for _, e := range extras {
		add(e.text, e.typ, -1000)
	}
	return header{"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types,
		"tokenizer.ggml.scores": scores, "tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": uint32(2),
		"tokenizer.ggml.unknown_token_id": uint32(0)}
}

// slow encodes by the definition: the arrays of the file as they are, strings, and a search of the whole
// piece for each merge.
type slow struct {
	spm, addSpace bool
	stages        []node
	whole         bool
	tokens        []string
	types         []int32
	cuts          []int32 // tokens that are recognized as a whole
	ids           map[string]int32
	scores        map[string]float64
	ranks         map[[2]string]int
}

func newSlow(h arch.Header, patterns map[string][]node) *slow {
	get := func(key string) arch.Values {
		v, ok := h.Value("tokenizer.ggml." + key)
		if !ok {
			return nil
		}
		a, _ := v.Array()
		return a
	}
	model, _ := h.Value("tokenizer.ggml.model")
	name, _ := model.Text()
	s := &slow{spm: name == "llama", addSpace: name == "llama", ids: map[string]int32{}, scores: map[string]float64{}, ranks: map[[2]string]int{}}
	if v, ok := h.Value("tokenizer.ggml.add_space_prefix"); ok {
		b, _ := v.Bool()
		s.addSpace = b && s.spm
	}
	tokens, types, scores, merges := get("tokens"), get("token_type"), get("scores"), get("merges")
	for i := range tokens.Len() {
		y, _ := types.At(i).Int()
		text := tokens.Text(i)
		s.tokens, s.types = append(s.tokens, text), append(s.types, int32(y))
		if text != "" && (y == 2 || y == 3 || y == 4 && !(s.spm && strings.Contains(text, "▁"))) {
			s.cuts = append(s.cuts, int32(i))
		}
		if _, again := s.ids[text]; again || y != 1 && y != 5 && !(s.spm && y == 4 && strings.Contains(text, "▁")) {
			continue
		}
		s.ids[text] = int32(i)
		if s.spm {
			s.scores[text], _ = scores.At(i).Float()
		}
	}
	if s.spm {
		return s
	}
	pre, _ := h.Value("tokenizer.ggml.pre")
	name, _ = pre.Text()
	s.stages, s.whole = patterns[name], name == "llama-bpe" || name == "llama3" || name == "tekken"
	for i := range merges.Len() {
		left, right, _ := strings.Cut(merges.Text(i), " ")
		if _, again := s.ranks[[2]string{left, right}]; !again {
			s.ranks[[2]string{left, right}] = i
		}
	}
	return s
}

func (s *slow) encode(text string, special bool) (ids []int32) {
	for text != "" {
		at, best := len(text), int32(-1)
		for i := range len(text) {
			for _, id := range s.cuts {
				token, marker := s.tokens[id], s.types[id] != 4
				if (special || !marker) && strings.HasPrefix(text[i:], token) && (best < 0 || len(token) > len(s.tokens[best])) {
					at, best = i, id
				}
			}
			if best >= 0 {
				break
			}
		}
		if at > 0 {
			ids = append(ids, s.plain(text[:at])...)
		}
		if text = text[at:]; best >= 0 {
			ids, text = append(ids, best), text[len(s.tokens[best]):]
		}
	}
	return ids
}

func (s *slow) plain(text string) (ids []int32) {
	var symbols []string
	if s.spm {
		if s.addSpace {
			text = " " + text
		}
		text = strings.ReplaceAll(text, " ", "▁")
		for i := 0; i < len(text); {
			_, n := utf8.DecodeRuneInString(text[i:])
			symbols = append(symbols, text[i:i+n])
			i += n
		}
		for _, symbol := range s.merge(symbols, func(l, r string) (float64, bool) {
			score, ok := s.scores[l+r]
			return -score, ok
		}) {
			if id, ok := s.ids[symbol]; ok {
				ids = append(ids, id)
				continue
			}
			for i := range len(symbol) {
				ids = append(ids, int32(slices.Index(s.tokens, fmt.Sprintf("<0x%02X>", symbol[i]))))
			}
		}
		return ids
	}
	for _, piece := range reference(s.stages, text) {
		if id, ok := s.ids[standIns(piece)]; ok && s.whole {
			ids = append(ids, id)
			continue
		}
		symbols = symbols[:0]
		for i := range len(piece) {
			symbols = append(symbols, standIn(piece[i]))
		}
		for _, symbol := range s.merge(symbols, func(l, r string) (float64, bool) {
			rank, ok := s.ranks[[2]string{l, r}]
			return float64(rank), ok
		}) {
			id, ok := s.ids[symbol]
			if !ok { // no token for the byte: U+FFFD instead
				ids = append(ids, s.plain("\uFFFD")...)
				continue
			}
			ids = append(ids, id)
		}
	}
	return ids
}

func (s *slow) merge(symbols []string, cost func(l, r string) (float64, bool)) []string {
	for {
		best, lowest := -1, 0.0
		for i := range len(symbols) - 1 {
			if c, ok := cost(symbols[i], symbols[i+1]); ok && (best < 0 || c < lowest) {
				best, lowest = i, c
			}
		}
		if best < 0 {
			return symbols
		}
		symbols[best] += symbols[best+1]
		symbols = slices.Delete(symbols, best+1, best+2)
	}
}
