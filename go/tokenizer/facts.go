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
	{Name: keyModel, Effect: arch.Read, Reason: "the kind of vocabulary", Source: spec},
	{Name: keyPre, Effect: arch.Read, Default: "SentencePiece has none, byte-level BPE needs one", Reason: "how text is split before merging", Source: converter},
	{Name: keyTokens, Effect: arch.Read, Reason: "texts of tokens", Source: spec},
	{Name: keyTypes, Effect: arch.Read, Default: "bytes and special tokens by their spelling and ids", Reason: "which tokens are text", Source: spec},
	{Name: keyScores, Effect: arch.Read, Default: "SentencePiece needs them", Reason: "order of merges of SentencePiece", Source: spec},
	{Name: keyMerges, Effect: arch.Read, Default: "byte-level BPE needs them", Reason: "merges of byte-level BPE", Source: spec},
	{Name: keyBOS, Effect: arch.Read, Default: "SentencePiece: 1 if that is <s>", Reason: "token in front of a text", Source: spec},
	{Name: keyEOS, Effect: arch.Read, Default: "SentencePiece: 2 if that is </s>", Reason: "ends generation", Source: spec},
	{Name: keyEOSs, Effect: arch.Read, Default: "none", Reason: "each ends generation", Source: ollama},
	{Name: keyEOT, Effect: arch.Read, Default: "by text", Reason: "ends generation", Source: converter},
	{Name: keyEOM, Effect: arch.Read, Default: "by text", Reason: "ends generation", Source: converter},
	{Name: keyPadFIM, Effect: arch.Read, Default: "by text", Reason: "ends generation", Source: converter},
	{Name: keyRepFIM, Effect: arch.Read, Default: "by text", Reason: "ends generation", Source: converter},
	{Name: keySepFIM, Effect: arch.Read, Default: "by text", Reason: "ends generation", Source: converter},
	{Name: keyUnk, Effect: arch.Read, Default: "SentencePiece: 0 if that is <unk>", Reason: "stands for what cannot be written", Source: spec},
	{Name: keySuppress, Effect: arch.Read, Default: "none", Reason: "tokens that are never generated", Source: converter},
	{Name: keyAddBOS, Effect: arch.Read, Default: "as the kind of vocabulary does", Reason: "BOS in front of a text", Source: converter},
	{Name: keyAddEOS, Effect: arch.Read, Default: "false", Reason: "EOS behind a whole text; never behind one that is to be continued", Source: converter},
	{Name: keyAddSpace, Effect: arch.Read, Default: "true with SentencePiece", Reason: "a space in front of a text", Source: converter},

	{Name: "tokenizer.ggml.remove_extra_whitespaces", Effect: arch.Refused, Usual: []any{false}, Reason: "spaces are not removed here", Source: converter},
	{Name: "tokenizer.ggml.precompiled_charsmap", Effect: arch.Refused, Reason: "characters are not replaced here", Source: converter},
	{Name: "tokenizer.ggml.normalizer.*", Effect: arch.Refused, Usual: []any{false}, Reason: "letters are not replaced here", Source: converter},
	{Name: "tokenizer.ggml.add_cls_token", Effect: arch.Refused, Usual: []any{false}, Reason: "no classification token is put in front here", Source: ollama},
	{Name: "tokenizer.ggml.add_sep_token", Effect: arch.Harmless, Reason: "between two texts; there is one", Source: converter},
	{Name: "tokenizer.ggml.add_*_token", Effect: arch.Harmless, Reason: "of tokens that are never put at the ends of a text", Source: ollama},
	{Name: "tokenizer.ggml.*_token_ids", Effect: arch.Harmless, Reason: "repeats the first of them, which has a key of its own", Source: ollama},
	{Name: "tokenizer.ggml.*_token_id", Effect: arch.Harmless, Reason: "of tokens that stand in a text only where it spells them", Source: converter},
	{Name: "tokenizer.ggml.token_type_count", Effect: arch.Harmless, Reason: "of inputs of encoders", Source: converter},
	{Name: "tokenizer.chat_template*", Effect: arch.Harmless, Reason: "how messages become a text; the caller has the text", Source: spec},
	{Name: "tokenizer.huggingface.json", Effect: arch.Harmless, Reason: "the same vocabulary once more", Source: spec},
	{Name: "tokenizer.rwkv.world", Effect: arch.Harmless, Reason: "the same vocabulary once more", Source: spec},
}

// Facts returns the table of keys under "tokenizer.".
func Facts() arch.Facts { return slices.Clone(facts) }

// UnknownKeys lists, sorted, the keys under "tokenizer." that are not in the table, so that their effect is unknown.
func UnknownKeys(h arch.Header) (keys []string) {
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
