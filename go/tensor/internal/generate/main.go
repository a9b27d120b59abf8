// Command generate writes what follows from the lists of the core (csrc/*.def): Go's tables, the structs of blocks, the
// ids in the public header. Run it with go generate ./go/tensor.
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
	kernels, err := readKernels(filepath.Join(root, "csrc/kernels.def"), encodings)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"csrc/generated/blocks_fields.h": blockStructs(encodings),
		"csrc/generated/kernels_table.h": kernelTable(kernels, encodings),
	}
	for _, set := range instructionSets {
		text, err := bodyIncludes(set, kernels, filepath.Join(root, "csrc"))
		if err != nil {
			return nil, err
		}
		if text != nil {
			files["csrc/generated/bodies_"+set+".h"] = text
		}
	}
	if files["go/tensor/encodings.go"], err = goTable(encodings); err != nil {
		return nil, err
	}
	files["include/skeep.h"], err = replaceSection(filepath.Join(root, "include/skeep.h"), "encodings", encodingIDs(encodings))
	return files, err
}

// replaceSection returns the file at path with other lines between its marks "generated: name" and "end: name".
func replaceSection(path, name string, lines []byte) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	begin, end := []byte("/* generated: "+name+" */\n"), []byte("/* end: "+name+" */\n")
	from, to := bytes.Index(text, begin), bytes.Index(text, end)
	if from < 0 || to < from {
		return nil, fmt.Errorf("%s: the marks of section %q are missing", path, name)
	}
	return bytes.Join([][]byte{text[:from], begin, lines, text[to:]}, nil), nil
}
