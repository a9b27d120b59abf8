package tokenizer_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/tokenizer"
)

// benchVocabularies are the real ones that are there.
func benchVocabularies(b *testing.B) map[string]arch.Header {
	headers := map[string]arch.Header{}
	for _, name := range vocabularies {
		headers[name], _ = vocabulary(b, name)
	}
	if path := os.Getenv("SKEEP_TEST_GEMMA"); path != "" {
		headers["gemma"] = open(b, path)
	}
	return headers
}

func BenchmarkNew(b *testing.B) {
	for name, h := range benchVocabularies(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := tokenizer.New(h, tokenizer.Options{})
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	_, vectors := vocabulary(b, "gpt-2")
	mixed := vectors[len(vectors)-1].Text
	texts := map[string]string{
		"prose": strings.Repeat("The quick brown fox jumps over the lazy dog, 42 times a day; it's what it's for.\n", 50),
		"mixed": strings.Repeat(mixed, 8),
		"run":   strings.Repeat("A", 1<<20),
		"space": strings.Repeat(" ", 1<<20),
		"digit": strings.Repeat("7", 1<<20),
		"marks": strings.Repeat("!", 1<<20),
	}
	for name, h := range benchVocabularies(b) {
		tok, err := tokenizer.New(h, tokenizer.Options{})
		require.NoError(b, err)
		for kind, text := range texts {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				var ids []int32
				for b.Loop() {
					ids = tok.AppendEncode(ids[:0], text, tokenizer.EncodeOptions{})
				}
			})
		}
	}
}
