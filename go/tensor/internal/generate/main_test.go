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
	kernels, err := readKernels(csrc+"/kernels.def", encodings)
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
			signs = []string{"#define " + macro + "(form"}
		}
		defined := slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(text, sign) })
		if !defined {
			t.Errorf("%s is not defined in %q and %q", k.name(), b.own, b.template)
		}
	}
	if _, err := bodyOf(kernel{"matmul_t", "q9_9", "a8", "avx2"}, kernels, csrc); err == nil || !strings.Contains(err.Error(), "encodings/q9_9/matmul_t_avx2.h is missing") {
		t.Errorf("a kernel without a file: %v", err)
	}
}

func TestMalformedKernelsAreRefused(t *testing.T) {
	encodings := []encoding{{name: "Q4_0"}, {name: "A8"}, {name: "Q4_2", flags: map[string]bool{"Retired": true}}}
	for _, c := range []struct{ def, want string }{
		{"SKEEP_KERNELS(decode, q9_9, any, portable)", `unknown encoding "q9_9"`},
		{"SKEEP_KERNELS(decode, q4_2, any, portable)", `unknown encoding "q4_2"`},
		{"SKEEP_KERNELS(matmul_t, q4_0, a9, portable)", `unknown activation "a9"`},
		{"SKEEP_KERNELS(matmul_t, q4_0, a8, avx3)", `unknown instruction set "avx3"`},
		{"SKEEP_KERNELS(matmul_t, q4_0, a8, avx2)\nSKEEP_KERNELS(matmul_t, q4_0, a8, avx2)", "stands there twice"},
	} {
		path := filepath.Join(t.TempDir(), "kernels.def")
		if err := os.WriteFile(path, []byte(c.def), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readKernels(path, encodings); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("reading %q = %v, want an error with %q", c.def, err, c.want)
		}
	}
}

func TestMalformedEncodingsAreRefused(t *testing.T) {
	for _, c := range []struct{ def, want string }{
		{"", "no rows"},
		{"hello", "not a row"},
		{`SKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, 4, "")`, "7 arguments"},
		{`SKEEP_ENCODING(70000, F32, f32, SKEEP_F32, 1, 4, 0, "")`, "id"},
		{`SKEEP_ENCODING(0, F32, f33, SKEEP_F32, 1, 4, 0, "")`, "lower case"},
		{`SKEEP_ENCODING(0, F32, f32, SKEEP_F32, x, 4, 0, "")`, "elements"},
		{`SKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, x, 0, "")`, "bytes"},
		{`SKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, 5, 0, "")`, "4 bytes, the row says 5"},
		{`SKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, 4, NEW, "")`, "unknown flag"},
		{"SKEEP_ENCODING(1, F16, f16, SKEEP_F16, 1, 2, 0, \"\")\nSKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, 4, 0, \"\")", "does not follow"},
		{`SKEEP_ENCODING(2, Q4_0, q4_0, SKEEP_F32, 32, 18, 0, "")`, "without fields"},
		{`SKEEP_ENCODING(2, Q4_0, q4_0, SKEEP_F32, 32, 18, 0, "scale f16 d; u8 qs[15]")`, "17 bytes, the row says 18"},
		{`SKEEP_ENCODING(2, Q4_0, q4_0, SKEEP_F32, 32, 18, 0, "scale f17 d; u8 qs[16]")`, `unknown type "f17"`},
		{`SKEEP_ENCODING(2, Q4_0, q4_0, SKEEP_F32, 32, 18, 0, "d")`, "not a field"},
		{`SKEEP_ENCODING(2, Q4_0, q4_0, SKEEP_F32, 32, 18, 0, "u16 s; spread f16 d = s >> 12; u8 qs[16]")`, "4 bits of f16"},
		{`SKEEP_ENCODING(4, Q4_2, q4_2, SKEEP_F32, 0, 0, SKEEP_ENC_FLAG_RETIRED, "u8 x")`, "retired"},
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
