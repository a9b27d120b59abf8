package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/skeep-project/skeep/go/arch"
)

// partName is the name of a part: prefix, number from 1, number of parts.
var partName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// partPath is the name of part no, counted from 1, of a set of count.
func partPath(prefix string, no, count int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, no, count)
}

// PartPaths returns the paths of all parts of the split set to which path belongs by its name: the files that Open may
// read. If path is not of the form NAME-00001-of-00003.gguf, it returns path alone. It does not access the file system.
func PartPaths(path string) []string {
	base := strings.LastIndexByte(path, '/') + 1
	m := partName.FindStringSubmatch(path[base:])
	if m == nil {
		return []string{path}
	}
	var all []string
	count, _ := strconv.Atoi(m[3]) // five digits
	for i := range count {
		all = append(all, partPath(path[:base]+m[1], i+1, count))
	}
	if !slices.Contains(all, path) { // its number is none of a set
		all = append(all, path)
	}
	return all
}

// split is what a file says of the set that it is a part of; no counts from 0, count ≤ 1 when of none.
type split struct{ no, count uint64 }

func splitOf(p *parsed, name string) (split, error) {
	var s split
	var total uint64
	for _, x := range [...]struct {
		key   string
		field *uint64
	}{{keySplitNo, &s.no}, {keySplitCount, &s.count}, {keySplitTotal, &total}} {
		v, ok := p.values[x.key]
		if !ok {
			continue
		}
		if *x.field, ok = v.Uint(); !ok {
			return s, &Error{File: name, Offset: int64(v.off), Field: x.key, Err: ErrFormat,
				Reason: fmt.Sprintf("value is a %s, not a count", v.kind)}
		}
	}
	if s.count > 1 && s.no >= s.count {
		return s, &Error{File: name, Offset: -1, Field: keySplitNo, Err: ErrSplit,
			Reason: fmt.Sprintf("part number %d is invalid for %d parts (numbers begin at 0)", s.no, s.count)}
	}
	return s, nil
}

// open reads the file called name, and its siblings when it is a part of a split set.
func open(opener func(name string) (source, error), name string, o Options) (_ *File, err error) {
	limit, err := o.maxHeader(name) // of all parts together
	if err != nil {
		return nil, err
	}
	var sources []source
	defer func() {
		if err == nil {
			return
		}
		for _, s := range sources {
			if s.closer != nil {
				s.closer.Close() // nothing was written: its error tells nothing
			}
		}
	}()
	read := func(name string) (*parsed, split, error) {
		src, err := opener(name)
		if err != nil {
			return nil, split{}, err
		}
		sources = append(sources, src)
		p, err := parse(src.r, src.size, name, limit, o.HeaderOnly)
		if err != nil {
			return nil, split{}, err
		}
		limit -= p.end
		s, err := splitOf(p, name)
		return p, s, err
	}
	opened, s, err := read(name)
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = name
	}
	if s.count <= 1 || o.SinglePart {
		return newFile(o.Name, []*parsed{opened}, sources)
	}

	broken := func(file, format string, args ...any) error {
		return &Error{File: file, Offset: -1, Reason: fmt.Sprintf(format, args...), Err: ErrSplit}
	}
	base := strings.LastIndexByte(name, '/') + 1
	m := partName.FindStringSubmatch(name[base:])
	if m == nil {
		return nil, broken(name, "part %d of %d of a split set, but not named NAME-%05d-of-%05d.gguf: "+
			"the other parts cannot be found", s.no+1, s.count, s.no+1, s.count)
	}
	no, _ := strconv.ParseUint(m[2], 10, 32) // five digits
	count, _ := strconv.ParseUint(m[3], 10, 32)
	if no != s.no+1 || count != s.count {
		return nil, broken(name, "named part %d of %d, but says it is part %d of %d", no, count, s.no+1, s.count)
	}
	first := sources[0]
	sources = sources[:0]
	parts := make([]*parsed, 0, 8)
	for i := range s.count {
		if i == s.no {
			sources = append(sources, first)
			parts = append(parts, opened)
			continue
		}
		sibling := partPath(name[:base]+m[1], int(i+1), int(s.count))
		p, other, err := read(sibling)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = &Error{File: sibling, Offset: -1, Err: errors.Join(ErrSplit, fs.ErrNotExist),
				Reason: fmt.Sprintf("part %d of %d is missing", i+1, s.count)}
		case err != nil:
		case other.no != i || other.count != s.count:
			err = broken(sibling, "says it is part %d of %d, but is named part %d of %d",
				other.no+1, other.count, i+1, s.count)
		case p.order != opened.order:
			err = broken(sibling, "%v, but part %d is %v", p.order, s.no+1, opened.order)
		}
		if err != nil {
			if i < s.no {
				sources = append(sources, first) // so that it is closed
			}
			return nil, err
		}
		parts = append(parts, p)
	}
	f, err := newFile(o.Name, parts, sources)
	if err != nil {
		return nil, err
	}
	if v, ok := f.values[keySplitTotal]; ok { // the same in all parts that state it
		if n, _ := v.Uint(); n != uint64(len(f.tensors)) {
			return nil, broken(name, "the parts hold %d tensors, %s is %d", len(f.tensors), keySplitTotal, n)
		}
	}
	return f, nil
}

// newFile joins the parts of a set, or takes a single file.
func newFile(name string, parts []*parsed, sources []source) (*File, error) {
	head := parts[0]
	f := &File{
		name: name, version: head.version, order: head.order, truncated: head.truncated,
		keys: head.keys, values: head.values, tensors: head.tensors, index: head.index,
	}
	for i, p := range parts {
		f.parts = append(f.parts, Part{Path: sources[i].path, Size: sources[i].size, Alignment: p.alignment,
			DataOffset: p.data, r: sources[i].r, closer: sources[i].closer, opened: sources[i].opened})
		if i == 0 {
			continue
		}
		if err := f.join(p, i, sources[i].path); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// join adds part number no. Its metadata may repeat the set's, not contradict it.
func (f *File) join(p *parsed, no int, path string) error {
	for _, key := range p.keys {
		v, old := p.values[key], f.values[key]
		switch {
		case key == keySplitNo || key == keyAlignment:
		case old == nil:
			f.keys = append(f.keys, key)
			f.values[key] = v
		case !same(old, v):
			return &Error{File: path, Offset: int64(v.off), Field: key, Err: ErrSplit,
				Reason: "part of another set: the value differs from that of the first part"}
		}
	}
	for _, t := range p.tensors {
		if at, again := f.index[t.Name]; again {
			return &Error{File: path, Offset: -1, Tensor: t.Name, Err: ErrFormat,
				Reason: fmt.Sprintf("name occurs twice: in parts %d and %d", f.tensors[at].File+1, no+1)}
		}
		t.File = no
		f.index[t.Name] = len(f.tensors)
		f.tensors = append(f.tensors, t)
	}
	if f.truncated == nil {
		f.truncated = p.truncated
	}
	return nil
}

// same compares two values by their bytes, or as integers where parts chose different kinds.
func same(a, b *value) bool {
	if x, ok := a.Int(); ok {
		y, ok := b.Int()
		return ok && x == y
	}
	return a.kind == b.kind && a.h.count == b.h.count &&
		bytes.Equal([]byte(a.h.text[a.off:a.h.skip(a.kind, a.off)]), []byte(b.h.text[b.off:b.h.skip(b.kind, b.off)]))
}

var _ arch.Value = (*value)(nil)
