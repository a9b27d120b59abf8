// Command generate writes what follows from the lists of the core (csrc/*.def): Go's tables, the structs of blocks, the
// operations of the public header, bindings, documents. Run it with go generate ./go/tensor.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run("../.."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(2)
	}
}

// run writes every file below root that is not what the lists say today.
func run(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for name, want := range files {
		path := filepath.Join(root, name)
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, want) {
			continue
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the whole text of every generated file by its name below root.
func generate(root string) (map[string][]byte, error) {
	encodings, err := readEncodings(filepath.Join(root, "csrc/encodings.def"))
	if err != nil {
		return nil, err
	}
	ops, err := readOps(filepath.Join(root, "csrc/ops.def"))
	if err != nil {
		return nil, err
	}
	kernels, err := readKernels(filepath.Join(root, "csrc/kernels.def"), encodings, ops)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"csrc/generated/blocks_fields.h": blockStructs(encodings),
		"csrc/generated/feed_runs.h":     feedRuns(encodings),
		"csrc/generated/kernels_table.h": kernelTable(kernels, encodings),
		"csrc/generated/ops_table.h":     opTable(ops),
		"docs/encodings.md":              encodingDocument(encodings, kernels),
		"docs/operations.md":             opDocument(ops),
	}
	bodies, err := unitFiles(kernels, filepath.Join(root, "csrc"))
	if err != nil {
		return nil, err
	}
	for name, text := range bodies {
		files["csrc/"+name] = text
	}
	if files["go/tensor/encodings.go"], err = goTable(encodings); err != nil {
		return nil, err
	}
	if files["go/tensor/ops.go"], err = goOps(ops); err != nil {
		return nil, err
	}
	if files["go/internal/core/ops_generated.go"], err = goBindings(ops); err != nil {
		return nil, err
	}
	header, err := os.ReadFile(filepath.Join(root, "include/skeep.h"))
	for _, section := range []struct {
		name  string
		lines []byte
	}{{"encodings", encodingIDs(encodings)}, {"operation ids", opIDs(ops)}, {"operations", opPrototypes(ops)}} {
		if err == nil {
			header, err = replaceSection(header, section.name, section.lines)
		}
	}
	files["include/skeep.h"] = header
	return files, err
}

// replaceSection returns the text of a header with other lines between its marks "generated: name" and "end: name".
func replaceSection(text []byte, name string, lines []byte) ([]byte, error) {
	begin, end := []byte("/* generated: "+name+" */\n"), []byte("/* end: "+name+" */\n")
	from, to := bytes.Index(text, begin), bytes.Index(text, end)
	if from < 0 || to < from {
		return nil, fmt.Errorf("include/skeep.h: the marks of section %q are missing", name)
	}
	return bytes.Join([][]byte{text[:from], begin, lines, text[to:]}, nil), nil
}
