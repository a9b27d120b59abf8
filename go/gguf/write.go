package gguf

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/tensor"
)

// ErrPayload says that tensors were written in another order, or with more or fewer bytes, than the header describes.
var ErrPayload = errors.New("payload differs from the header")

// Header describes a file to be written: everything before the payload.
type Header struct {
	Version   int              // 3, or 2; 0 is 3
	ByteOrder binary.ByteOrder // of header and payload; nil is little-endian, and big-endian needs version 3
	Metadata  []Pair           // general.alignment among them sets the alignment
	Tensors   []TensorSpec     // in the order of their payload
}

// Pair is a metadata key and its value. The value comes from another file or from NumberOf, TextOf, NumbersOf, TextsOf
// or ArraysOf.
type Pair struct {
	Key   string
	Value arch.Value
}

// TensorSpec describes a tensor to be written. Rows must be whole blocks; an extent may be zero.
type TensorSpec struct {
	Name     string
	Encoding tensor.Encoding
	Shape    tensor.Shape // rows first
}

// HeaderOf returns the header of f for writing a copy: its metadata without the keys of a split set, its tensors, byte
// order and version (version 1 becomes 3). Tensors that share bytes in f get separate bytes in the copy.
// The header of a nil File is empty.
func HeaderOf(f *File) Header {
	if f == nil {
		return Header{}
	}
	h := Header{Version: max(f.Version(), oldestWritten), ByteOrder: f.order}
	if f.order == binary.BigEndian {
		h.Version = newestVersion
	}
	for _, key := range f.keys {
		if !slices.Contains(splitKeys, key) {
			h.Metadata = append(h.Metadata, Pair{key, f.values[key]})
		}
	}
	for _, t := range f.tensors {
		h.Tensors = append(h.Tensors, TensorSpec{t.Name, t.Encoding, t.Shape})
	}
	return h
}

const oldestWritten = 2

var splitKeys = []string{keySplitNo, keySplitCount, keySplitTotal}

// Set sets the value of a key. It replaces an existing value in place and appends a new key at the end.
func (h *Header) Set(key string, v arch.Value) {
	for i := range h.Metadata {
		if h.Metadata[i].Key == key {
			h.Metadata[i].Value = v
			return
		}
	}
	h.Metadata = append(h.Metadata, Pair{key, v})
}

// plan is a checked header: where everything will stand.
type plan struct {
	version   uint32
	order     binary.AppendByteOrder
	alignment int64
	metadata  []Pair
	tensors   []placed
}

// placed is a tensor with its bytes.
type placed struct {
	TensorSpec
	bytes int64
	swap  swapping
}

