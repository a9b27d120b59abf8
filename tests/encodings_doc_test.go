package tests

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// TestEncodingsDocument compares docs/encodings.md with the tables; UPDATE_GOLDEN=1 writes it anew.
func TestEncodingsDocument(t *testing.T) {
	const path = "../docs/encodings.md"
	text := encodingsDocument()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, string(b), "UPDATE_GOLDEN=1 go test ./tests -run EncodingsDocument")
}

// The columns of the matrix: an operation, and for products the form of the activation.
var columns = []struct {
	title, op  string
	activation tensor.Encoding
}{
	{"decode", "decode", 0}, {"encode", "encode", 0},
	{"product, 8-bit activations", "matmul_t", tensor.A8}, {"product, F32 activations", "matmul_t", tensor.EncF32},
}

func encodingsDocument() string {
	kernels := skeep.Kernels()
	var b strings.Builder
	b.WriteString(`# Encodings

Generated from the tables of the core (csrc/encodings.def, csrc/kernels.def). An entry names the instruction sets that have a kernel,
best first; others use the next in the list. Rows that are decoded are also looked up (embedding tables) and converted. Orders other
than row-major are named behind the instruction set.

| id | encoding | elements | bytes | bits per element |`)
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.title)
	}
	b.WriteString("\n|---|---|---|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for e := range tensor.Encodings() {
		if e.Retired {
			fmt.Fprintf(&b, "| %d | %s | | | | retired: listed, never read |%s\n", e.ID, e.Name, strings.Repeat(" |", len(columns)-1))
			continue
		}
		fmt.Fprintf(&b, "| %d | %s | %d | %d | %.4g |", e.ID, e.Name, e.BlockElements, e.BlockBytes, 8*float64(e.BlockBytes)/float64(e.BlockElements))
		for _, c := range columns {
			var sets []string
			for _, k := range kernels {
				if k.Op.String() != c.op || k.Encoding != e.ID || c.op == "matmul_t" && k.Activation != c.activation {
					continue
				}
				set := k.ISA
				if k.Order != (tensor.Order{}) {
					set += " " + k.Order.String()
				}
				if !slices.Contains(sets, set) {
					sets = append(sets, set)
				}
			}
			fmt.Fprintf(&b, " %s |", strings.Join(sets, ", "))
		}
		b.WriteByte('\n')
	}
	b.WriteString(`
The lattice formats (IQ1_S to IQ3_S but IQ4) are decoded and multiplied, not encoded: their quantizers search codebooks with importance
data that a GGUF file does not hold.

Dense operations (norm, rotary embedding, attention, gated units, add, mul, softmax) compute in F32; caches of keys and values are F32,
F16 or BF16.
`)
	return b.String()
}
