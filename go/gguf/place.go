package gguf

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/skeep-project/skeep/go/arch"
)

// place checks where the tensors of a file of size bytes lie, and fills in what follows from their
// neighbors: Reserved and AliasOf. Tensors may stand in any order and with holes between them; two may
// share bytes only when type and range are the same. The first result is the error of a payload that
// the file is too short for, of the first tensor concerned in order of offset.
func place(f *parsed, size int64, name string) (truncated, err error) {
	fail := func(t *arch.TensorInfo, kind error, format string, args ...any) error {
		return &Error{File: name, Offset: -1, Tensor: t.Name, Reason: fmt.Sprintf(format, args...), Err: kind}
	}
	room := max(size-f.data, 0)
	order := make([]*arch.TensorInfo, 0, len(f.tensors)) // those with bytes
	for i := range f.tensors {
		t := &f.tensors[i]
		switch {
		case t.Offset&(f.alignment-1) != 0:
			return nil, fail(t, ErrFormat, "offset %d is not a multiple of the alignment %d", t.Offset, f.alignment)
		case t.Offset > math.MaxInt64-f.data, max(t.Bytes, 0) > math.MaxInt64-f.data-t.Offset,
			t.Bytes == 0 && t.Offset > alignUp(room, f.alignment): // padding behind the last byte is optional
			return nil, fail(t, ErrTruncated, "offset %d past end of file (size %d)", t.Offset, size)
		case t.Bytes != 0:
			order = append(order, t)
		}
	}
	// Stable: of two tensors at one offset the earlier in the table owns the bytes.
	slices.SortStableFunc(order, func(a, b *arch.TensorInfo) int { return cmp.Compare(a.Offset, b.Offset) })

	var owner, first *arch.TensorInfo
	furthest := room
	for _, t := range order {
		if owner != nil && t.Offset < end(owner) {
			if t.Offset != owner.Offset || t.Type != owner.Type || t.Bytes != owner.Bytes ||
				t.Bytes < 0 && t.Shape != owner.Shape {
				return nil, fail(owner, ErrFormat, "needs %s, %d are reserved: tensor %s begins at offset %d",
					needed(owner), t.Offset-owner.Offset, quote(t.Name), t.Offset)
			}
			t.AliasOf = owner.Name
			continue
		}
		owner = t
		if end(t) > room && first == nil {
			first = t
		}
		furthest = max(furthest, end(t))
	}
	next, at := room, room
	for _, t := range slices.Backward(order) {
		if t.Offset < at {
			next, at = at, t.Offset
		}
		t.Reserved = max(next-t.Offset, 0)
	}
	if first == nil {
		return nil, nil
	}
	short := furthest - room + max(f.data-size, 0)
	if f.data+first.Offset >= size {
		return fail(first, ErrTruncated, "offset %d past end of file (size %d), which is %d bytes short",
			f.data+first.Offset, size, short), nil
	}
	return fail(first, ErrTruncated, "bytes %d to %d reach past end of file (size %d), which is %d bytes short",
		f.data+first.Offset, f.data+end(first), size, short), nil
}

// end is the first offset behind a tensor with bytes; one of unknown size has at least one.
func end(t *arch.TensorInfo) int64 {
	if t.Bytes < 0 {
		return t.Offset + 1
	}
	return t.Offset + t.Bytes
}

func needed(t *arch.TensorInfo) string {
	if t.Bytes < 0 {
		return "an unknown number of bytes"
	}
	return fmt.Sprintf("%d bytes", t.Bytes)
}
