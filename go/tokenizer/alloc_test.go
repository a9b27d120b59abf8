//go:build !race

package tokenizer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/tokenizer"
)

// The race detector makes a sync.Pool forget at random.
func TestEncodeAllocatesNothing(t *testing.T) {
	text := "hello <x> hello\n\n\n 123456 中 aaaaaaaaa"
	for _, h := range []header{smallSPM, smallBPE, smallBPE.with("pre", "deepseek-llm")} {
		tok := mustNew(t, h)
		ids := tok.Encode(text, tokenizer.EncodeOptions{BOS: true})
		out := tok.AppendDecode(nil, ids, tokenizer.DecodeOptions{})
		d := tok.NewDecoder(tokenizer.DecodeOptions{})
		require.Zero(t, testing.AllocsPerRun(100, func() {
			ids = tok.AppendEncode(ids[:0], text, tokenizer.EncodeOptions{BOS: true})
			out = tok.AppendDecode(out[:0], ids, tokenizer.DecodeOptions{})
			out = out[:0]
			for _, id := range ids {
				out = d.Append(out, id)
			}
		}))
	}
}
