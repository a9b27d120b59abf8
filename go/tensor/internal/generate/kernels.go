package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// kernel is one body: a row of csrc/kernels.def stands for one per instruction set.
type kernel struct {
	op, encoding, activation, isa, body string
	order                               order
}

// order is a row SKEEP_ORDER; the zero value is the order of a file.
type order struct{ name, family, panel, interleave, version string }

var instructionSets = []string{"portable", "avx2", "avx512", "neon", "neon_dotprod", "neon_i8mm"}

// rank orders the instruction sets of one architecture: kernels of a row stand best first.
var rank = map[string]int{"avx2": 1, "avx512": 2, "neon": 1, "neon_dotprod": 2, "neon_i8mm": 3}

const anyActivation = "any"

func readKernels(path string, encodings []encoding, ops *ops) ([]kernel, error) {
	rows, err := readRows(path, "SKEEP_KERNELS", "SKEEP_ORDER")
	if err != nil {
		return nil, err
	}
	orders := map[string]order{}
	known := func(form string) bool {
		return slices.ContainsFunc(encodings, func(e encoding) bool { return e.form() == form && !e.flags["Retired"] })
	}
	seen := map[kernel]bool{}
	var all []kernel
	for _, r := range rows {
		row := r.arguments
		if r.macro == "SKEEP_ORDER" {
			if len(row) != 5 {
				return nil, fmt.Errorf("%s: %d arguments instead of 5: %q", path, len(row), row)
			}
			orders[row[0]] = order{row[0], row[1], row[2], row[3], row[4]}
			continue
		}
		if len(row) == 4 {
			row = append(row, "")
		}
		if len(row) != 5 {
			return nil, fmt.Errorf("%s: %d arguments instead of 4 or 5: %q", path, len(row), row)
		}
		op, before := ops.find(row[0]), ""
		for set := range strings.FieldsSeq(row[3]) {
			k := kernel{op: row[0], encoding: row[1], activation: row[2], isa: set, order: orders[row[4]]}
			switch {
			case k.order.name != row[4]:
				return nil, fmt.Errorf("%s: %s: unknown order %q", path, k.name(), row[4])
			case op == nil:
				return nil, fmt.Errorf("%s: %s: unknown operation %q", path, k.name(), k.op)
			case op.body == "":
				return nil, fmt.Errorf("%s: %s: operation %q has no rows of its own", path, k.name(), k.op)
			case !known(k.encoding):
				return nil, fmt.Errorf("%s: %s: unknown encoding %q", path, k.name(), k.encoding)
			case k.activation != anyActivation && !known(k.activation):
				return nil, fmt.Errorf("%s: %s: unknown activation %q", path, k.name(), k.activation)
			case !slices.Contains(instructionSets, set):
				return nil, fmt.Errorf("%s: %s: unknown instruction set %q", path, k.name(), set)
			case seen[k]:
				return nil, fmt.Errorf("%s: %s stands there twice", path, k.name())
			case before != "" && rank[before] < rank[set]:
				return nil, fmt.Errorf("%s: %s: %s must stand in front of %s, the best set comes first", path, k.name(), set, before)
			}
			before = set
			seen[k] = true
			k.body = op.body
			all = append(all, k)
		}
	}
	return all, nil
}

// name is the function's without the prefix skeep_.
func (k kernel) name() string {
	parts := []string{k.op, k.encoding, k.activation, k.order.name, k.isa}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" || s == anyActivation }), "_")
}

// kernelTable is csrc/generated/kernels_table.h.
func kernelTable(all []kernel, encodings []encoding) []byte {
	constant := map[string]string{anyActivation: "SKEEP_ANY"}
	for _, e := range encodings {
		constant[e.form()] = "SKEEP_ENC_" + e.name
		if e.elements == 1 {
			constant[e.form()] = "SKEEP_" + e.name
		}
	}
	var b bytes.Buffer
	b.WriteString("/* generated from csrc/kernels.def by go generate ./go/tensor: one row for each body, best first.\n" +
		" * The including file defines SKEEP_KERNEL(OP, type of body, encoding, activation, order, instruction set, body),\n" +
		" * and for orders SKEEP_ORDER(family, panel, interleave, version). */\n")
	for _, k := range all {
		o := order{family: "ROW_MAJOR", panel: "0", interleave: "0", version: "0"}
		if k.order.name != "" {
			o = k.order
		}
		fmt.Fprintf(&b, "SKEEP_KERNEL(%s, %s, %s, %s, SKEEP_ORDER(%s, %s, %s, %s), %s, %s)\n", strings.ToUpper(k.op), k.body,
			constant[k.encoding], constant[k.activation], o.family, o.panel, o.interleave, o.version, strings.ToUpper(k.isa), k.name())
	}
	return b.Bytes()
}
