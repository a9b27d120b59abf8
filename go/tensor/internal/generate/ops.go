package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ops is csrc/ops.def.
type ops struct {
	items []any // *op, *params and *form in the order of the list
	byID  []*op // id 1 first
}

// op is a row SKEEP_OP.
type op struct {
	id        int
	name      string // in C
	goName    string
	doc       string
	arguments []argument
	by        selection
	body      string // "" when it has no rows of its own
}

// argument is one of the function's, in C's order: an operand, a parameter, or the count of lists.
type argument struct {
	name           string
	layouts, role  string // of an operand, else ""
	optional, list bool
	kind           string // of a parameter: f32, u32, or the name of a form or struct; countKind
}

const countKind = "1..3"

func (a argument) operand() bool { return a.role != "" }

// selection is what a row of the kernel table is chosen by; key is "" when there is none.
type selection struct {
	key, other, as string
	anyOrder       bool
}

// form is a row SKEEP_FORM, params a row SKEEP_PARAMS.
type form struct {
	name, goName, doc string
	values            []formValue
}
type formValue struct{ name, goName, text string }
type params struct {
	name, goName, doc string
	fields            []param
}
type param struct{ kind, name, text string }

var (
	layoutNames = map[string]string{"any": "AnyLayout", "rows": "RowsLayout", "even": "EvenLayout", "weight": "WeightLayout"}
	roleNames   = map[string]string{"in": "OperandIn", "place": "OperandPlace", "out": "OperandOut"}
	numberTypes = map[string]struct{ c, cgo, goName string }{
		"f32": {"float", "C.float", "float32"},
		"u32": {"uint32_t", "C.uint32_t", "uint32"},
	}
	argumentText = regexp.MustCompile(`^(\S+) (?:(\w+) )?([a-z]\w*)(\?)?(\[count\])?$`)
	selectedText = regexp.MustCompile(`^(\w+)(?: by (\w+))?(?: as (\w+))?(, any order)?$`)
	valueText    = regexp.MustCompile(`^([A-Z]\w*) ([A-Z]\w*): (.+)$`)
	fieldText    = regexp.MustCompile(`^(\w+) (\w+): (.+)$`)
)

func readOps(path string) (*ops, error) {
	rows, err := readRows(path, "SKEEP_OP", "SKEEP_FORM", "SKEEP_PARAMS")
	if err != nil {
		return nil, err
	}
	all := &ops{}
	names := map[string]bool{}
	for _, r := range rows {
		name := r.arguments[min(1, len(r.arguments)-1)]
		item, err := any(nil), error(nil)
		switch r.macro {
		case "SKEEP_OP":
			item, err = all.parseOp(r)
		default:
			name = r.arguments[0]
			item, err = all.parseType(r)
		}
		switch {
		case err != nil:
		case names[name]:
			err = fmt.Errorf("stands there twice")
		case r.doc == "":
			err = fmt.Errorf("no comment right above says what it is")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, name, err)
		}
		names[name] = true
		all.items = append(all.items, item)
	}
	if all.byID, err = inOrder(all.items); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, o := range all.byID {
		if err := all.checkSelection(o); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, o.name, err)
		}
	}
	return all, nil
}

// inOrder is the operations by their ids, which are 1, 2, 3, ...
func inOrder(items []any) ([]*op, error) {
	var byID []*op
	for _, item := range items {
		if o, ok := item.(*op); ok {
			byID = append(byID, o)
		}
	}
	slices.SortStableFunc(byID, func(a, b *op) int { return a.id - b.id })
	for i, o := range byID {
		if o.id != i+1 {
			return nil, fmt.Errorf("%s: id %d, but the ids are 1, 2, 3, ... and the next is %d", o.name, o.id, i+1)
		}
	}
	return byID, nil
}

func (all *ops) parseOp(r row) (*op, error) {
	if len(r.arguments) != 6 {
		return nil, fmt.Errorf("%d arguments instead of 6", len(r.arguments))
	}
	id, err := strconv.Atoi(r.arguments[0])
	if err != nil {
		return nil, fmt.Errorf("id: %w", err)
	}
	o := &op{id: id, name: r.arguments[1], goName: r.arguments[2], doc: r.doc, body: r.arguments[5]}
	if o.body == "none" {
		o.body = ""
	}
	if err := sameName(o.name, o.goName); err != nil {
		return nil, err
	}
	if r.arguments[3] != "" {
		for text := range strings.SplitSeq(r.arguments[3], ",") {
			a, err := all.parseArgument(strings.TrimSpace(text))
			if err != nil {
				return nil, err
			}
			o.arguments = append(o.arguments, a)
		}
	}
	if r.arguments[4] != "" {
		m := selectedText.FindStringSubmatch(r.arguments[4])
		if m == nil {
			return nil, fmt.Errorf("not a selection: %q", r.arguments[4])
		}
		o.by = selection{m[1], m[2], m[3], m[4] != ""}
	}
	return o, o.checkArguments()
}

// sameName checks that a name in Go is the one in C but for underscores and capitals.
func sameName(c, goName string) error {
	if !strings.EqualFold(strings.ReplaceAll(c, "_", ""), goName) || goName == "" || strings.ToUpper(goName[:1]) != goName[:1] {
		return fmt.Errorf("%q is not the name in Go of %q", goName, c)
	}
	return nil
}

