package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// body is how a kernel is made, by files below csrc: docs/kernels.md states the grammar that leads there.
type body struct {
	own      string // what is particular to the encoding; "" when the template is all
	template string // what is written once; "" when the own file is all
	make     string // the line of bodies_<set>.h that makes the function of both; "" when including is all
}

// Encoders that search, compiled over the vectors of each instruction set; each file makes several encodings.
var searchTemplates = []string{"search/affine_template.h", "search/scaled_template.h", "search/ternary_template.h", "search/fp4_template.h"}

// Encodings that are decoded and nothing else share a file.
const decodeOnly = "encodings/decode_only/decode_portable.h"

// bodyOf finds the files of a kernel below csrc.
func bodyOf(k kernel, all []kernel, csrc string) (body, error) {
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(csrc, name))
		return err == nil
	}
	folder := k.encoding
	if k.op == "quantize_rows" { // it belongs to what it makes
		folder = k.activation
	}
	own := func(file string) string { return "encodings/" + folder + "/" + file + ".h" }
	if whole := own(k.op + "_" + k.isa); exists(whole) {
		return body{own: whole}, nil
	}
	if template := "dense/" + k.body + "_template.h"; exists(template) { // operations that know no blocks, over vectors
		return body{template: template}, nil
	}
	switch {
	case k.op == "encode":
		for _, template := range searchTemplates {
			text, err := os.ReadFile(filepath.Join(csrc, template))
			if err != nil {
				return body{}, err
			}
			if bytes.Contains(text, []byte("DENSE(encode_"+k.encoding+")")) {
				return body{template: template}, nil
			}
		}
	case k.op == "decode":
		text, err := os.ReadFile(filepath.Join(csrc, decodeOnly))
		if err != nil {
			return body{}, err
		}
		if strings.Contains(string(text), "skeep_decode_"+k.encoding+"_"+k.isa) || strings.Contains(string(text), "DECODE_NUMBERS("+k.encoding+",") {
			return body{own: decodeOnly}, nil
		}
	case k.op == "matmul_t" && k.activation == "a8":
		products := "tile/products_" + k.isa + ".h"
		if k.isa != "portable" && exists(own("panel")) {
			return body{own("panel"), products, "PANEL_PRODUCT(" + k.encoding + ")"}, nil
		}
		if exists(own("group")) {
			return body{own("group"), products, "GROUP_PRODUCT(" + k.encoding + ")"}, nil
		}
	case k.op == "matmul_t" && k.activation == "f32":
		decoder, ok := decoderFor(k, all)
		if !ok {
			break
		}
		b, err := bodyOf(decoder, all, csrc)
		return body{b.own, "tile/products_" + k.isa + ".h", "DECODED_PRODUCT(" + k.encoding + ", skeep_" + decoder.name() + ")"}, err
	}
	return body{}, fmt.Errorf("no file makes %s: %s is missing, and no template serves it", k.name(), own(k.op+"_"+k.isa))
}

// decoderFor is the first decoder of the list that a product of k's instruction set may call.
func decoderFor(k kernel, all []kernel) (kernel, bool) {
	for _, d := range all {
		if d.op == "decode" && d.encoding == k.encoding && (d.isa == k.isa || d.isa == "portable" || k.isa == "avx512" && d.isa == "avx2") {
			return d, true
		}
	}
	return kernel{}, false
}

// bodyIncludes is csrc/generated/bodies_<set>.h: what the unit of an instruction set includes and makes; nil when that is
// nothing. Templates that know no blocks are included by the unit itself.
func bodyIncludes(set string, all []kernel, csrc string) ([]byte, error) {
	var b bytes.Buffer
	included := map[string]bool{}
	for _, k := range all {
		if k.isa != set {
			continue
		}
		body, err := bodyOf(k, all, csrc)
		if err != nil {
			return nil, err
		}
		if body.own != "" && !included[body.own] && (body.make == "" || !strings.HasPrefix(body.make, "DECODED")) {
			included[body.own] = true
			fmt.Fprintf(&b, "#include %q\n", body.own)
		}
		if body.make != "" {
			b.WriteString(body.make + "\n")
		}
	}
	if b.Len() == 0 {
		return nil, nil
	}
	head := "/* generated from csrc/kernels.def by go generate ./go/tensor: the bodies of isa_" + set + ".c. */\n"
	return append([]byte(head), b.Bytes()...), nil
}
