package quant_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/quant"
)

// A file in F16 becomes one of less than five bits a weight.
func ExampleFile() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	in, err := gguf.Read(bytes.NewReader(embedded.Model()), int64(len(embedded.Model())), gguf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	r, err := quant.File(context.Background(), in, filepath.Join(dir, "tiny-Q4_K_M.gguf"), quant.Options{Type: "Q4_K_M"})
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range r.Decisions[:4] {
		fmt.Printf("%-22s %v -> %v (%s)\n", d.Name, d.From, d.To, d.Reason)
	}
	fmt.Printf("%.1f times smaller\n", float64(r.From)/float64(r.To))
	// Output:
	// token_embd.weight      F16 -> Q6_K (head)
	// blk.0.attn_norm.weight F32 -> F32 (kept: fewer than two axes)
	// blk.0.attn_q.weight    F16 -> Q4_K (Q4_K_M)
	// blk.0.attn_k.weight    F16 -> Q4_K (Q4_K_M)
	// 3.4 times smaller
}

// What would become of a model's tensors can be asked without making the file.
func ExampleChoose() {
	in, err := gguf.Read(bytes.NewReader(embedded.Model()), int64(len(embedded.Model())), gguf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"Q8_0", "Q5_K_M", "Q4_K_M", "Q2_K"} {
		decisions, err := quant.Choose(in, name, false)
		if err != nil {
			log.Fatal(err)
		}
		var bytes int64
		for _, d := range decisions {
			bytes += d.Bytes
		}
		fmt.Printf("%-6s %4d KiB\n", name, bytes>>10)
	}
	// Output:
	// Q8_0   2524 KiB
	// Q5_K_M 1674 KiB
	// Q4_K_M 1414 KiB
	// Q2_K    904 KiB
}
