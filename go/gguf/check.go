package gguf

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/tensor"
)

// Finding is suspicious data in a tensor's payload: a valid model rarely has it.
type Finding struct {
	Tensor string
	Kind   FindingKind
	Row    int64 // of the first place, counted over all outer axes
	Block  int64 // of the first place within its row; the element when the type is dense
	Count  int64 // places in the tensor
}

// FindingKind is the kind of a finding.
type FindingKind uint8

// The kinds of findings.
const (
	NotFinite FindingKind = iota // a scale or a dense element is NaN or infinite, and so will be results
	ZeroBlock                    // all bytes of a block are zero: an incomplete download, or unused weights
)

// String describes the finding.
func (f Finding) String() string {
	what := "blocks whose scale is not finite"
	if f.Kind == ZeroBlock {
		what = "blocks of zero bytes"
	}
	return fmt.Sprintf("tensor %s: %d %s, the first is block %d of row %d", quote(f.Tensor), f.Count, what, f.Block, f.Row)
}

// Check reads a tensor's payload and looks for suspicious data. For each kind of finding it returns the first place and
// the count. A tensor without findings may still be damaged, since the codes in blocks cannot be checked. Scratch
// memory is bounded. Errors are those of Payload, of reading, and of ctx.
func (f *File) Check(ctx context.Context, name string) ([]Finding, error) {
	if ctx == nil {
		return nil, isNil("context")
	}
	p, err := f.Payload(name)
	if err != nil {
		return nil, err
	}
	t := f.tensors[f.index[name]]
	info, _ := t.Encoding.Info()
	finite := finite(t.Encoding)
	packed := info.BlockElements > 1
	if p.Size() == 0 || finite == nil && !packed {
		return nil, nil
	}
	row := int64(1)
	if t.Shape.Rank > 0 {
		row = t.Shape.Dims[t.Shape.Rank-1] / int64(info.BlockElements)
	}
	found := [...]Finding{{Kind: NotFinite}, {Kind: ZeroBlock}}
	note := func(k FindingKind, block int64) {
		if found[k].Count++; found[k].Count == 1 {
			found[k].Row, found[k].Block = block/row, block%row
		}
	}
	const chunkBlocks = 4096
	buf := make([]byte, min(p.Size(), chunkBlocks*int64(info.BlockBytes)))
	for off, block := int64(0), int64(0); off < p.Size(); off += int64(len(buf)) {
		if err := ended.Err(ctx); err != nil {
			return nil, err
		}
		buf = buf[:min(int64(len(buf)), p.Size()-off)]
		if _, err := p.ReadAt(buf, off); err != nil && err != io.EOF {
			return nil, err
		}
		for b := buf; len(b) > 0; b, block = b[info.BlockBytes:], block+1 {
			b := b[:info.BlockBytes]
			if finite != nil && !finite(b) {
				note(NotFinite, block)
			}
			if packed && zero(b) {
				note(ZeroBlock, block)
			}
		}
	}
	var all []Finding
	for _, x := range found {
		if x.Count > 0 {
			x.Tensor = name
			all = append(all, x)
		}
	}
	return all, nil
}

func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// exponents are the bits of a scale that are all ones in NaN and infinity, by its type; scales of a byte are always finite.
var exponents = map[tensor.FieldType]uint64{
	tensor.FieldF16: 0x7c00, tensor.FieldBF16: 0x7f80, tensor.FieldF32: 0x7f800000, tensor.FieldF64: 0x7ff << 52,
}

// finite is the test of one block, or of an element of a dense type. nil when all bytes are finite.
func finite(e tensor.Encoding) func(b []byte) bool {
	type scale struct {
		at, bytes int
		parts     []tensor.BitRange // instead, of one that is spread
		exponent  uint64
	}
	var scales []scale
	for _, f := range e.Fields() {
		exponent := exponents[f.Type]
		if !f.Scale || exponent == 0 {
			continue
		}
		if f.Parts != nil {
			scales = append(scales, scale{parts: f.Parts, exponent: exponent})
		}
		for g := range f.Groups {
			for i := range f.Count {
				scales = append(scales, scale{at: f.Offset + g*f.GroupBytes + i*f.Type.Bytes(), bytes: f.Type.Bytes(), exponent: exponent})
			}
		}
	}
	if scales == nil {
		return nil
	}
	return func(b []byte) bool {
		for i := range scales {
			s := &scales[i]
			var v uint64
			switch s.bytes {
			case 2:
				v = uint64(binary.LittleEndian.Uint16(b[s.at:]))
			case 4:
				v = uint64(binary.LittleEndian.Uint32(b[s.at:]))
			case 8:
				v = binary.LittleEndian.Uint64(b[s.at:])
			default:
				v = join(b, s.parts)
			}
			if v&s.exponent == s.exponent {
				return false
			}
		}
		return true
	}
}

// join reads a number whose bits lie in parts, each within two bytes.
func join(b []byte, parts []tensor.BitRange) (v uint64) {
	shift := 0
	for _, p := range parts {
		word := uint64(b[p.From/8]) | uint64(b[(p.From+p.Width-1)/8])<<8
		v |= word >> (p.From % 8) & (1<<p.Width - 1) << shift
		shift += p.Width
	}
	return v
}