// check makes a plan, or says what cannot be written. Errors are *Error.
func (h *Header) check() (*plan, error) {
	fail := func(kind error, field, tensor, format string, args ...any) (*plan, error) {
		return nil, &Error{Offset: -1, Field: field, Tensor: tensor, Reason: fmt.Sprintf(format, args...), Err: kind}
	}
	p := &plan{version: uint32(h.Version), order: binary.LittleEndian, metadata: h.Metadata}
	if p.version == 0 {
		p.version = newestVersion
	}
	if p.version < oldestWritten || p.version > newestVersion {
		return fail(ErrUnsupported, "version", "", "GGUF version %d; only versions %d and %d can be written", h.Version, oldestWritten, newestVersion)
	}
	if big := h.ByteOrder == binary.BigEndian; big {
		p.order = binary.BigEndian
		if p.version != newestVersion {
			return fail(ErrUnsupported, "version", "", "big-endian files need at least version %d", newestVersion)
		}
	} else if h.ByteOrder != nil && h.ByteOrder != binary.LittleEndian {
		return fail(ErrUnsupported, "byte order", "", "%v", h.ByteOrder)
	}
	if len(h.Metadata) > maxKeys {
		return fail(ErrLimit, "n_kv", "", "%d metadata keys, the maximum is %d", len(h.Metadata), maxKeys)
	}
	if len(h.Tensors) > maxTensors {
		return fail(ErrLimit, "n_tensors", "", "%d tensors, the maximum is %d", len(h.Tensors), maxTensors)
	}
	p.alignment = defaultAlignment
	keys := make(map[string]bool, len(h.Metadata))
	for i, kv := range h.Metadata {
		switch {
		case kv.Key == "":
			return fail(ErrFormat, "metadata key", "", "key %d is empty", i)
		case keys[kv.Key]:
			return fail(ErrFormat, kv.Key, "", "metadata key occurs twice")
		}
		keys[kv.Key] = true
		if why := checkValue(kv.Value, 0); why != "" {
			return fail(ErrFormat, kv.Key, "", "%s", why)
		}
		if kv.Key == keyAlignment {
			a, ok := kv.Value.Uint()
			if !ok || a == 0 || a&(a-1) != 0 || a > maxAlignment {
				return fail(ErrFormat, keyAlignment, "", "not a power of two from 1 to %d", maxAlignment)
			}
			p.alignment = int64(a)
		}
	}
	names := make(map[string]int, len(h.Tensors))
	for i, t := range h.Tensors {
		first, again := names[t.Name]
		info, known := t.Encoding.Info()
		switch {
		case t.Name == "":
			return fail(ErrFormat, "tensor name", "", "tensor %d has an empty name", i)
		case again:
			return fail(ErrFormat, "", t.Name, "name occurs twice: tensors %d and %d", first, i)
		case t.Encoding == arch.UnknownEncoding:
			return fail(ErrUnsupported, "", t.Name, "the type is unknown")
		case !known || t.Encoding >= firstInMemory:
			return fail(ErrUnsupported, "", t.Name, "%s is not a GGUF type", t.Encoding)
		case info.Retired:
			return fail(ErrUnsupported, "", t.Name, "%s is retired", t.Encoding)
		}
		names[t.Name] = i
		bytes, err := bytesOf(t)
		if err != nil {
			return nil, &Error{Offset: -1, Tensor: t.Name, Reason: err.Error(), Err: errors.Join(ErrFormat, err)}
		}
		w := placed{TensorSpec: t, bytes: bytes}
		if p.order == binary.BigEndian && bytes > 0 {
			var ok bool
			if w.swap, ok = swappingOf(t.Encoding); !ok {
				return fail(ErrUnsupported, "", t.Name, "big-endian %s: the byte order of its blocks is undefined", t.Encoding)
			}
		}
		p.tensors = append(p.tensors, w)
	}
	return p, nil
}

// bytesOf is the payload of a tensor whose encoding has a size.
func bytesOf(t TensorSpec) (int64, error) {
	full := t.Shape // without the zeros: what readers multiply
	empty := false
	for i := range min(t.Shape.Rank, tensor.MaxRank) {
		if full.Dims[i] == 0 {
			full.Dims[i], empty = 1, true
		}
	}
	if n, err := full.Elements(); err != nil || empty {
		if info, _ := t.Encoding.Info(); n > math.MaxInt64/int64(info.BlockBytes) {
			err = fmt.Errorf("%s elements of %s take more than 2⁶³ bytes", full, t.Encoding)
		}
		return 0, err
	}
	if info, _ := t.Encoding.Info(); info.Activation && t.Shape.Rank > 0 && t.Shape.Dims[t.Shape.Rank-1]%int64(info.BlockElements) != 0 {
		return 0, fmt.Errorf("rows of %s are not whole blocks of %s", t.Shape, t.Encoding)
	}
	return tensor.FormatOf(t.Encoding).Bytes(t.Shape)
}

// firstInMemory is the first id of encodings that no file has.
const firstInMemory = 256

