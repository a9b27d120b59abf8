package main

import (
	"os"
	"strings"
	"testing"
)

// The checked-in table is what the list says today.
func TestTableIsFresh(t *testing.T) {
	def, err := os.ReadFile("../../../../csrc/encodings.def")
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(def)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../encodings.go")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Fatal("go/tensor/encodings.go is stale: run go generate ./go/tensor")
	}
}

func TestMalformedListsAreRefused(t *testing.T) {
	for _, c := range []struct{ def, want string }{
		{"", "no rows"},
		{"hello", "not a row"},
		{"SKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, 4)", "6 fields"},
		{"SKEEP_ENCODING(70000, F32, f32, SKEEP_F32, 1, 4, 0)", "id in"},
		{"SKEEP_ENCODING(0, F32, f33, SKEEP_F32, 1, 4, 0)", "lower case"},
		{"SKEEP_ENCODING(0, F32, f32, SKEEP_F32, x, 4, 0)", "elements in"},
		{"SKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, x, 0)", "bytes in"},
		{"SKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, 4, NEW)", "unknown flag"},
		{"SKEEP_ENCODING(1, F16, f16, SKEEP_F16, 1, 2, 0)\nSKEEP_ENCODING(0, F32, f32, SKEEP_F32, 1, 4, 0)", "does not follow"},
	} {
		if _, err := generate([]byte(c.def)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("generate(%q) = %v, want an error with %q", c.def, err, c.want)
		}
	}
}
