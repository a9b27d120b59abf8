package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every checked-in file is what the lists say today.
func TestGeneratedFilesAreFresh(t *testing.T) {
	const root = "../../../.."
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	units, err := filepath.Glob(root + "/csrc/isa_*.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range units {
		if _, ok := files["csrc/"+filepath.Base(unit)]; !ok {
			t.Errorf("%s follows from no row of the list: delete it", unit)
		}
	}
	for name, want := range files {
		have, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(have, want) {
			t.Errorf("%s is stale: run go generate ./go/tensor", name)
		}
	}
}

// The files that a body's name leads to are there and define it.
func TestEveryKernelIsFoundByItsName(t *testing.T) {
	const csrc = "../../../../csrc"
	encodings, err := readEncodings(csrc + "/encodings.def")
	if err != nil {
		t.Fatal(err)
	}
	ops, err := readOps(csrc + "/ops.def")
	if err != nil {
		t.Fatal(err)
	}
	kernels, err := readKernels(csrc+"/kernels.def", encodings, ops)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kernels {
		b, err := bodyOf(k, kernels, csrc)
		if err != nil {
			t.Error(err)
			continue
		}
		var text string
		for _, name := range []string{b.own, b.template} {
			if name == "" {
				continue
			}
			one, err := os.ReadFile(filepath.Join(csrc, name))
			if err != nil {
				t.Error(err)
			}
			text += string(one)
		}
		signs := []string{
			"skeep_" + k.name() + "(",                                // spelled out
			"DENSE(" + strings.TrimSuffix(k.name(), "_"+k.isa) + ")", // over vectors
			"DECODE_NUMBERS(" + k.encoding + ",",
		}
		if macro, _, made := strings.Cut(b.make, "("); made {
			signs = []string{"#define " + macro + "(form", "#define " + macro + "(NAME, form"}
		}
		defined := slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(text, sign) })
		if !defined {
			t.Errorf("%s is not defined in %q and %q", k.name(), b.own, b.template)
		}
	}
	if _, err := bodyOf(kernel{op: "matmul_t", encoding: "q9_9", activation: "a8", isa: "avx2"}, kernels, csrc); err == nil || !strings.Contains(err.Error(), "encodings/q9_9/matmul_t_a8_avx2.h or encodings/q9_9/group.h is missing") {
		t.Errorf("a kernel without a file: %v", err)
	}
}

func TestMalformedKernelsAreRefused(t *testing.T) {
	encodings := []encoding{{name: "Q4_0"}, {name: "A8"}, {name: "Q4_2", flags: map[string]bool{"Retired": true}}}
	ops := &ops{byID: []*op{{name: "decode", body: "decode"}, {name: "matmul_t", body: "matmul_t"}, {name: "embed"}}}
	for _, c := range []struct{ def, want string }{
		{"SKEEP_KERNELS(decod, q4_0, any, portable)", `unknown operation "decod"`},
		{"SKEEP_KERNELS(embed, q4_0, any, portable)", `operation "embed" has no rows of its own`},
		{"SKEEP_KERNELS(decode, q9_9, any, portable)", `unknown encoding "q9_9"`},
		{"SKEEP_KERNELS(decode, q4_2, any, portable)", `unknown encoding "q4_2"`},
		{"SKEEP_KERNELS(matmul_t, q4_0, a9, portable)", `unknown activation "a9"`},
		{"SKEEP_KERNELS(matmul_t, q4_0, a8, avx3)", `unknown instruction set "avx3"`},
		{"SKEEP_KERNELS(matmul_t, q4_0, a8, avx2)\nSKEEP_KERNELS(matmul_t, q4_0, a8, avx2)", "stands there twice"},
		{"SKEEP_KERNELS(decode, q4_0, any, portable avx2)", "avx2 must stand in front of portable"},
		{"SKEEP_KERNELS(matmul_t, q4_0, a8, avx2, feed)", `unknown order "feed"`},
		{"SKEEP_KERNELS(matmul_t, q4_0, a8)", "3 arguments instead of 4 or 5"},
		{"SKEEP_ORDER(feed, ROW_PANEL, 16, 4)", "4 arguments instead of 5"},
	} {
		path := filepath.Join(t.TempDir(), "kernels.def")
		if err := os.WriteFile(path, []byte(c.def), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readKernels(path, encodings, ops); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("reading %q = %v, want an error with %q", c.def, err, c.want)
		}
	}
}

