package main

import (
	"bytes"
	"fmt"
	"go/format"
	"strings"
)

// goOps is go/tensor/ops.go: the numbers and the table of the operations, and the types of their parameters.
func goOps(all *ops) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("// Code " + fromOps + ". DO NOT EDIT.\n\npackage tensor\n\n// The operations.\nconst (\n")
	for _, o := range all.byID {
		fmt.Fprintf(&b, "\tOp%s Op = %d\n", o.goName, o.id)
	}
	b.WriteString(")\n\nvar ops = [...]OpInfo{\n")
	for _, o := range all.byID {
		fmt.Fprintf(&b, "\t{ID: Op%s, Name: %q", o.goName, o.name)
		all.goArguments(&b, o)
		b.WriteString("},\n")
	}
	b.WriteString("}\n")
	for _, item := range all.items {
		switch t := item.(type) {
		case *form:
			b.WriteString("\n" + goComment("", t.goName+" says "+lowerFirst(t.doc)) + "type " + t.goName + " uint32\n\n// The values of " + t.goName + ".\nconst (\n")
			for i, v := range t.values {
				fmt.Fprintf(&b, "\t%s%s %s = %d // %s\n", strings.TrimSuffix(t.goName, "Form"), v.goName, t.goName, i, v.text)
			}
			b.WriteString(")\n")
		case *params:
			b.WriteString("\n" + goComment("", t.goName+" are "+lowerFirst(t.doc)) + "type " + t.goName + " struct {\n")
			for _, f := range t.fields {
				if f.name != "reserved" {
					fmt.Fprintf(&b, "\t%s %s // %s\n", camel(f.name, true), all.goType(f.kind, ""), f.text)
				}
			}
			b.WriteString("}\n")
		}
	}
	return format.Source(b.Bytes())
}

func (all *ops) goArguments(b *bytes.Buffer, o *op) {
	if len(o.operands()) > 0 {
		b.WriteString(", Operands: []Operand{\n")
		for _, a := range o.operands() {
			fmt.Fprintf(b, "\t\t{Name: %q, Layout: %s, Role: %s", a.name, layoutNames[a.layouts], roleNames[a.role])
			for _, flag := range []struct {
				set  bool
				name string
			}{{a.optional, "Optional"}, {a.list, "List"}} {
				if flag.set {
					b.WriteString(", " + flag.name + ": true")
				}
			}
			b.WriteString("},\n")
		}
		b.WriteString("\t}")
	}
	var parameters []string
	for _, a := range o.arguments {
		if !a.operand() && a.kind != countKind {
			parameters = append(parameters, fmt.Sprintf("{%q, %q}", a.name, all.goType(a.kind, "")))
		}
	}
	if parameters != nil {
		b.WriteString(", Params: []Param{" + strings.Join(parameters, ", ") + "}")
	}
}

// goType is the type in Go of a parameter; qualifier stands before those of package tensor.
func (all *ops) goType(kind, qualifier string) string {
	switch t := all.typeOf(kind).(type) {
	case *form:
		return qualifier + t.goName
	case *params:
		return qualifier + t.goName
	}
	return numberTypes[kind].goName
}

// goBindings is go/internal/core/ops_generated.go. Lists of operands are bound by hand.
func goBindings(all *ops) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("// Code " + fromOps + ". DO NOT EDIT.\n\npackage core\n\n// #include \"skeep.h\"\nimport \"C\"\n\n" +
		"import \"github.com/skeep-project/skeep/go/tensor\"\n\n" +
		"// The operations below are those of include/skeep.h, which states shapes, formats and errors. Each takes\n" +
		"// the pool, the running step (or nil), and its operands in C's order, nil for an absent one. The views are\n" +
		"// copied into the step's frame: nothing of them is kept and nothing is allocated. The caller keeps the\n" +
		"// storages reachable until the call returns.\n")
	for _, item := range all.items {
		if o, ok := item.(*op); ok && len(o.arguments) > 0 && !o.lists() {
			all.goBinding(&b, o)
		}
	}
	return format.Source(b.Bytes())
}

func (all *ops) goBinding(b *bytes.Buffer, o *op) {
	names, types := []string{"p", "s"}, []string{"*Pool", "*Step"}
	call, at := "C.skeep_"+o.name+"((*C.skeep_pool)(pool), s.ptr()", 0
	for _, a := range o.arguments {
		name := camel(a.name, false)
		names = append(names, name)
		if a.operand() {
			types = append(types, "*View")
			call += fmt.Sprintf(", f.put(%d, %s)", at, name)
			at++
			continue
		}
		types = append(types, all.goType(a.kind, "tensor."))
		call += ", " + all.toC(a.kind, name)
	}
	fmt.Fprintf(b, "\n%sfunc %s(%s) Status {\n", goComment("", o.goName+" is skeep_"+o.name+": "+lowerFirst(firstSentence(o.doc))), o.goName, parameterList(names, types))
	b.WriteString("\tpool, st := p.Hold(s)\n\tif st.Code != OK {\n\t\treturn st\n\t}\n\tf := s.take()\n")
	b.WriteString("\tstatus := " + call + ")\n\ts.give(f)\n\tp.Release()\n\treturn statusOf(status)\n}\n")
}

// parameterList is names with their types, one for those side by side.
func parameterList(names, types []string) (text string) {
	for i, name := range names {
		if i > 0 {
			text += ", "
		}
		text += name
		if i+1 == len(names) || types[i] != types[i+1] {
			text += " " + types[i]
		}
	}
	return text
}

// toC is the value in C of a parameter.
func (all *ops) toC(kind, value string) string {
	switch t := all.typeOf(kind).(type) {
	case *form:
		return "C.uint32_t(" + value + ")"
	case *params:
		text := "C.skeep_" + t.name + "{\n"
		for _, f := range t.fields {
			if f.name != "reserved" {
				text += "\t\t" + f.name + ": " + all.toC(f.kind, value+"."+camel(f.name, true)) + ",\n"
			}
		}
		return text + "\t}"
	}
	return numberTypes[kind].cgo + "(" + value + ")"
}

// camel is a name of C as Go spells it.
func camel(name string, exported bool) (text string) {
	for i, word := range strings.Split(name, "_") {
		if i > 0 || exported {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		text += word
	}
	return text
}

func lowerFirst(text string) string { return strings.ToLower(text[:1]) + text[1:] }

// firstSentence is the documentation up to its first full stop.
func firstSentence(doc string) string {
	text := strings.Join(strings.Fields(doc), " ")
	if first, _, more := strings.Cut(text, ". "); more {
		return first + "."
	}
	return text
}

// goComment is text as a comment in lines of at most 120 columns.
func goComment(indent, text string) string {
	out, line := "", indent+"//"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > 120 {
			out += line + "\n"
			line = indent + "//"
		}
		line += " " + word
	}
	return out + line + "\n"
}
