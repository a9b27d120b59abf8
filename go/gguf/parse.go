package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strings"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/tensor"
)

// What a header may hold. Every count is first held against the bytes that remain; these bound what a
// large hostile file makes a reader allocate. Real files stay below a hundredth of each, but for the
// header's size: vocabularies of 262,144 tokens with merges take up to 20 MiB.
const (
	maxKeys          = 1 << 16
	maxTensors       = 1 << 18
	maxDepth         = 8 // arrays within arrays
	maxAlignment     = 1 << 20
	defaultAlignment = 32
	defaultMaxHeader = 64 << 20
	firstRead        = 64 << 10
)

const (
	keyAlignment   = "general.alignment"
	keySplitNo     = "split.no"
	keySplitCount  = "split.count"
	keySplitTotal  = "split.tensors.count"
	oldestVersion  = 1
	newestVersion  = 3
	supportedTexts = "GGUF versions 1 to 3 are supported"
)

// parsed is what the header of one file says.
type parsed struct {
	version   uint32
	order     binary.ByteOrder
	alignment int64
	end       int64 // of the header
	data      int64 // start of the tensor data: end, aligned
	keys      []string
	values    map[string]*value
	tensors   []arch.TensorInfo
	index     map[string]int
	truncated error // the payload reaches past the end of the file
}

// parser reads a header through a window that starts at byte 0 of the file and grows by doubling, so
// that a header of n bytes takes about log n reads. The first error is kept in err, and later reads
// return zeros; loops over counts of the file end when it is set.
type parser struct {
	r     io.ReaderAt
	size  int64
	limit int64
	name  string

	buf   []byte
	pos   int
	big   bool
	count int // bytes of a count or length
	err   *Error
}

// fail keeps the first error, met at the current position.
func (p *parser) fail(kind error, field, tensor, format string, args ...any) {
	if p.err == nil {
		p.err = &Error{File: p.name, Offset: int64(p.pos), Field: field, Tensor: tensor,
			Reason: fmt.Sprintf(format, args...), Err: kind}
	}
}

func (p *parser) remain() uint64 { return uint64(p.size - int64(p.pos)) }

// need makes the next n bytes available, or fails.
func (p *parser) need(n uint64, field, tensor string) bool {
	if p.err != nil {
		return false
	}
	if n <= uint64(len(p.buf)-p.pos) {
		return true
	}
	if n > p.remain() {
		p.fail(ErrTruncated, field, tensor, "needs %d bytes, %d remain in the file", n, p.remain())
		return false
	}
	end := int64(p.pos) + int64(n)
	if end > p.limit {
		p.fail(ErrLimit, field, tensor, "header is larger than the limit of %d bytes", p.limit)
		return false
	}
	grown := make([]byte, min(max(end, 2*int64(len(p.buf)), firstRead), p.size, p.limit))
	have := copy(grown, p.buf)
	if got, err := p.r.ReadAt(grown[have:], int64(have)); got < len(grown)-have {
		if err == nil || errors.Is(err, io.EOF) {
			p.fail(ErrTruncated, field, tensor, "the file ends at byte %d, but its given size is %d", have+got, p.size)
		} else {
			p.fail(err, field, tensor, "%v", err)
		}
		return false
	}
	p.buf = grown
	return true
}

// uint reads a number of width bytes.
func (p *parser) uint(width int, field, tensor string) uint64 {
	if !p.need(uint64(width), field, tensor) {
		return 0
	}
	v := decode(p.buf[p.pos:p.pos+width], p.big)
	p.pos += width
	return v
}

// counted reads a count of things that take at least size bytes each, which the rest of the file must
// be able to hold.
func (p *parser) counted(size int, field, tensor string) uint64 {
	start := p.pos
	n := p.uint(p.count, field, tensor)
	if n > p.remain()/uint64(size) {
		p.pos = start
		p.fail(ErrTruncated, field, tensor, "%d times at least %d bytes, %d remain in the file",
			n, size, p.remain()-uint64(p.count))
		return 0
	}
	return n
}

// str reads a length and that many bytes, as they are: no encoding is required.
func (p *parser) str(field, tensor string) []byte {
	n := p.counted(1, field, tensor)
	if !p.need(n, field, tensor) {
		return nil
	}
	s := p.buf[p.pos : p.pos+int(n)]
	p.pos += int(n)
	return s
}

