package gguf

import (
	"context"
	"fmt"
	"math"
)

// Merge writes f, a file or split set, as a single file at path, as WriteFile does. If path is a part of f, the error
// is ErrInUse. Canceling ctx ends it.
func Merge(ctx context.Context, f *File, path string) error {
	if err := copies(ctx, f); err != nil {
		return err
	}
	h := HeaderOf(f)
	p, err := h.check()
	if err != nil {
		return err
	}
	return writeFiles(p, []file{{p.metadata, 0, len(p.tensors)}}, []string{path}, f, func(w *Writer) error { return w.CopyFrom(ctx, f) })
}

// Split writes f as a split set whose paths begin with prefix, as WriteSplit does. If a path is a part of f, the error
// is ErrInUse. Canceling ctx ends it.
func Split(ctx context.Context, f *File, prefix string, limits PartLimits) (paths []string, err error) {
	if err := copies(ctx, f); err != nil {
		return nil, err
	}
	return writeSplit(prefix, HeaderOf(f), limits, f, func(w *Writer) error { return w.CopyFrom(ctx, f) })
}

// PartLimits limits the size of the parts of a split set; 0 means no limit. Every part has at least one tensor, even if
// that exceeds Bytes.
type PartLimits struct {
	Bytes   int64 // of one file
	Tensors int
}

// WriteSplit is WriteFile for a split set, whose files are named PREFIX-00001-of-00003.gguf and so on. The first file
// holds the metadata, to which the keys of the split set are added. write is the same as for a single file. A set may
// have only one part. It returns the paths. If anything fails, all existing files of these names stay.
func WriteSplit(prefix string, h Header, limits PartLimits, write func(w *Writer) error) (paths []string, err error) {
	return writeSplit(prefix, h, limits, nil, write)
}

func writeSplit(prefix string, h Header, limits PartLimits, source *File, write func(w *Writer) error) (paths []string, err error) {
	p, err := h.check()
	if err != nil {
		return nil, err
	}
	files, err := p.divide(limits)
	if err != nil {
		return nil, err
	}
	for i := range files {
		paths = append(paths, partPath(prefix, i+1, len(files)))
	}
	if err := writeFiles(p, files, paths, source, write); err != nil {
		return nil, err
	}
	return paths, nil
}

// divide assigns the tensors to files, as many to each as fit.
func (p *plan) divide(limits PartLimits) ([]file, error) {
	if limits.Bytes < 0 || limits.Tensors < 0 {
		return nil, &Error{Offset: -1, Reason: fmt.Sprintf("part limits of %d bytes and %d tensors must not be negative", limits.Bytes, limits.Tensors), Err: ErrLimit}
	}
	bytes, tensors := limits.Bytes, limits.Tensors
	if bytes == 0 {
		bytes = math.MaxInt64
	}
	if tensors == 0 {
		tensors = math.MaxInt
	}
	head := func(no int) []Pair { // the numbers of parts and tensors take the same room whatever they are
		h := Header{}
		if no == 0 {
			h.Metadata = append(h.Metadata, p.metadata...)
		} else if p.alignment != defaultAlignment {
			h.Set(keyAlignment, NumberOf(uint32(p.alignment)))
		}
		h.Set(keySplitNo, NumberOf(uint16(no)))
		h.Set(keySplitCount, NumberOf(uint16(0)))
		h.Set(keySplitTotal, NumberOf(int32(len(p.tensors))))
		return h.Metadata
	}
	files := []file{{metadata: head(0)}}
	var header, data int64 // bytes of the file: of its header, unaligned, and of its tensors
	var err error
	if header, err = p.headerBytes(files[0].metadata); err != nil {
		return nil, err
	}
	for i, t := range p.tensors {
		last := &files[len(files)-1]
		info := int64(8 + len(t.Name) + 4 + 8*int(t.Shape.Rank) + 4 + 8)
		full, padded := alignUp(header+info, p.alignment), alignUp(t.bytes, p.alignment)
		if n := i - last.first; n > 0 && (n == tensors || full > bytes-data || padded > bytes-data-full) {
			files = append(files, file{head(len(files)), i, i})
			last = &files[len(files)-1]
			if header, err = p.headerBytes(last.metadata); err != nil {
				return nil, err
			}
			data = 0
		}
		header, data = header+info, data+padded
		last.end = i + 1
	}
	if len(files) > math.MaxUint16 {
		return nil, &Error{Offset: -1, Reason: fmt.Sprintf("%d parts, the maximum is %d", len(files), math.MaxUint16), Err: ErrLimit}
	}
	for i := range files {
		(&Header{Metadata: files[i].metadata}).Set(keySplitCount, NumberOf(uint16(len(files))))
	}
	return files, nil
}

// headerBytes is the size of a header without tensors, unaligned.
func (p *plan) headerBytes(metadata []Pair) (int64, error) {
	unaligned := *p
	unaligned.alignment = 1
	b, err := unaligned.appendHeader(nil, metadata, nil)
	return int64(len(b)), err
}
