package load

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// OverflowError says that a weight has a value that is too large for the decided encoding: it would become infinite,
// and so would results. Keep the weight as stored, or override its form with F32 or BF16.
type OverflowError struct {
	Encoding tensor.Encoding // the decided encoding
	Index    []int64         // of the first such element
	Value    float64         // as stored
}

func (e *OverflowError) Error() string {
	return fmt.Sprintf("element %v is %g, which would become infinite in %s", e.Index, e.Value, e.Encoding)
}

// overflow looks for elements of a dense copy that are infinite where those of its source, in the same shape, are
// finite. The error is an *OverflowError or one of reading.
func overflow(from, to skeep.View) error {
	size, exponent := int64(2), uint32(0)
	switch to.Format().Encoding {
	case tensor.EncF16:
		exponent = 0x7c00
	case tensor.EncBF16:
		exponent = 0x7f80
	case tensor.EncF32:
		size, exponent = 4, 0x7f800000
	}
	if exponent == 0 || size == 4 && from.Format().Encoding != tensor.EncF64 { // nothing else exceeds F32
		return nil
	}
	sign := uint32(1) << (8*size - 1)
	buf := make([]byte, min(to.Bytes(), 64<<10))
	for at := int64(0); at < to.Bytes(); at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), to.Bytes()-at)]
		if _, err := to.Storage().ReadAt(buf, at); err != nil {
			return err
		}
		for i := int64(0); i < int64(len(buf)); i += size {
			bits := uint32(binary.LittleEndian.Uint16(buf[i:]))
			if size == 4 {
				bits = binary.LittleEndian.Uint32(buf[i:])
			}
			if bits&^sign != exponent {
				continue
			}
			index := indexOf(to.Shape(), (at+i)/size)
			v, err := from.Get(index...)
			if err != nil {
				return err
			}
			if !math.IsInf(v, 0) {
				return &OverflowError{Encoding: to.Format().Encoding, Index: index, Value: v}
			}
		}
	}
	return nil
}

// indexOf is the index of the element at a flat position in row-major order.
func indexOf(s tensor.Shape, flat int64) []int64 {
	index := make([]int64, s.Rank)
	for a := int(s.Rank) - 1; a >= 0; a-- {
		index[a] = flat % s.Dims[a]
		flat /= s.Dims[a]
	}
	return index
}
