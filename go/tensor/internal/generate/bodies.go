package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// body is how a kernel is made, by files below csrc: docs/kernels.md states the grammar that leads there.
type body struct {
	unit     string // one of units
	own      string // what is particular to the encoding; "" when the template is all
	template string // what is written once; "" when the own file is all
	make     string // the line of the unit that makes the function of both; "" when including is all
}

// The files isa_<set>_<unit>.c of an instruction set. Compilers work on them side by side, so none should take much
// longer than the others.
var units = []struct{ name, says string }{
	{"blocks", "decoders and encoders"},
	{"dense", "everything that is neither a product nor data movement"},
	{"exact", "products with F32"},
	{"panels", "products with A8 of encodings whose rows are read side by side"},
	{"feed", "products with A8 in feed order"},
	{"groups", "products with A8 of encodings that are read by groups of 32"},
}

// The macro of the compiler that says whether it compiles for the processors of an instruction set; portable: all.
var architectures = map[string]string{"avx2": "__x86_64__", "avx512": "__x86_64__", "neon": "__aarch64__", "neon_dotprod": "__aarch64__", "neon_i8mm": "__aarch64__"}

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
	product := func(macro, decoder string) string { // in another order, it is made with the constant of the encoding, too
		if k.order.name == "" {
			return macro + "(" + k.encoding + decoder + ")"
		}
		return macro + "_" + strings.ToUpper(k.order.name) + "(" + strings.ToUpper(k.encoding) + ", " + k.encoding + decoder + ")"
	}
	file := k.op + "_" + k.isa
	if k.op == "matmul_t" {
		file = k.op + "_" + k.activation + "_" + k.isa
	}
	if whole := own(file); exists(whole) && k.order.name == "" {
		unit := "blocks"
		if k.op == "matmul_t" {
			unit = "exact"
		}
		return body{unit: unit, own: whole}, nil
	}
	if template := "dense/" + k.body + "_template.h"; exists(template) { // operations that know no blocks, over vectors
		return body{unit: "dense", template: template}, nil
	}
	switch {
	case k.op == "encode" && exists(own("encode")): // searches, over vectors
		return body{unit: "blocks", own: own("encode")}, nil
	case k.op == "decode":
		text, err := os.ReadFile(filepath.Join(csrc, decodeOnly))
		if err != nil {
			return body{}, err
		}
		if strings.Contains(string(text), "skeep_decode_"+k.encoding+"_"+k.isa) || strings.Contains(string(text), "DECODE_NUMBERS("+k.encoding+",") {
			return body{unit: "blocks", own: decodeOnly}, nil
		}
	case k.op == "matmul_t" && k.activation == "a8":
		if panels := "tile/panel_" + k.isa + ".h"; exists(panels) && exists(own("panel")) {
			unit := "panels"
			if k.order.name != "" {
				unit = k.order.name
			}
			return body{unit, own("panel"), panels, product("PANEL_PRODUCT", "")}, nil
		}
		if exists(own("group")) {
			groups := "tile/int16_" + k.isa + ".h"
			if !exists(groups) {
				groups = "tile/integer_" + k.isa + ".h"
			}
			return body{"groups", own("group"), groups, product("GROUP_PRODUCT", "")}, nil
		}
	case k.op == "matmul_t" && k.activation == "f32":
		if decoder, ok := decoderFor(k, all); ok { // declared in every unit, and called
			return body{"exact", "", "tile/exact_" + k.isa + ".h", product("DECODED_PRODUCT", ", skeep_"+decoder.name())}, nil
		}
	}
	missing := own(file)
	if k.activation == "a8" {
		missing += " or " + own("group")
	}
	return body{}, fmt.Errorf("no file makes %s: %s is missing, and no template serves it", k.name(), missing)
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

// unitFiles are csrc/isa_<set>_<unit>.c, by their names below csrc: what a unit of an instruction set includes and makes.
func unitFiles(all []kernel, csrc string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, set := range instructionSets {
		for _, unit := range units {
			var lines []string
			once := func(file string) {
				if line := fmt.Sprintf("#include %q\n", file); file != "" && !slices.Contains(lines, line) {
					lines = append(lines, line)
				}
			}
			for _, k := range all {
				if k.isa != set {
					continue
				}
				body, err := bodyOf(k, all, csrc)
				if err != nil {
					return nil, err
				}
				if body.unit != unit.name {
					continue
				}
				switch {
				case strings.HasSuffix(body.own, "/encode.h"):
					once("dense/vec_" + set + ".h")
				case body.unit == "dense":
					once("dense/vec_" + set + ".h")
					once("dense/functions_template.h")
				}
				once(body.template)
				once(body.own)
				if body.make != "" {
					lines = append(lines, body.make+"\n")
				}
			}
			if lines != nil {
				files["isa_"+set+"_"+unit.name+".c"] = unitText(set, unit.says, lines)
			}
		}
	}
	return files, nil
}

func unitText(set, says string, lines []string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "/* generated from csrc/kernels.def by go generate ./go/tensor:\n * %s, %s. */\n#include \"internal.h\"\n\n", set, says)
	architecture, limited := architectures[set]
	if limited {
		fmt.Fprintf(&b, "#ifdef %s\n", architecture)
	}
	fmt.Fprintf(&b, "#include \"isa/%s.h\"\n\n%s\n#include \"isa/end.h\"\n", set, strings.Join(lines, ""))
	if limited {
		b.WriteString("#endif\n")
	}
	return b.Bytes()
}
