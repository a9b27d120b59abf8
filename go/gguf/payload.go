package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/tensor"
)

// Extent is where a tensor's payload lies.
type Extent struct {
	Part   int   // index into File.Parts
	Offset int64 // from the start of that part's file
	Bytes  int64
}

// Extent returns where the payload of a tensor is stored. It is an *Error if there is no such tensor, if the size of
// its type is unknown, or if the file is too short for it.
func (f *File) Extent(name string) (Extent, error) {
	e, _, err := f.extent(name)
	return e, err
}

func (f *File) extent(name string) (Extent, *arch.TensorInfo, error) {
	i, ok := f.index[name]
	if !ok {
		return Extent{}, nil, f.tensorError(name, ErrNotFound, "no such tensor")
	}
	t := &f.tensors[i]
	part := &f.parts[t.File]
	switch {
	case t.Bytes < 0:
		reason := "type %d (%s) is unknown: the tensor cannot be read"
		if info, known := t.Encoding.Info(); known && info.Retired {
			reason = "type %d (%s) is retired: the tensor cannot be read"
		}
		return Extent{}, nil, f.tensorError(name, ErrUnsupported, reason, t.Type, t.TypeName())
	case t.Bytes > 0 && t.Bytes > part.Size-part.DataOffset-t.Offset:
		return Extent{}, nil, f.tensorError(name, ErrTruncated, "bytes %d to %d reach past end of file (size %d)",
			part.DataOffset+t.Offset, part.DataOffset+t.Offset+t.Bytes, part.Size)
	}
	return Extent{Part: t.File, Offset: part.DataOffset + t.Offset, Bytes: t.Bytes}, t, nil
}

func (f *File) tensorError(name string, kind error, format string, args ...any) error {
	file := f.name
	if i, ok := f.index[name]; ok && len(f.parts) > 1 {
		file = f.parts[f.tensors[i].File].Path
	}
	return &Error{File: file, Offset: -1, Tensor: name, Reason: fmt.Sprintf(format, args...), Err: kind}
}

// Payload reads a tensor's bytes in little-endian order. It is safe for concurrent use.
type Payload struct {
	f    *File
	name string
	r    io.ReaderAt
	at   Extent
	swap swapping
}

// Payload opens a tensor for reading. Errors are those of Extent. A packed type whose big-endian byte order is
// undefined is an error too, in a big-endian file.
func (f *File) Payload(name string) (*Payload, error) {
	at, t, err := f.extent(name)
	if err != nil {
		return nil, err
	}
	p := &Payload{f: f, name: name, r: f.parts[at.Part].r, at: at}
	if f.order != binary.BigEndian || at.Bytes == 0 {
		return p, nil
	}
	var ok bool
	if p.swap, ok = swappingOf(t.Encoding); !ok {
		return nil, f.tensorError(name, ErrUnsupported, "big-endian %s: the byte order of its blocks is undefined", t.Encoding)
	}
	return p, nil
}

// Size is the number of bytes.
func (p *Payload) Size() int64 { return p.at.Bytes }

// ReadAt implements io.ReaderAt; offset 0 is the tensor's first byte. Errors other than io.EOF name the tensor. If the
// file has changed since its header was read, the error wraps ErrChanged.
func (p *Payload) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, p.f.tensorError(p.name, fs.ErrInvalid, "read at negative offset %d", off)
	}
	if off >= p.at.Bytes {
		return 0, io.EOF
	}
	var eof error
	if rest := p.at.Bytes - off; int64(len(b)) > rest {
		b, eof = b[:rest], io.EOF
	}
	n, err := p.read(b, off)
	short := errors.Is(err, io.ErrUnexpectedEOF)
	if err == nil || short {
		if changed := p.f.parts[p.at.Part].Verify(); errors.Is(changed, ErrChanged) {
			kind := ErrChanged
			if short {
				kind = errors.Join(ErrChanged, ErrTruncated)
			}
			return n, p.f.tensorError(p.name, kind, "%s", changed.(*Error).Reason)
		}
	}
	if err == nil {
		return n, eof
	}
	if short {
		return n, p.f.tensorError(p.name, ErrTruncated, "the file was truncated: it ends at byte %d", p.at.Offset+off+int64(n))
	}
	return n, p.f.tensorError(p.name, err, "%v", err)
}

// read fills b, which lies within the tensor.
func (p *Payload) read(b []byte, off int64) (int, error) {
	unit := int64(p.swap.unit)
	if unit == 0 || len(b) == 0 {
		return readFull(p.r, b, p.at.Offset+off)
	}
	// Whole blocks are converted in a buffer, of which b gets its share.
	const bufferBytes = 64 << 10
	first, last := off/unit, (off+int64(len(b))-1)/unit
	buf := make([]byte, min(last-first+1, bufferBytes/unit)*unit)
	done := 0
	for done < len(b) {
		start := (off + int64(done)) / unit * unit
		chunk := buf[:min(int64(len(buf)), p.at.Bytes-start)]
		if _, err := readFull(p.r, chunk, p.at.Offset+start); err != nil {
			return done, err
		}
		reverse(chunk, p.swap.unit, p.swap.words)
		done += copy(b[done:], chunk[off+int64(done)-start:])
	}
	return done, nil
}

// readFull is r.ReadAt without the io.EOF that may come with all bytes; too few are
// io.ErrUnexpectedEOF.
func readFull(r io.ReaderAt, b []byte, off int64) (int, error) {
	n, err := r.ReadAt(b, off)
	switch {
	case n == len(b):
		return n, nil
	case err == nil || errors.Is(err, io.EOF):
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// ReadTensor writes a tensor's bytes to w, in little-endian order. Scratch memory is bounded.
func (f *File) ReadTensor(name string, w io.Writer) error {
	if w == nil {
		return isNil("writer")
	}
	p, err := f.Payload(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, io.NewSectionReader(p, 0, p.Size()))
	return err
}

// words are numbers of several bytes within a block.
type words struct{ offset, width, count int }

// swapping is how payload changes its byte order.
type swapping struct {
	unit  int     // bytes of a block; 0 when bytes are taken as they are
	words []words // of a block, to be reversed
}

// swappingOf is that of an encoding of known size; ok is false when nothing defines it.
func swappingOf(e tensor.Encoding) (s swapping, ok bool) {
	info, _ := e.Info()
	s.unit = info.BlockBytes
	for _, f := range e.Fields() {
		if f.Type == tensor.FieldLE32 {
			return s, false
		}
		for g := range f.Groups {
			if width := f.Type.Bytes(); width > 1 && f.Count > 0 {
				s.words = append(s.words, words{f.Offset + g*f.GroupBytes, width, f.Count})
			}
		}
	}
	return s, s.unit > 0
}

// reverse changes the byte order of all words of the blocks in b.
func reverse(b []byte, unit int, ws []words) {
	for ; len(b) >= unit; b = b[unit:] {
		for _, w := range ws {
			for i := range w.count {
				slices.Reverse(b[w.offset+i*w.width:][:w.width])
			}
		}
	}
}