// appendHeader appends the header of a file of these tensors, up to the start of its tensor data.
func (p *plan) appendHeader(b []byte, metadata []Pair, tensors []placed) ([]byte, error) {
	b = append(b, "GGUF"...)
	b = p.order.AppendUint32(b, p.version)
	b = p.order.AppendUint64(b, uint64(len(tensors)))
	b = p.order.AppendUint64(b, uint64(len(metadata)))
	for _, kv := range metadata {
		b = appendText(b, p.order, kv.Key)
		b = p.order.AppendUint32(b, uint32(kv.Value.Kind()))
		b = appendValue(b, p.order, kv.Value)
	}
	offset := int64(0)
	for _, t := range tensors {
		b = appendText(b, p.order, t.Name)
		b = p.order.AppendUint32(b, uint32(t.Shape.Rank))
		for axis := int(t.Shape.Rank) - 1; axis >= 0; axis-- {
			b = p.order.AppendUint64(b, uint64(t.Shape.Dims[axis]))
		}
		b = p.order.AppendUint32(b, uint32(t.Encoding))
		b = p.order.AppendUint64(b, uint64(offset))
		if offset > math.MaxInt64-t.bytes-2*maxAlignment-int64(len(b)) {
			return nil, &Error{Offset: -1, Tensor: t.Name, Reason: "file of more than 2⁶³ bytes", Err: ErrLimit}
		}
		offset = alignUp(offset+t.bytes, p.alignment)
	}
	return append(b, make([]byte, alignUp(int64(len(b)), p.alignment)-int64(len(b)))...), nil
}

// Writer writes a GGUF file or split set sequentially: first the header, then the payload of one tensor after another,
// each in any number of writes. It buffers little. It cannot be used after an error. It is not safe for concurrent use.
type Writer struct {
	plan  *plan
	files []file
	open  func(i int) (io.Writer, error) // of file i

	at     int // the file that is being written; -1 before the first
	out    *bufio.Writer
	tensor int   // that payload goes to; -1 before the first
	left   int64 // bytes that it lacks
	part   []byte
	err    error
}

// file is one file of the output: some tensors, up to but without end.
type file struct {
	metadata   []Pair
	first, end int
}

// NewWriter checks a header and writes it to w. Writer.Close completes the file; the caller keeps ownership of w.
// Errors are *Error or those of w.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	if w == nil {
		return nil, isNil("writer")
	}
	p, err := h.check()
	if err != nil {
		return nil, err
	}
	return newWriter(p, []file{{p.metadata, 0, len(p.tensors)}}, func(int) (io.Writer, error) { return w, nil })
}

func newWriter(p *plan, files []file, open func(int) (io.Writer, error)) (*Writer, error) {
	w := &Writer{plan: p, files: files, open: open, at: -1, tensor: -1}
	return w, w.nextFile()
}

// keep keeps the first error.
func (w *Writer) keep(err error) error {
	if w.err == nil {
		w.err = err
	}
	return w.err
}

func (w *Writer) fail(kind error, tensor, format string, args ...any) error {
	return w.keep(&Error{Offset: -1, Tensor: tensor, Reason: fmt.Sprintf(format, args...), Err: kind})
}

// nextFile begins the next file with its header.
func (w *Writer) nextFile() error {
	if w.out != nil {
		if err := w.out.Flush(); err != nil {
			return w.keep(err)
		}
	}
	w.at++
	f := w.files[w.at]
	b, err := w.plan.appendHeader(nil, f.metadata, w.plan.tensors[f.first:f.end])
	if err != nil {
		return w.keep(err)
	}
	out, err := w.open(w.at)
	if err != nil {
		return w.keep(err)
	}
	w.out = bufio.NewWriterSize(out, 1<<16)
	if _, err := w.out.Write(b); err != nil {
		return w.keep(err)
	}
	return nil
}

// finish ends the tensor that is being written, which must be whole, with the padding behind it.
func (w *Writer) finish() error {
	if w.plan == nil {
		return w.fail(ErrPayload, "", "the zero Writer describes no file")
	}
	if w.err != nil || w.tensor < 0 {
		return w.err
	}
	t := &w.plan.tensors[w.tensor]
	if w.left > 0 {
		return w.fail(ErrPayload, t.Name, "%d bytes written, %d missing", t.bytes-w.left, w.left)
	}
	if _, err := w.out.Write(make([]byte, alignUp(t.bytes, w.plan.alignment)-t.bytes)); err != nil {
		return w.keep(err)
	}
	return nil
}

