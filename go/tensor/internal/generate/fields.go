package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// statement is one part of the text of a block's fields: a run of names of one type, a group, or a spread number.
type statement struct {
	scale  bool
	kind   string // "" for a group
	names  []counted
	times  int         // of a group
	inside []statement // of a group
	of     string      // the field over which a number is spread
	shift  int
}

type counted struct {
	name  string
	count int
	array bool
}

// field is a placed field, see tensor.Field.
type field struct {
	name, kind                        string
	offset, count, groups, groupBytes int
	scale                             bool
	parts                             [][2]int
}

var fieldTypes = map[string]struct {
	goName, c string
	bytes     int
}{
	"u8": {"FieldU8", "uint8_t", 1}, "i8": {"FieldI8", "int8_t", 1}, "u16": {"FieldU16", "uint16_t", 2}, "i16": {"FieldI16", "int16_t", 2},
	"u32": {"FieldU32", "uint32_t", 4}, "i32": {"FieldI32", "int32_t", 4}, "i64": {"FieldI64", "int64_t", 8}, "f16": {"FieldF16", "uint16_t", 2},
	"bf16": {"FieldBF16", "uint16_t", 2}, "f32": {"FieldF32", "float", 4}, "f64": {"FieldF64", "double", 8}, "e8m0": {"FieldE8M0", "uint8_t", 1},
	"ue4m3": {"FieldUE4M3", "uint8_t", 1}, "le32": {"FieldLE32", "uint32_t", 4},
}

var (
	groupText  = regexp.MustCompile(`^group\[(\d+)\]\s*\{([^{}]*)\}`)
	spreadText = regexp.MustCompile(`^spread (\w+) (\w+) = (\w+) >> (\d+)$`)
	runText    = regexp.MustCompile(`^(scale )?(\w+) (\w+(?:\[\d+\])?(?:, *\w+(?:\[\d+\])?)*)$`)
	nameText   = regexp.MustCompile(`^(\w+?)(?:\[(\d+)\])?$`)
)

// parseFields reads the text of a block's fields, whose grammar csrc/encodings.def states.
func parseFields(text string) ([]statement, error) {
	var all []statement
	for text = strings.TrimSpace(text); text != ""; {
		if m := groupText.FindStringSubmatch(text); m != nil {
			times, _ := strconv.Atoi(m[1])
			inside, err := parseFields(m[2])
			if err != nil {
				return nil, err
			}
			all = append(all, statement{times: times, inside: inside})
			text = strings.TrimLeft(text[len(m[0]):], "; ")
			continue
		}
		one, rest, _ := strings.Cut(text, ";")
		s, err := parseRun(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		text = strings.TrimSpace(rest)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("a block without fields")
	}
	return all, nil
}

func parseRun(text string) (s statement, err error) {
	if m := spreadText.FindStringSubmatch(text); m != nil {
		shift, _ := strconv.Atoi(m[4])
		return statement{scale: true, kind: m[1], names: []counted{{name: m[2]}}, of: m[3], shift: shift}, known(m[1])
	}
	m := runText.FindStringSubmatch(text)
	if m == nil {
		return s, fmt.Errorf("not a field: %q", text)
	}
	s = statement{scale: m[1] != "", kind: m[2]}
	for name := range strings.SplitSeq(m[3], ",") {
		n := nameText.FindStringSubmatch(strings.TrimSpace(name))
		count := 1
		if n[2] != "" {
			count, _ = strconv.Atoi(n[2])
		}
		s.names = append(s.names, counted{n[1], count, n[2] != ""})
	}
	return s, known(s.kind)
}

func known(kind string) error {
	if _, ok := fieldTypes[kind]; !ok {
		return fmt.Errorf("unknown type %q", kind)
	}
	return nil
}

// place gives every field its offset; size is the bytes of the block.
func place(statements []statement) (fields []field, size int, err error) {
	for _, s := range statements {
		switch {
		case s.inside != nil:
			inside, bytes, err := place(s.inside)
			if err != nil {
				return nil, 0, err
			}
			for _, f := range inside {
				f.offset += size
				f.groups, f.groupBytes = s.times, bytes
				fields = append(fields, f)
			}
			size += s.times * bytes
		case s.of != "":
			f := field{name: s.names[0].name, kind: s.kind, groups: 1, scale: true}
			for _, over := range fields {
				width := 8 * fieldTypes[over.kind].bytes
				for i := range over.count {
					if over.name == s.of {
						f.parts = append(f.parts, [2]int{8*over.offset + width*i + s.shift, width - s.shift})
					}
				}
			}
			bits := 0
			for _, p := range f.parts {
				bits += p[1]
			}
			if bits != 8*fieldTypes[s.kind].bytes {
				return nil, 0, fmt.Errorf("%s: %d bits of %s are spread over %q", f.name, bits, s.kind, s.of)
			}
			fields = append(fields, f)
		default:
			for _, n := range s.names {
				fields = append(fields, field{name: n.name, kind: s.kind, offset: size, count: n.count, groups: 1, scale: s.scale})
				size += n.count * fieldTypes[s.kind].bytes
			}
		}
	}
	return fields, size, nil
}

// structText is the body of a C struct.
func structText(statements []statement) string {
	var parts []string
	for _, s := range statements {
		switch {
		case s.inside != nil:
			parts = append(parts, fmt.Sprintf("struct { %s } group[%d];", structText(s.inside), s.times))
		case s.of == "":
			var names []string
			for _, n := range s.names {
				if n.array {
					n.name += fmt.Sprintf("[%d]", n.count)
				}
				names = append(names, n.name)
			}
			parts = append(parts, fieldTypes[s.kind].c+" "+strings.Join(names, ", ")+";")
		}
	}
	return strings.Join(parts, " ")
}

func (f field) goLiteral() string {
	text := fmt.Sprintf("{Name: %q, Type: %s, Offset: %d, Count: %d, Groups: %d", f.name, fieldTypes[f.kind].goName, f.offset, f.count, f.groups)
	if f.groupBytes > 0 {
		text += fmt.Sprintf(", GroupBytes: %d", f.groupBytes)
	}
	if f.scale {
		text += ", Scale: true"
	}
	if len(f.parts) > 0 {
		text += ", Parts: []BitRange{"
		for _, p := range f.parts {
			text += fmt.Sprintf("{%d, %d}, ", p[0], p[1])
		}
		text += "}"
	}
	return text + "}"
}
