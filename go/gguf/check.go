package gguf

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/skeep-project/skeep/go/tensor"
)

// Finding is something in a tensor's payload that a sound model rarely holds.
type Finding struct {
	Tensor string
	Kind   FindingKind
	Row    int64 // of the first place, counted over all outer axes
	Block  int64 // of the first place within its row; the element when the type is dense
	Count  int64 // places in the tensor
}

// FindingKind says what was found.
type FindingKind uint8

// The kinds of findings.
const (
	NotFinite FindingKind = iota // a scale or a dense element is NaN or infinite: results will be
	ZeroBlock                    // every byte of a block is zero: a hole in a partly downloaded file, or weights that are not used
)

// String describes the finding.
func (f Finding) String() string {
	what := "blocks whose scale is not finite"
	if f.Kind == ZeroBlock {
		what = "blocks of zero bytes"
	}
	return fmt.Sprintf("tensor %s: %d %s, the first is block %d of row %d", quote(f.Tensor), f.Count, what, f.Block, f.Row)
}

// Check reads a tensor's payload and looks for what is suspicious; of each kind it tells the first place
// and the number. No finding is no proof: codes of blocks are not judged. Scratch is bounded. Errors are
// those of Payload, of reading, and ctx's.
func (f *File) Check(ctx context.Context, name string) ([]Finding, error) {
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
		if err := ctx.Err(); err != nil {
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

// scales are where the blocks of an encoding hold halves that multiply or are added; scales of a byte
// are always finite.
var scales = map[tensor.Encoding][]int{
	tensor.Q4_0: {0}, tensor.Q4_1: {0, 2}, tensor.Q5_0: {0}, tensor.Q5_1: {0, 2}, tensor.Q8_0: {0}, tensor.Q8_1: {0, 2},
	tensor.Q2_K: {80, 82}, tensor.Q3_K: {108}, tensor.Q4_K: {0, 2}, tensor.Q5_K: {0, 2}, tensor.Q6_K: {208},
	tensor.IQ2_XXS: {0}, tensor.IQ2_XS: {0}, tensor.IQ2_S: {0}, tensor.IQ3_XXS: {0}, tensor.IQ3_S: {0},
	tensor.IQ1_S: {0}, tensor.IQ4_NL: {0}, tensor.IQ4_XS: {0}, tensor.TQ1_0: {52}, tensor.TQ2_0: {64},
	tensor.Q1_0: {0}, tensor.Q2_0: {0}, tensor.EncF16: {0},
}

// finite is the test of one block, or of an element of a dense type: an exponent of ones is NaN or
// infinity. nil when all bytes are finite.
func finite(e tensor.Encoding) func(b []byte) bool {
	const half = 0x7c00
	if at := scales[e]; at != nil {
		return func(b []byte) bool {
			for _, i := range at {
				if binary.LittleEndian.Uint16(b[i:])&half == half {
					return false
				}
			}
			return true
		}
	}
	switch e {
	case tensor.EncF32, tensor.Q8_K:
		return func(b []byte) bool { return ^binary.LittleEndian.Uint32(b)&0x7f800000 != 0 }
	case tensor.EncBF16:
		return func(b []byte) bool { return ^binary.LittleEndian.Uint16(b)&0x7f80 != 0 }
	case tensor.EncF64:
		return func(b []byte) bool { return ^binary.LittleEndian.Uint64(b)&(0x7ff<<52) != 0 }
	case tensor.IQ1_M:
		// The half's nibbles are the top nibbles of four 16-bit words, the highest in the last.
		return func(b []byte) bool { return (uint16(b[55]>>4)<<12|uint16(b[53]>>4)<<8)&half != half }
	}
	return nil
}
