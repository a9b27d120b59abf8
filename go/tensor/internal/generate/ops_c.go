package main

import (
	"bytes"
	"fmt"
	"strings"
)

const fromOps = "generated from csrc/ops.def by go generate ./go/tensor"

// opIDs is the section of include/skeep.h with the numbers of the operations.
func opIDs(all *ops) []byte {
	var b bytes.Buffer
	for _, o := range all.byID {
		fmt.Fprintf(&b, "#define SKEEP_OP_%s %d\n", strings.ToUpper(o.name), o.id)
	}
	return b.Bytes()
}

// opPrototypes is the section of include/skeep.h with parameters and functions, each below its documentation.
func opPrototypes(all *ops) []byte {
	var b bytes.Buffer
	for _, item := range all.items {
		switch t := item.(type) {
		case *form:
			b.WriteString("\n" + cComment(t.doc))
			var lines [][2]string
			for i, v := range t.values {
				lines = append(lines, [2]string{fmt.Sprintf("#define %s%s %d", t.cPrefix(), v.name, i), v.text})
			}
			b.WriteString(aligned(lines))
		case *params:
			b.WriteString("\n" + cComment(t.doc) + "typedef struct skeep_" + t.name + " {\n")
			var lines [][2]string
			for _, f := range t.fields {
				text := f.text
				if choice, ok := all.typeOf(f.kind).(*form); ok {
					text = choice.cPrefix() + "*: " + text
				}
				lines = append(lines, [2]string{"  " + all.cType(f.kind) + " " + f.name + ";", text})
			}
			b.WriteString(aligned(lines) + "} skeep_" + t.name + ";\n")
		case *op:
			if len(t.arguments) > 0 {
				b.WriteString("\n" + cComment(t.doc) + all.prototype(t))
			}
		}
	}
	return b.Bytes()
}

func cComment(doc string) string { return "/* " + strings.ReplaceAll(doc, "\n", "\n * ") + " */\n" }

// aligned is lines with their comments below each other.
func aligned(lines [][2]string) string {
	width, text := 0, ""
	for _, l := range lines {
		width = max(width, len(l[0]))
	}
	for _, l := range lines {
		text += fmt.Sprintf("%-*s /* %s */\n", width, l[0], l[1])
	}
	return text
}

// cPrefix is what the constants of a form begin with.
func (f *form) cPrefix() string {
	return "SKEEP_" + strings.ToUpper(strings.TrimSuffix(f.name, "form"))
}

// cType is the type in C of a parameter.
func (all *ops) cType(kind string) string {
	switch all.typeOf(kind).(type) {
	case *params:
		return "skeep_" + kind
	case *form:
		return "uint32_t"
	}
	return numberTypes[kind].c
}

// prototype is the declaration of an operation's function, in lines of at most 120 columns.
func (all *ops) prototype(o *op) string {
	head := "SKEEP_API skeep_status skeep_" + o.name + "("
	parts := []string{"skeep_pool *pool", "skeep_step *step"}
	for _, a := range o.arguments {
		switch {
		case a.list:
			parts = append(parts, "const skeep_view *const *"+a.name)
		case a.operand():
			parts = append(parts, "const skeep_view *"+a.name)
		case a.kind == countKind:
			parts = append(parts, "uint32_t "+a.name)
		default:
			parts = append(parts, all.cType(a.kind)+" "+a.name)
		}
	}
	text, line := "", head
	for i, part := range parts {
		end := ", "
		if i == len(parts)-1 {
			end = ");"
		}
		if len(line)+len(part)+len(strings.TrimSpace(end)) > 120 {
			text += strings.TrimRight(line, " ") + "\n"
			line = strings.Repeat(" ", len(head))
		}
		line += part + end
	}
	return text + line + "\n"
}

// opTable is csrc/generated/ops_table.h.
func opTable(all *ops) []byte {
	var b bytes.Buffer
	largest := 0
	for _, o := range all.byID {
		largest = max(largest, len(o.operands()))
	}
	b.WriteString("/* " + fromOps + ": one row for each operation.\n" +
		" * The including file defines SKEEP_OP(NAME, name, as, any_order, key, other, operands, {layouts, role, optional}, ...).\n" +
		" * as: the operation among whose kernels one is chosen. any_order: the order of the key operand does not matter. key, other: the\n" +
		" * operands by which the kernel is chosen, -1 = none. operands: how many there are; a description of each follows. */\n")
	fmt.Fprintf(&b, "#define SKEEP_OP_OPERANDS %d /* max, over all operations */\n", largest)
	for _, o := range all.byID {
		as := o.name
		if o.by.as != "" {
			as = o.by.as
		}
		fmt.Fprintf(&b, "SKEEP_OP(%s, %s, %s, %d, %d, %d, %d", strings.ToUpper(o.name), o.name, strings.ToUpper(as), number(o.by.anyOrder),
			o.operandAt(o.by.key), o.operandAt(o.by.other), len(o.operands()))
		for _, a := range o.operands() {
			fmt.Fprintf(&b, ", {%s, %s, %d}", strings.ToUpper(a.layouts), strings.ToUpper(a.role), number(a.optional))
		}
		if len(o.operands()) == 0 {
			b.WriteString(", {ABSENT, IN, 1}")
		}
		b.WriteString(")\n")
	}
	return b.Bytes()
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
