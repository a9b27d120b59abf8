package main

import (
	"bytes"
	"fmt"
	"go/format"
	"slices"
	"strconv"
	"strings"
)

// encoding is one row of csrc/encodings.def.
type encoding struct {
	id              uint16
	name, dtype     string
	elements, bytes int
	flags           map[string]bool
	statements      []statement // of a block; nil when dense or retired
	fields          []field
	feed            []feedRun // how feed order interleaves a block; nil = there is none
}

// feedRun is bytes of a block that are interleaved in units.
type feedRun struct{ at, bytes, unit int }

var flagOf = map[string]string{
	"SKEEP_ENC_FLAG_RETIRED":    "Retired",
	"SKEEP_ENC_FLAG_ACTIVATION": "Activation",
	"SKEEP_ENC_FLAG_INTEGER":    "Integer",
}

func readEncodings(path string) ([]encoding, error) {
	rows, err := readList(path, "SKEEP_ENCODING", 9)
	if err != nil {
		return nil, err
	}
	var all []encoding
	for _, row := range rows {
		e, err := parseEncoding(row)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, row[1], err)
		}
		if n := len(all); n > 0 && all[n-1].id >= e.id {
			return nil, fmt.Errorf("%s: id %d does not follow %d", path, e.id, all[n-1].id)
		}
		all = append(all, e)
	}
	return all, nil
}

func parseEncoding(row []string) (e encoding, err error) {
	id, err := strconv.ParseUint(row[0], 10, 16)
	if err != nil {
		return e, fmt.Errorf("id: %w", err)
	}
	e = encoding{id: uint16(id), name: row[1], dtype: strings.TrimPrefix(row[3], "SKEEP_"), flags: map[string]bool{}}
	if row[2] != e.form() {
		return e, fmt.Errorf("name %q in C is not the name in lower case", row[2])
	}
	if e.elements, err = strconv.Atoi(row[4]); err != nil {
		return e, fmt.Errorf("elements: %w", err)
	}
	if e.bytes, err = strconv.Atoi(row[5]); err != nil {
		return e, fmt.Errorf("bytes: %w", err)
	}
	if row[6] != "0" {
		for flag := range strings.SplitSeq(row[6], "|") {
			name, ok := flagOf[strings.TrimSpace(flag)]
			if !ok {
				return e, fmt.Errorf("unknown flag %q", flag)
			}
			e.flags[name] = true
		}
	}
	switch {
	case e.flags["Retired"]:
		if row[7] != "" || row[8] != "" || e.elements != 0 {
			return e, fmt.Errorf("a retired encoding has no size and no fields")
		}
		return e, nil
	case e.elements == 1:
		if row[7] != "" || row[8] != "" {
			return e, fmt.Errorf("a dense encoding has no fields but its element, and no feed order")
		}
		e.fields = []field{{name: "value", kind: strings.ToLower(e.name), count: 1, groups: 1, scale: !e.flags["Integer"]}}
		if fieldTypes[e.fields[0].kind].bytes != e.bytes {
			return e, fmt.Errorf("an element has %d bytes, the row says %d", fieldTypes[e.fields[0].kind].bytes, e.bytes)
		}
		return e, nil
	}
	if e.statements, err = parseFields(row[7]); err != nil {
		return e, err
	}
	var size int
	if e.fields, size, err = place(e.statements); err != nil {
		return e, err
	}
	if size != e.bytes {
		return e, fmt.Errorf("the fields have %d bytes, the row says %d", size, e.bytes)
	}
	return e, e.parseFeed(row[8])
}

// parseFeed reads "field:unit ...": from each of these fields up to the next one, units of so many bytes.
func (e *encoding) parseFeed(text string) error {
	for part := range strings.FieldsSeq(text) {
		name, number, _ := strings.Cut(part, ":")
		unit, err := strconv.Atoi(number)
		if err != nil || unit != 1 && unit != 2 && unit != 4 {
			return fmt.Errorf("feed: %q has no unit of 1, 2 or 4 bytes", part)
		}
		i := slices.IndexFunc(e.fields, func(f field) bool { return f.name == name && f.parts == nil })
		if i < 0 {
			return fmt.Errorf("feed: no field %q", name)
		}
		r := feedRun{at: e.fields[i].offset, bytes: e.bytes - e.fields[i].offset, unit: unit}
		if n := len(e.feed); n > 0 {
			before := &e.feed[n-1]
			before.bytes = r.at - before.at
		} else if r.at != 0 {
			return fmt.Errorf("feed: field %q is not the first of a block", name)
		}
		e.feed = append(e.feed, r)
	}
	for _, r := range e.feed {
		if r.bytes <= 0 || r.bytes%r.unit != 0 {
			return fmt.Errorf("feed: %d bytes from byte %d on are not whole units of %d", r.bytes, r.at, r.unit)
		}
	}
	if len(e.feed) > maxRuns {
		return fmt.Errorf("feed: %d runs, the table of the core has room for %d", len(e.feed), maxRuns)
	}
	return nil
}

