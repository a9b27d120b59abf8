package main

import (
	"bytes"
	"fmt"
	"strings"
)

// opDocument is docs/operations.md.
func opDocument(all *ops) []byte {
	var b bytes.Buffer
	b.WriteString(`# Operations

Generated from csrc/ops.def by go generate ./go/tensor. The comments of include/skeep.h say what each operation computes, and which
encodings and shapes it accepts.

A status names an operand by its position, from 0: inputs and outputs in the order of the arguments in C. Behind the name of an operand
stands how it may be laid out:

- *any*: any block order and strides;
- *rows*: row-major, the elements of the last axis next to each other;
- *even*: as *rows*, and the distance from one row to the next is constant;
- *weight*: rows of blocks, in any order for which there is a kernel.

An output may be exactly the same view as an input marked *in place*. The last column names the operands whose encoding and order decide
which kernel runs.

| id | C | Go | inputs | outputs | parameters | chooses the kernel |
|---|---|---|---|---|---|---|
`)
	for _, o := range all.byID {
		var in, out, parameters []string
		for _, a := range o.arguments {
			switch {
			case a.role == "out":
				out = append(out, a.text())
			case a.operand():
				in = append(in, a.text())
			case a.kind != countKind:
				parameters = append(parameters, a.name+" "+all.goType(a.kind, ""))
			}
		}
		function := "skeep_" + o.name
		if len(o.arguments) == 0 {
			function = "no function"
		}
		fmt.Fprintf(&b, "| %d | %s | Op%s | %s | %s | %s | %s |\n", o.id, function, o.goName, strings.Join(in, ", "), strings.Join(out, ", "),
			strings.Join(parameters, ", "), o.by.text())
	}
	for _, item := range all.items {
		switch t := item.(type) {
		case *form:
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| value | C | Go | |\n|---|---|---|---|\n", t.goName, unwrapped(t.doc))
			for i, v := range t.values {
				fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", i, t.cPrefix()+v.name, strings.TrimSuffix(t.goName, "Form")+v.goName, v.text)
			}
		case *params:
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| C | Go | type | |\n|---|---|---|---|\n", t.goName, unwrapped(t.doc))
			for _, f := range t.fields {
				if f.name != "reserved" {
					fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.name, camel(f.name, true), all.goType(f.kind, ""), f.text)
				}
			}
		}
	}
	return b.Bytes()
}

func unwrapped(doc string) string { return strings.Join(strings.Fields(doc), " ") }

// text is an operand with how it may lie.
func (a argument) text() string {
	notes := []string{a.layouts}
	if a.role == "place" {
		notes = append(notes, "in place")
	}
	if a.optional {
		notes = append(notes, "may be absent")
	}
	if a.list {
		notes = append(notes, "one to three")
	}
	return a.name + " (" + strings.Join(notes, ", ") + ")"
}

func (s selection) text() string {
	text := s.key
	if s.other != "" {
		text += " and " + s.other
	}
	if s.as != "" {
		text += ", kernels of " + s.as
	}
	return text
}
