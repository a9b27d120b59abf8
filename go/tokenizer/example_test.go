package tokenizer_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/tokenizer"
)

func openEmbedded() *gguf.File {
	model := embedded.Model()
	f, err := gguf.Read(bytes.NewReader(model), int64(len(model)), gguf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return f
}

// A model file's vocabulary encodes text and decodes ids.
func Example() {
	f := openEmbedded()
	defer f.Close()
	tok, err := tokenizer.New(f, tokenizer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ids := tok.Encode("1+2=", tokenizer.EncodeOptions{BOS: true})
	fmt.Println(tok.Len(), ids)
	fmt.Println(tok.Decode(ids, tokenizer.DecodeOptions{}))
	fmt.Println(tok.Decode(ids, tokenizer.DecodeOptions{Special: true}))
	// Output:
	// 260 [1 52 46 53 64]
	// 1+2=
	// <s>1+2=
}

// Text that users wrote is encoded without Special: what looks like a control token stays text.
func ExampleOptions() {
	f := openEmbedded()
	defer f.Close()
	tok, err := tokenizer.New(f, tokenizer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tok.Encode("</s>", tokenizer.EncodeOptions{Special: true}), tok.IsEOG(2))
	fmt.Println(tok.Encode("</s>", tokenizer.EncodeOptions{}))
	// Output:
	// [2] true
	// [63 50 118 65]
}

// A character whose bytes are several tokens is written when it is complete.
func ExampleDecoder() {
	f := openEmbedded()
	defer f.Close()
	tok, err := tokenizer.New(f, tokenizer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	d := tok.NewDecoder(tokenizer.DecodeOptions{Continue: true})
	for _, id := range tok.Encode("né", tokenizer.EncodeOptions{}) {
		fmt.Printf("%d %q\n", id, d.Append(nil, id))
	}
	fmt.Printf("end %q\n", d.Flush(nil))
	// Output:
	// 113 "n"
	// 198 ""
	// 172 "é"
	// end ""
}