// maxRuns is SKEEP_FEED_RUNS in csrc/kernel.h.
const maxRuns = 2

// feedRuns is csrc/generated/feed_runs.h.
func feedRuns(all []encoding) []byte {
	var b bytes.Buffer
	b.WriteString("/* " + generated + ": how the feed order interleaves a block.\n" +
		" * The including file defines SKEEP_FEED(form, {first byte, bytes, unit}, ...). */\n")
	for _, e := range all {
		if e.feed == nil {
			continue
		}
		fmt.Fprintf(&b, "SKEEP_FEED(%s", e.form())
		for _, r := range e.feed {
			fmt.Fprintf(&b, ", {%d, %d, %d}", r.at, r.bytes, r.unit)
		}
		b.WriteString(")\n")
	}
	return b.Bytes()
}

// form is the name in C.
func (e encoding) form() string { return strings.ToLower(e.name) }

func (e encoding) goName() string {
	if e.name == e.dtype {
		return "Enc" + e.name
	}
	return e.name
}

const generated = "generated from csrc/encodings.def by go generate ./go/tensor"

// goTable is go/tensor/encodings.go.
func goTable(all []encoding) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("// Code " + generated + ". DO NOT EDIT.\n\npackage tensor\n\n")
	b.WriteString("// The encodings. Dense ones carry the prefix Enc, since the bare name is their DType.\nconst (\n")
	for _, e := range all {
		fmt.Fprintf(&b, "\t%s Encoding = %d", e.goName(), e.id)
		if e.flags["Retired"] {
			b.WriteString(" // retired")
		}
		b.WriteString("\n")
	}
	b.WriteString(")\n\nvar encodings = [...]EncodingInfo{\n")
	for _, e := range all {
		fmt.Fprintf(&b, "\t{ID: %s, Name: %q, DType: %s, BlockElements: %d, BlockBytes: %d", e.goName(), e.name, e.dtype,
			e.elements, e.bytes)
		for _, field := range []string{"Retired", "Activation", "Integer"} {
			if e.flags[field] {
				fmt.Fprintf(&b, ", %s: true", field)
			}
		}
		b.WriteString("},\n")
	}
	b.WriteString("}\n\nvar fields = [len(encodings)][]Field{\n")
	for _, e := range all {
		if len(e.fields) == 0 {
			fmt.Fprintf(&b, "\tnil, // %s\n", e.name)
			continue
		}
		b.WriteString("\t{ // " + e.name + "\n")
		for _, f := range e.fields {
			b.WriteString("\t\t" + f.goLiteral() + ",\n")
		}
		b.WriteString("\t},\n")
	}
	b.WriteString("}\n")
	return format.Source(b.Bytes())
}

// blockStructs is csrc/generated/blocks_fields.h.
func blockStructs(all []encoding) []byte {
	var b bytes.Buffer
	b.WriteString("/* " + generated + ": structs of the blocks of packed encodings.\n" +
		" * The including file defines SKEEP_BLOCK(form, fields). */\n")
	for _, e := range all {
		if e.statements != nil {
			fmt.Fprintf(&b, "SKEEP_BLOCK(%s, %s)\n", e.form(), structText(e.statements))
		}
	}
	return b.Bytes()
}

// encodingIDs is the section of include/skeep.h with the ids of encodings that are not dense.
func encodingIDs(all []encoding) []byte {
	var b bytes.Buffer
	for _, e := range all {
		if e.statements != nil {
			fmt.Fprintf(&b, "#define SKEEP_ENC_%s %d\n", e.name, e.id)
		}
	}
	return b.Bytes()
}