func TestMalformedEncodingsAreRefused(t *testing.T) {
	for _, c := range []struct{ def, want string }{
		{"", "no rows"},
		{"hello", "not a row"},
		{`SKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, 4, "")`, "7 arguments"},
		{`SKEEP_ENCODING(70000, F32, f32, SKEEP_F32, 1, 4, 0, "", "")`, "id"},
		{`SKEEP_ENCODING(0, F32, f33, SKEEP_F32, 1, 4, 0, "", "")`, "lower case"},
		{`SKEEP_ENCODING(0, F32, f32, SKEEP_F32, x, 4, 0, "", "")`, "elements"},
		{`SKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, x, 0, "", "")`, "bytes"},
		{`SKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, 5, 0, "", "")`, "4 bytes, the row says 5"},
		{`SKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, 4, NEW, "", "")`, "unknown flag"},
		{"SKEEP_ENCODING(1, F16, f16, SKEEP_F16, 1, 2, 0, \"\", \"\")\nSKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, 4, 0, \"\", \"\")", "does not follow"},
		{`SKEEP_ENCODING(2, Q4_0, q4_0, SKEEP_F32, 32, 18, 0, "", "")`, "without fields"},
		{`SKEEP_ENCODING(2, Q4_0, q4_0, SKEEP_F32, 32, 18, 0, "scale f16 d; u8 qs[15]", "")`, "17 bytes, the row says 18"},
		{`SKEEP_ENCODING(2, Q4_0, q4_0, SKEEP_F32, 32, 18, 0, "scale f17 d; u8 qs[16]", "")`, `unknown type "f17"`},
		{`SKEEP_ENCODING(2, Q4_0, q4_0, SKEEP_F32, 32, 18, 0, "d", "")`, "not a field"},
		{`SKEEP_ENCODING(2, Q4_0, q4_0, SKEEP_F32, 32, 18, 0, "u16 s; spread f16 d = s >> 12; u8 qs[16]", "")`, "4 bits of f16"},
		{`SKEEP_ENCODING(4, Q4_2, q4_2, SKEEP_F32, 0, 0, SKEEP_ENC_FLAG_RETIRED, "u8 x", "")`, "retired"},
		{`SKEEP_ENCODING(2, Q4_0, q4_0, SKEEP_F32, 32, 18, 0, "scale f16 d; u8 qs[16]", "d:3")`, `"d:3" has no unit`},
		{`SKEEP_ENCODING(2, Q4_0, q4_0, SKEEP_F32, 32, 18, 0, "scale f16 d; u8 qs[16]", "d:2 qt:4")`, `no field "qt"`},
		{`SKEEP_ENCODING(2, Q4_0, q4_0, SKEEP_F32, 32, 18, 0, "scale f16 d; u8 qs[16]", "qs:4")`, `field "qs" is not the first`},
		{`SKEEP_ENCODING(2, Q4_0, q4_0, SKEEP_F32, 32, 18, 0, "scale f16 d; u8 qs[16]", "d:4")`, "18 bytes from byte 0 on are not whole units of 4"},
		{`SKEEP_ENCODING(3, Q4_1, q4_1, SKEEP_F32, 32, 20, 0, "scale f16 d, m; u8 qs[16]", "d:2 m:1 qs:4")`, "3 runs"},
		{`SKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, 4, 0, "", "x:4")`, "no feed order"},
	} {
		path := filepath.Join(t.TempDir(), "encodings.def")
		if err := os.WriteFile(path, []byte(c.def), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readEncodings(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("reading %q = %v, want an error with %q", c.def, err, c.want)
		}
	}
}

func TestMalformedOperationsAreRefused(t *testing.T) {
	const (
		good  = "/* y = x. */\nSKEEP_OP(1, copy_rows, CopyRows, \"rows in x, rows out y\", \"x\", copy_rows)\n"
		alone = "/* Blocks. */\nSKEEP_OP(2, decode, Decode, \"\", \"\", decode)\n"
		forms = "/* Which one. */\nSKEEP_FORM(gate_form, GateForm, \"OPEN Open: all\")\n"
	)
	row := func(arguments, selection string) string {
		return "/* y. */\nSKEEP_OP(1, o, O, \"" + arguments + "\", \"" + selection + "\", o)\n"
	}
	read := func(def string) (*ops, error) {
		path := filepath.Join(t.TempDir(), "ops.def")
		if err := os.WriteFile(path, []byte(def), 0o600); err != nil {
			t.Fatal(err)
		}
		return readOps(path)
	}
	for _, def := range []string{good, good + alone, forms + good, forms + row("rows in x,\"\n \" gate_form g, rows out y", "x by y, any order")} {
		if _, err := read(def); err != nil {
			t.Errorf("reading %q: %v", def, err)
		}
	}
	for _, c := range []struct{ def, want string }{
		{"", "no rows"},
		{"SKEEP_OPS(1)", "not a row"},
		{"/* y. */\nSKEEP_OP(1, o, O, \"\"", "not a row"},
		{"/* y. */\nSKEEP_OP(1, o, O, \"\", \"\")", "o: 5 arguments instead of 6"},
		{strings.ReplaceAll(good, "(1,", "(one,"), "copy_rows: id"},
		{strings.ReplaceAll(good, "(1,", "(2,"), "copy_rows: id 2, but the ids are 1, 2, 3, ... and the next is 1"},
		{good + strings.ReplaceAll(alone, "(2,", "(1,"), "decode: id 1, but"},
		{good + good, "copy_rows: stands there twice"},
		{strings.TrimPrefix(good, "/* y = x. */\n"), "copy_rows: no comment right above"},
		{strings.Replace(good, "*/\n", "*/\n\n", 1), "copy_rows: no comment right above"},
		{strings.ReplaceAll(good, "CopyRows", "CopyRow"), `"CopyRow" is not the name in Go of "copy_rows"`},
		{strings.ReplaceAll(good, "CopyRows", "copyRows"), `"copyRows" is not the name in Go`},
		{row("rows in X, rows out y", "x"), `not an argument: "rows in X"`},
		{row("row in x, rows out y", "x"), `x: unknown layouts "row"`},
		{row("rows inout x, rows out y", "x"), `x: unknown role "inout"`},
		{row("rows in x, rows out x", "x"), `two arguments are named "x"`},
		{row("rows in st, rows out y", "y"), `cannot be named "st"`},
		{row("rows in x, f64 scale, rows out y", "x"), `unknown type "f64"`},
		{row("rows in x, gate_form g, rows out y", "x") + forms, `unknown type "gate_form"`},
		{row("rows in x, f32 scale?, rows out y", "x"), "scale: a parameter is always there"},
		{row("rows in x[count], rows out y", "x"), "x: a list without 1..3 count before it"},
		{row("1..3 count, rows in x[count], rows out y", "x"), "y: a single operand behind lists"},
		{row("rows in x, rows out y", "x and y"), `not a selection: "x and y"`},
		{row("rows in x, rows out y", "z"), `selected by "z", which is no operand`},
		{row("rows in x, rows out y", "x by z"), `selected by "z", which is no operand`},
		{row("rows in x, rows out y", "x as decode"), `selected as "decode", which is no operation`},
		{row("rows in x, rows out y", ""), "nothing that they are chosen by"},
		{strings.ReplaceAll(good, ", copy_rows)", ", none)"), `copy_rows: selected by "x", but there are no rows`},
		{strings.ReplaceAll(forms, "gate_form", "gate_kind"), `"GateForm" is not the name in Go of "gate_kind"`},
		{"/* Which one. */\nSKEEP_FORM(gate, Gate, \"OPEN Open: all\")", "gate: its names do not end in _form and Form"},
		{strings.ReplaceAll(forms, "Open:", "open:"), "gate_form: not a choice"},
		{strings.ReplaceAll(forms, "Open:", "Shut:"), `"Shut" is not the name in Go of "OPEN"`},
		{"/* A. */\nSKEEP_FORM(gate_form, GateForm)", "gate_form: 2 arguments"},
		{"/* A. */\nSKEEP_PARAMS(a_params, AParams, \"f32 scale\")", `a_params: not a field: "f32 scale"`},
		{"/* A. */\nSKEEP_PARAMS(a_params, AParams, \"f16 scale: of x\")", `a_params: unknown type "f16"`},
	} {
		if _, err := read(c.def); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("reading %q = %v, want an error with %q", c.def, err, c.want)
		}
	}
}
