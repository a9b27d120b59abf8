package main

import (
	"bytes"
	"fmt"
	"strings"
)

// The columns of the matrix: an operation, and for products the form of the activation.
var matrixColumns = []struct{ title, op, activation, order string }{
	{"decode", "decode", anyActivation, ""}, {"encode", "encode", anyActivation, ""},
	{"product, 8-bit activations", "matmul_t", "a8", ""}, {"the same in feed order", "matmul_t", "a8", "feed"},
	{"product, F32 activations", "matmul_t", "f32", ""}, {"the same in feed order", "matmul_t", "f32", "feed"},
}

// encodingDocument is docs/encodings.md: which encoding has which kernels.
func encodingDocument(encodings []encoding, kernels []kernel) []byte {
	var b bytes.Buffer
	b.WriteString(`# Encodings

Generated from the lists of the core (csrc/encodings.def, csrc/kernels.def) by go generate ./go/tensor. The last columns list the
instruction sets that have a kernel, best first. A machine uses the first of them that it supports. An encoding with a decoder can also be
used for embedding tables and be converted.

| id | encoding | elements | bytes | bits per element |`)
	for _, c := range matrixColumns {
		fmt.Fprintf(&b, " %s |", c.title)
	}
	b.WriteString("\n|---|---|---|---|---|" + strings.Repeat("---|", len(matrixColumns)) + "\n")
	for _, e := range encodings {
		if e.flags["Retired"] {
			fmt.Fprintf(&b, "| %d | %s | | | | retired: listed, never read |%s\n", e.id, e.name, strings.Repeat(" |", len(matrixColumns)-1))
			continue
		}
		fmt.Fprintf(&b, "| %d | %s | %d | %d | %.4g |", e.id, e.name, e.elements, e.bytes, 8*float64(e.bytes)/float64(e.elements))
		for _, c := range matrixColumns {
			var sets []string
			for _, k := range kernels {
				if k.op == c.op && k.encoding == e.form() && k.activation == c.activation && k.order.name == c.order {
					sets = append(sets, k.isa)
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
	return b.Bytes()
}