// Tensor begins the payload of the next tensor. name must be the next tensor of the header. The result takes the
// tensor's bytes in little-endian order; it is valid until the next call of Tensor. If the previous tensor is
// incomplete, or name is not the next tensor, the error is ErrPayload.
func (w *Writer) Tensor(name string) (io.Writer, error) {
	if err := w.finish(); err != nil {
		return nil, err
	}
	next := w.tensor + 1
	if next == len(w.plan.tensors) {
		return nil, w.fail(ErrPayload, name, "all %d tensors have been written already", next)
	}
	t := &w.plan.tensors[next]
	if t.Name != name {
		return nil, w.fail(ErrPayload, name, "the next tensor is %s", quote(t.Name))
	}
	for next >= w.files[w.at].end {
		if err := w.nextFile(); err != nil {
			return nil, err
		}
	}
	w.tensor, w.left = next, t.bytes
	return &payloadWriter{w, next}, nil
}

// Close completes the file. It does not close the underlying writer. If tensors are missing, the error is ErrPayload.
func (w *Writer) Close() error {
	if err := w.finish(); err != nil {
		return err
	}
	if next := w.tensor + 1; next < len(w.plan.tensors) {
		return w.fail(ErrPayload, w.plan.tensors[next].Name, "not written, and %d more", len(w.plan.tensors)-next-1)
	}
	if err := w.out.Flush(); err != nil {
		return w.keep(err)
	}
	w.err = errClosed
	return nil
}

var errClosed = &Error{Offset: -1, Reason: "the writer is closed", Err: ErrPayload}

// CopyFrom writes all remaining tensors with the payload of the tensors of f of the same names, which must have the
// same types and sizes. Canceling ctx ends it.
func (w *Writer) CopyFrom(ctx context.Context, f *File) error {
	if w.plan == nil {
		return w.finish()
	}
	if err := copies(ctx, f); err != nil {
		return err
	}
	for _, t := range w.plan.tensors[w.tensor+1:] {
		p, err := f.Payload(t.Name)
		if err != nil {
			return w.keep(err)
		}
		if src, _ := f.Tensor(t.Name); src.Encoding != t.Encoding || p.Size() != t.bytes {
			return w.fail(ErrPayload, t.Name, "the source has %s of %d bytes, the header describes %s of %d", src.Encoding, p.Size(), t.Encoding, t.bytes)
		}
		out, err := w.Tensor(t.Name)
		if err != nil {
			return err
		}
		if _, err := io.Copy(out, &contextReader{ctx, io.NewSectionReader(p, 0, p.Size())}); err != nil {
			return w.keep(err)
		}
	}
	return nil
}

// copies refuses a copy that ctx or f is missing for.
func copies(ctx context.Context, f *File) error {
	if ctx == nil {
		return isNil("context")
	}
	if f == nil {
		return isNil("source")
	}
	return nil
}

// contextReader is a reader that fails when ctx ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *contextReader) Read(b []byte) (int, error) {
	if err := ended.Err(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// payloadWriter takes the bytes of one tensor.
type payloadWriter struct {
	w      *Writer
	tensor int
}

func (p *payloadWriter) Write(b []byte) (int, error) {
	w := p.w
	switch t := &w.plan.tensors[p.tensor]; {
	case w.err != nil:
		return 0, w.err
	case w.tensor != p.tensor:
		return 0, w.fail(ErrPayload, t.Name, "write after tensor %s was begun", quote(w.plan.tensors[w.tensor].Name))
	case int64(len(b)) > w.left:
		return 0, w.fail(ErrPayload, t.Name, "%d bytes more than its size of %d", int64(len(b))-w.left, t.bytes)
	}
	w.left -= int64(len(b))
	if err := w.write(b, w.plan.tensors[p.tensor].swap); err != nil {
		return 0, w.keep(err)
	}
	return len(b), nil
}

// write writes payload in the file's byte order. Blocks are converted whole: part keeps what was given of
// one so far, and is empty between tensors, which are whole blocks.
func (w *Writer) write(b []byte, s swapping) error {
	if s.unit == 0 {
		_, err := w.out.Write(b)
		return err
	}
	const bufferBytes = 64 << 10
	for len(b) > 0 {
		n := min(len(b), bufferBytes/s.unit*s.unit-len(w.part))
		w.part = append(w.part, b[:n]...)
		b = b[n:]
		whole := len(w.part) / s.unit * s.unit
		reverse(w.part[:whole], s.unit, s.words)
		if _, err := w.out.Write(w.part[:whole]); err != nil {
			return err
		}
		w.part = append(w.part[:0], w.part[whole:]...)
	}
	return nil
}
