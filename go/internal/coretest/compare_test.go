package coretest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
)

func TestComparedRowsAreNotedOnceAndByName(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(RowsRun, folder)
	results := []byte{1, 2, 3}
	for range 2 {
		Compare(t, 0, Samples(results, 1), func(wrong Wrong) {
			for i, b := range results {
				if int(b) != i+1 {
					wrong("%d is %d", i, b)
				}
			}
		})
	}
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if want := core.Kernels()[0].Name + "\n"; err != nil || string(text) != want {
		t.Fatalf("%q %v, want %q", text, err, want)
	}
}

func TestJudgesThatTakeAnythingAreFound(t *testing.T) {
	results := []byte{1, 2, 3}
	blind := func(Wrong) {}
	firstOnly := func(wrong Wrong) {
		if results[0] != 1 {
			wrong("")
		}
	}
	all := func(wrong Wrong) {
		if string(results) != "\x01\x02\x03" {
			wrong("")
		}
	}
	for name, c := range map[string]struct {
		elements [][]byte
		judge    func(Wrong)
		ok       bool
	}{
		"blind": {Samples(results, 1), blind, false}, "first only": {Samples(results, 1), firstOnly, false},
		"no results": {Samples(results[:0], 1), all, false}, "all": {Samples(results, 1), all, true},
	} {
		if err := seesAlterations(c.elements, c.judge); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if string(results) != "\x01\x02\x03" {
			t.Fatalf("%s: the results stay altered", name)
		}
	}
}
