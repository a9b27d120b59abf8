package tokenizer

import (
	"slices"
	"strings"

	"github.com/skeep-project/skeep/go/arch"
)

const prefix = "tokenizer."

// Writers of files.
const (
	spec      = "GGUF specification"
	converter = "converter and constants of llama.cpp"
	ollama    = "converter of Ollama"
)

// facts is THE table of keys under "tokenizer.": a key cannot be read unless its row says so.
var facts = arch.Facts{
	{Name: keyModel, Effect: arch.Read, Reason: "kind of vocabulary", Source: spec},
	{Name: keyPre, Effect: arch.Read, Default: "SentencePiece has none, byte-level BPE needs one", Reason: "name of the rules that split text before merging", Source: converter},
	{Name: keyTokens, Effect: arch.Read, Reason: "text of each token", Source: spec},
	{Name: keyTypes, Effect: arch.Read, Default: "byte tokens and special tokens are recognized by text and id", Reason: "type of each token", Source: spec},
	{Name: keyScores, Effect: arch.Read, Default: "SentencePiece needs them", Reason: "order of merges in SentencePiece", Source: spec},
	{Name: keyMerges, Effect: arch.Read, Default: "byte-level BPE needs them", Reason: "merges of byte-level BPE, in order", Source: spec},
	{Name: keyBOS, Effect: arch.Read, Default: "SentencePiece: 1 if that is <s>", Reason: "token at the beginning of a text", Source: spec},
	{Name: keyEOS, Effect: arch.Read, Default: "SentencePiece: 2 if that is </s>", Reason: "token that ends generation", Source: spec},
	{Name: keyEOSs, Effect: arch.Read, Default: "none", Reason: "tokens that end generation", Source: ollama},
	{Name: keyEOT, Effect: arch.Read, Default: "by text", Reason: "token that ends generation", Source: converter},
	{Name: keyEOM, Effect: arch.Read, Default: "by text", Reason: "token that ends generation", Source: converter},
	{Name: keyPadFIM, Effect: arch.Read, Default: "by text", Reason: "token that ends generation", Source: converter},
	{Name: keyRepFIM, Effect: arch.Read, Default: "by text", Reason: "token that ends generation", Source: converter},
	{Name: keySepFIM, Effect: arch.Read, Default: "by text", Reason: "token that ends generation", Source: converter},
	{Name: keyUnk, Effect: arch.Read, Default: "SentencePiece: 0 if that is <unk>", Reason: "replaces text that the vocabulary cannot represent", Source: spec},
	{Name: keySuppress, Effect: arch.Read, Default: "none", Reason: "tokens that are never generated", Source: converter},
	{Name: keyAddBOS, Effect: arch.Read, Default: "depends on the kind of vocabulary", Reason: "whether a text begins with BOS", Source: converter},
	{Name: keyAddEOS, Effect: arch.Read, Default: "false", Reason: "whether a complete text ends with EOS; a text that is to be continued never does", Source: converter},
	{Name: keyAddSpace, Effect: arch.Read, Default: "true with SentencePiece", Reason: "whether a space is added in front of a text", Source: converter},

	{Name: "tokenizer.ggml.remove_extra_whitespaces", Effect: arch.Refused, Usual: []any{false}, Reason: "removal of spaces is not supported", Source: converter},
	{Name: "tokenizer.ggml.precompiled_charsmap", Effect: arch.Refused, Reason: "replacement of characters is not supported", Source: converter},
	{Name: "tokenizer.ggml.normalizer.*", Effect: arch.Refused, Usual: []any{false}, Reason: "normalization of text is not supported", Source: converter},
	{Name: "tokenizer.ggml.add_cls_token", Effect: arch.Refused, Usual: []any{false}, Reason: "classification tokens are not supported", Source: ollama},
	{Name: "tokenizer.ggml.add_sep_token", Effect: arch.Harmless, Reason: "separates two texts; there is only one", Source: converter},
	{Name: "tokenizer.ggml.add_*_token", Effect: arch.Harmless, Reason: "concerns tokens that are never added to a text", Source: ollama},
	{Name: "tokenizer.ggml.*_token_ids", Effect: arch.Harmless, Reason: "repeats an id that has its own key", Source: ollama},
	{Name: "tokenizer.ggml.*_token_id", Effect: arch.Harmless, Reason: "concerns tokens that occur only where a text spells them", Source: converter},
	{Name: "tokenizer.ggml.token_type_count", Effect: arch.Harmless, Reason: "concerns inputs of encoder models", Source: converter},
	{Name: "tokenizer.chat_template*", Effect: arch.Harmless, Reason: "formats messages as text; the caller provides the text", Source: spec},
	{Name: "tokenizer.huggingface.json", Effect: arch.Harmless, Reason: "a second copy of the vocabulary", Source: spec},
	{Name: "tokenizer.rwkv.world", Effect: arch.Harmless, Reason: "a second copy of the vocabulary", Source: spec},
}

// Facts returns the table of keys under "tokenizer.".
func Facts() arch.Facts { return slices.Clone(facts) }

// UnknownKeys lists, sorted, the keys under "tokenizer." that are not in the table, so that their effect is unknown.
func UnknownKeys(h arch.Header) (keys []string) {
	if h == nil {
		return nil
	}
	for key := range h.Keys() {
		if _, known := facts.Find(key); strings.HasPrefix(key, prefix) && !known {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// refuse fails with the first key, in order of names, that asks for what no code here does.
func (l *loader) refuse() {
	for _, key := range slices.Sorted(l.h.Keys()) {
		if x, known := facts.Find(key); known {
			if v, _ := l.h.Value(key); x.Refuses(v) {
				l.fail(ErrUnsupported, key, -1, "%s", x.Reason)
			}
		}
	}
}

// value looks for a key, which must be one that the table says is read.
func (l *loader) value(key string) (arch.Value, bool) {
	if x, known := facts.Find(key); !known || x.Effect != arch.Read {
		l.fail(ErrUnsupported, key, -1, "is read, and no row of the table says so")
	}
	return l.h.Value(key)
}