// value steps over a value of kind k, checking all of it; depth counts the arrays around it.
func (p *parser) value(k arch.Kind, key string, depth int) {
	switch k {
	case arch.String:
		p.str(key, "")
	case arch.Array:
		p.array(key, depth+1)
	case arch.Bool:
		p.bools(1, key)
	default:
		if !k.Valid() {
			p.pos -= 4 // the kind was read just before
			p.fail(ErrFormat, key, "", "value of unknown kind %d", uint32(k))
			return
		}
		if p.need(uint64(k.Size()), key, "") {
			p.pos += k.Size()
		}
	}
}

func (p *parser) array(key string, depth int) {
	if depth > maxDepth {
		p.fail(ErrFormat, key, "", "arrays nested more than %d deep", maxDepth)
		return
	}
	elem := arch.Kind(p.uint(4, key, ""))
	if p.err == nil && !elem.Valid() {
		p.pos -= 4
		p.fail(ErrFormat, key, "", "array of unknown kind %d", uint32(elem))
	}
	minSize := elem.Size()
	switch elem {
	case arch.String:
		minSize = p.count
	case arch.Array:
		minSize = 4 + p.count
	}
	n := p.counted(max(minSize, 1), key, "")
	switch size := elem.Size(); {
	case p.err != nil:
	case elem == arch.Bool:
		p.bools(n, key)
	case size > 0:
		if p.need(n*uint64(size), key, "") {
			p.pos += int(n) * size
		}
	default:
		for ; n > 0 && p.err == nil; n-- {
			if elem == arch.String {
				n -= p.skipStrings(n - 1)
			}
			p.value(elem, key, depth)
		}
	}
}

// skipStrings steps over at most n texts that lie in the window, and tells how many: most of the time
// that opening a file takes is spent on its vocabulary.
func (p *parser) skipStrings(n uint64) (skipped uint64) {
	if p.big || p.count != 8 {
		return 0
	}
	for ; skipped < n && len(p.buf)-p.pos >= 8; skipped++ {
		length := binary.LittleEndian.Uint64(p.buf[p.pos:])
		if length > uint64(len(p.buf)-p.pos-8) {
			break
		}
		p.pos += 8 + int(length)
	}
	return skipped
}

// bools steps over n booleans, each a byte of 0 or 1.
func (p *parser) bools(n uint64, key string) {
	if !p.need(n, key, "") {
		return
	}
	for end := p.pos + int(n); p.pos < end; p.pos++ {
		if v := p.buf[p.pos]; v > 1 {
			p.fail(ErrFormat, key, "", "boolean of value %d", v)
			return
		}
	}
}

