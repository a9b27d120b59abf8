package main

import (
	"bytes"
	"os"
	"path/filepath"
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