func (all *ops) parseArgument(text string) (a argument, err error) {
	m := argumentText.FindStringSubmatch(text)
	if m == nil {
		return a, fmt.Errorf("not an argument: %q", text)
	}
	a = argument{name: m[3], optional: m[4] != "", list: m[5] != ""}
	if m[2] == "" {
		a.kind = m[1]
		if a.optional || a.list {
			return a, fmt.Errorf("%s: a parameter is always there, and one", a.name)
		}
		if a.kind == countKind && a.name == "count" {
			return a, nil
		}
		return a, all.knownType(a.kind)
	}
	a.layouts, a.role = m[1], m[2]
	if layoutNames[a.layouts] == "" {
		return a, fmt.Errorf("%s: unknown layouts %q", a.name, a.layouts)
	}
	if roleNames[a.role] == "" {
		return a, fmt.Errorf("%s: unknown role %q", a.name, a.role)
	}
	return a, nil
}

// taken are the names that a binding in Go needs itself.
var taken = []string{"p", "s", "f", "st", "pool", "step", "status"}

func (o *op) checkArguments() error {
	seen := map[string]bool{}
	lists, counted := false, false
	for _, a := range o.arguments {
		switch {
		case seen[a.name]:
			return fmt.Errorf("two arguments are named %q", a.name)
		case slices.Contains(taken, a.name):
			return fmt.Errorf("an argument cannot be named %q", a.name)
		case a.kind == countKind:
			counted = true
		case a.list && !counted:
			return fmt.Errorf("%s: a list without %s count before it", a.name, countKind)
		case a.operand() && !a.list && lists:
			return fmt.Errorf("%s: a single operand behind lists", a.name)
		}
		seen[a.name] = true
		lists = lists || a.list
	}
	return nil
}

func (all *ops) checkSelection(o *op) error {
	for _, name := range []string{o.by.key, o.by.other} {
		if name != "" && o.operandAt(name) < 0 {
			return fmt.Errorf("selected by %q, which is no operand", name)
		}
	}
	rows := o.body
	if o.by.as != "" {
		as := all.find(o.by.as)
		if as == nil {
			return fmt.Errorf("selected as %q, which is no operation", o.by.as)
		}
		rows = as.body
	}
	if o.by.key != "" && rows == "" {
		return fmt.Errorf("selected by %q, but there are no rows", o.by.key)
	}
	if o.by.key == "" && o.body != "" && len(o.arguments) > 0 {
		return fmt.Errorf("has rows of kernels and nothing that they are chosen by")
	}
	return nil
}

func (all *ops) find(name string) *op {
	for _, o := range all.byID {
		if o.name == name {
			return o
		}
	}
	return nil
}

// operands are the arguments that are views.
func (o *op) operands() (views []argument) {
	for _, a := range o.arguments {
		if a.operand() {
			views = append(views, a)
		}
	}
	return views
}

// operandAt is the position of an operand, -1 when there is none of that name.
func (o *op) operandAt(name string) int {
	return slices.IndexFunc(o.operands(), func(a argument) bool { return a.name == name })
}

func (o *op) lists() bool {
	return slices.ContainsFunc(o.arguments, func(a argument) bool { return a.list })
}

func (all *ops) parseType(r row) (any, error) {
	if len(r.arguments) < 3 {
		return nil, fmt.Errorf("%d arguments, want a name in C and in Go and what it has", len(r.arguments))
	}
	name, goName, parts := r.arguments[0], r.arguments[1], r.arguments[2:]
	if err := sameName(name, goName); err != nil {
		return nil, err
	}
	if r.macro == "SKEEP_PARAMS" {
		return all.parseParams(&params{name: name, goName: goName, doc: r.doc}, parts)
	}
	if !strings.HasSuffix(name, "_form") || !strings.HasSuffix(goName, "Form") {
		return nil, fmt.Errorf("its names do not end in _form and Form")
	}
	f := &form{name: name, goName: goName, doc: r.doc}
	for _, text := range parts {
		m := valueText.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("not a choice: %q", text)
		}
		if err := sameName(m[1], m[2]); err != nil {
			return nil, err
		}
		f.values = append(f.values, formValue{m[1], m[2], m[3]})
	}
	return f, nil
}

func (all *ops) parseParams(p *params, parts []string) (*params, error) {
	for _, text := range parts {
		m := fieldText.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("not a field: %q", text)
		}
		if err := all.knownType(m[1]); err != nil {
			return nil, err
		}
		p.fields = append(p.fields, param{m[1], m[2], m[3]})
	}
	return p, nil
}

func (all *ops) knownType(kind string) error {
	if _, ok := numberTypes[kind]; ok || all.typeOf(kind) != nil {
		return nil
	}
	return fmt.Errorf("unknown type %q", kind)
}

// typeOf is the *form or *params above of that name, or nil.
func (all *ops) typeOf(name string) any {
	for _, item := range all.items {
		switch t := item.(type) {
		case *form:
			if t.name == name {
				return t
			}
		case *params:
			if t.name == name {
				return t
			}
		}
	}
	return nil
}