// parse reads and checks everything that a file says before its payload, in limit bytes at most. cut accepts a file whose
// payload ends too early.
func parse(r io.ReaderAt, size int64, name string, limit int64, cut bool) (*parsed, error) {
	p := &parser{r: r, size: size, limit: limit, name: name, count: 8}
	f := &parsed{values: map[string]*value{}}
	p.preamble(f)
	tensors := p.counted(p.count+1+4+4+8, "n_tensors", "") // a name of one byte, rank, type, offset
	keys := p.counted(p.count+1+4+1, "n_kv", "")           // a key of one byte, kind, a value of one byte
	if tensors > maxTensors {
		p.fail(ErrLimit, "n_tensors", "", "%d tensors, the maximum is %d", tensors, maxTensors)
	}
	if keys > maxKeys {
		p.fail(ErrLimit, "n_kv", "", "%d metadata keys, the maximum is %d", keys, maxKeys)
	}
	spans := p.metadata(f, keys)
	if p.err != nil {
		return nil, p.err
	}
	p.tensors(f, tensors)
	if p.err != nil {
		return nil, p.err
	}

	h := &header{text: string(p.buf[:p.pos]), big: p.big, count: p.count}
	p.buf = nil
	for i, key := range f.keys {
		f.values[key] = h.value(spans[i].kind, spans[i].off)
	}
	var err error
	if f.alignment, err = alignment(f, p.name); err != nil {
		return nil, err
	}
	f.end = int64(p.pos)
	f.data = alignUp(f.end, f.alignment)
	f.truncated, err = place(f, size, p.name)
	if err == nil && f.truncated != nil && !cut {
		err = f.truncated
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// preamble reads the magic and the version, from which the byte order and the width of counts follow.
func (p *parser) preamble(f *parsed) {
	const magic = "GGUF"
	n := uint64(min(p.size, int64(len(magic))))
	if !p.need(n, "magic", "") {
		return
	}
	if got := string(p.buf[:n]); !strings.HasPrefix(magic, got) {
		shown := p.buf[:min(len(p.buf), 24)]
		what := ""
		for _, c := range otherContainers {
			if strings.HasPrefix(string(shown), c.prefix) {
				what = " (" + c.name + ")"
			}
		}
		// A length of less than 4 GiB, then JSON.
		if len(shown) > 8 && string(shown[4:9]) == "\x00\x00\x00\x00{" {
			what = " (possibly safetensors)"
		}
		p.fail(ErrFormat, "magic", "", "file begins with %q%s; %s", shown, what, supportedTexts)
		return
	}
	if !p.need(uint64(len(magic)), "magic", "") {
		return
	}
	p.pos = len(magic)
	v := uint32(p.uint(4, "version", ""))
	if swapped := bits.ReverseBytes32(v); v&0xffff == 0 && v != 0 {
		p.big, v = true, swapped
	}
	if p.err == nil && (v < oldestVersion || v > newestVersion) {
		p.pos -= 4
		p.fail(ErrUnsupported, "version", "", "GGUF version %d; %s", v, supportedTexts)
	}
	f.version, f.order = v, binary.LittleEndian
	if p.big {
		f.order = binary.BigEndian
	}
	if v == 1 {
		p.count = 4
	}
}

// otherContainers are what people pass for GGUF files, told apart by their first bytes. Magics of the
// formats before GGUF are numbers, spelled in either order.
var otherContainers = []struct{ prefix, name string }{
	{"FUGG", "the reversed GGUF magic, which is invalid in either byte order"},
	{"lmgg", oldModel}, {"fmgg", oldModel}, {"tjgg", oldModel}, {"algg", oldAdapter},
	{"ggml", oldModel}, {"ggmf", oldModel}, {"ggjt", oldModel}, {"ggla", oldAdapter},
	{"PK\x03\x04", "a zip archive, possibly a PyTorch checkpoint"},
	{"version https://git-lfs", "a git-lfs pointer: fetch the file itself with git lfs pull"},
	{"<", "HTML or XML: a web page was downloaded instead of the file"},
}

const (
	oldModel   = "a GGML model, the format before GGUF"
	oldAdapter = "a GGML adapter, the format before GGUF"
)

// span is where a value stands, before the header is a string.
type span struct {
	kind arch.Kind
	off  int
}

func (p *parser) metadata(f *parsed, n uint64) []span {
	if p.err != nil {
		return nil
	}
	spans := make([]span, 0, n)
	f.keys = make([]string, 0, n)
	for i := uint64(0); i < n; i++ {
		start := p.pos
		key := string(p.str("metadata key", ""))
		if p.err != nil {
			return nil
		}
		if _, again := f.values[key]; again {
			p.pos = start
			p.fail(ErrFormat, key, "", "metadata key occurs twice")
		} else if key == "" {
			p.pos = start
			p.fail(ErrFormat, "metadata key", "", "key %d is empty", i)
		}
		s := span{kind: arch.Kind(p.uint(4, key, "")), off: p.pos}
		p.value(s.kind, key, 0)
		if p.err != nil {
			return nil
		}
		spans = append(spans, s)
		f.keys = append(f.keys, key)
		f.values[key] = nil // holds the place until the header is complete
	}
	return spans
}

func (p *parser) tensors(f *parsed, n uint64) {
	f.tensors = make([]arch.TensorInfo, 0, n)
	f.index = make(map[string]int, n)
	for i := uint64(0); i < n; i++ {
		start := p.pos
		t := arch.TensorInfo{Name: string(p.str("tensor name", ""))}
		first, again := f.index[t.Name]
		switch {
		case p.err != nil:
		case t.Name == "":
			p.pos = start
			p.fail(ErrFormat, "tensor name", "", "tensor %d has an empty name", i)
		case again:
			p.pos = start
			p.fail(ErrFormat, "", t.Name, "name occurs twice: tensors %d and %d", first, i)
		}
		if p.info(&t); p.err != nil {
			return
		}
		f.index[t.Name] = len(f.tensors)
		f.tensors = append(f.tensors, t)
	}
}

// info reads what follows a tensor's name, and works out its bytes.
func (p *parser) info(t *arch.TensorInfo) {
	rank := p.uint(4, "n_dims", t.Name)
	if rank > tensor.MaxRank {
		p.pos -= 4
		p.fail(ErrFormat, "n_dims", t.Name, "%d dimensions, the maximum is %d", rank, tensor.MaxRank)
	}
	if p.err != nil {
		return
	}
	t.Shape.Rank = uint8(rank)
	row, elements, extent := int64(1), int64(1), int64(1) // extent: the product of all that are not zero
	for i := range int(rank) {
		d := p.uint(p.count, "dims", t.Name)
		if p.err != nil {
			return
		}
		var ok bool
		if d > math.MaxInt64 {
			ok = false
		} else {
			extent, ok = mul(extent, max(int64(d), 1))
		}
		if !ok {
			p.pos -= p.count
			p.fail(ErrFormat, "dims", t.Name, "dimension %d of %d: more than 2⁶³ elements", i, d)
			return
		}
		elements *= int64(d) // no larger than extent
		t.Shape.Dims[int(rank)-1-i] = int64(d)
		if i == 0 {
			row = int64(d)
		}
	}
	t.Type = uint32(p.uint(4, "type", t.Name))
	enc, known := tensor.EncodingInfo{}, false
	if t.Encoding = arch.UnknownEncoding; t.Type < 256 { // ids from 256 on are those of forms in memory
		t.Encoding = tensor.Encoding(t.Type)
		enc, known = t.Encoding.Info()
	}
	switch {
	case elements == 0:
	case !known || enc.BlockElements == 0:
		t.Bytes = -1
	case row%int64(enc.BlockElements) != 0:
		p.pos -= 4
		p.fail(ErrFormat, "dims", t.Name, "row of %d elements is not a multiple of %s's block of %d",
			row, enc.Name, enc.BlockElements)
		return
	}
	if known && enc.BlockElements > 0 {
		total, ok := mul((extent-1)/int64(enc.BlockElements)+1, int64(enc.BlockBytes))
		if !ok {
			p.pos -= 4
			p.fail(ErrFormat, "dims", t.Name, "%s elements of %s take more than 2⁶³ bytes", t.Shape, enc.Name)
			return
		}
		if elements > 0 {
			t.Bytes = total
		}
	}
	offset := p.uint(8, "offset", t.Name)
	if p.err == nil && offset > math.MaxInt64 {
		p.pos -= 8
		p.fail(ErrTruncated, "", t.Name, "offset %d past end of file (size %d)", offset, p.size)
	}
	t.Offset = int64(offset)
}

// alignment is the value of general.alignment, or the default.
func alignment(f *parsed, name string) (int64, error) {
	v, ok := f.values[keyAlignment]
	if !ok {
		return defaultAlignment, nil
	}
	e := &Error{File: name, Offset: int64(v.off), Field: keyAlignment, Err: ErrFormat}
	bits, signed, ok := v.integer()
	switch {
	case !ok:
		e.Reason = fmt.Sprintf("value is a %s, not an integer (u8 to u64, i8 to i64)", v.kind)
	case signed && int64(bits) < 0:
		e.Reason = fmt.Sprintf("%d is not a power of two from 1 to %d", int64(bits), maxAlignment)
	case bits == 0 || bits&(bits-1) != 0 || bits > maxAlignment:
		e.Reason = fmt.Sprintf("%d is not a power of two from 1 to %d", bits, maxAlignment)
	default:
		return int64(bits), nil
	}
	return 0, e
}

// alignUp rounds up to a multiple of a power of two; neither is near the largest number.
func alignUp(n, alignment int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }

// mul multiplies two numbers ≥ 0; ok is false when the product does not fit.
func mul(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(lo), hi == 0 && lo <= math.MaxInt64
}
