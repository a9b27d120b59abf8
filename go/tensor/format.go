package tensor

import (
	"fmt"
	"iter"
	"strings"
)

//go:generate go run ./internal/generate

// DType is the logical type of an element. Numbers follow GGUF and equal the Encoding that stores the type densely.
type DType uint16

// The element types.
const (
	F32  DType = 0
	F16  DType = 1
	I8   DType = 24
	I16  DType = 25
	I32  DType = 26
	I64  DType = 27
	F64  DType = 28
	BF16 DType = 30
)

// String is the name as GGUF spells it, "type 99" when unknown.
func (d DType) String() string {
	if d.Size() == 0 {
		return fmt.Sprintf("type %d", uint16(d))
	}
	return Encoding(d).String()
}

// Size is the bytes of one element stored densely, 0 when the type is unknown.
func (d DType) Size() int {
	if i, ok := Encoding(d).row(); ok && i.BlockElements == 1 {
		return i.BlockBytes
	}
	return 0
}

// Integer reports whether elements are integers.
func (d DType) Integer() bool {
	i, ok := Encoding(d).row()
	return ok && i.Integer
}

// Encoding is how elements are stored: a GGUF type id, or an id from 256 on for forms that exist in
// memory only. A Q4_K weight has Encoding Q4_K and DType F32.
type Encoding uint16

// EncodingInfo is one row of the encoding table, generated from csrc/encodings.def.
type EncodingInfo struct {
	ID            Encoding
	Name          string // as GGUF spells it
	DType         DType  // logical element type
	BlockElements int    // 1 when dense; 0 when the size is unknown (retired)
	BlockBytes    int
	Retired       bool // known by name only: its layout is no longer defined
	Activation    bool // for activations, not for weights; a partial last block is padded
	Integer       bool // elements are integers
}

// Encodings yields all encodings in the order of their ids.
func Encodings() iter.Seq[EncodingInfo] {
	return func(yield func(EncodingInfo) bool) {
		for i := range encodings {
			if !yield(encodings[i]) {
				return
			}
		}
	}
}

// Info is the encoding's row of the table; ok is false when the id is unknown. Retired ids are known.
func (e Encoding) Info() (info EncodingInfo, ok bool) {
	i, ok := e.row()
	if !ok {
		return EncodingInfo{}, false
	}
	return *i, true
}

// row finds a row without copying it.
func (e Encoding) row() (*EncodingInfo, bool) {
	if i, ok := e.index(); ok {
		return &encodings[i], true
	}
	return nil, false
}

// index finds a row: GGUF's ids stand at their own index, the few others behind.
func (e Encoding) index() (int, bool) {
	if int(e) < len(encodings) && encodings[e].ID == e {
		return int(e), true
	}
	for i := len(encodings) - 1; i >= 0 && encodings[i].ID >= e; i-- {
		if encodings[i].ID == e {
			return i, true
		}
	}
	return 0, false
}

// String is the name as GGUF spells it, "type 99" when unknown.
func (e Encoding) String() string {
	if i, ok := e.row(); ok {
		return i.Name
	}
	return fmt.Sprintf("type %d", uint16(e))
}

// ParseEncoding finds an encoding by its name, in any case. The error is an *EncodingError.
func ParseEncoding(name string) (Encoding, error) {
	for i := range encodings {
		if strings.EqualFold(encodings[i].Name, name) {
			return encodings[i].ID, nil
		}
	}
	return 0, &EncodingError{Name: name, Reason: "unknown encoding"}
}

// EncodingError says which encoding cannot be used and why.
type EncodingError struct {
	Name   string // of the encoding
	Reason string
}

func (e *EncodingError) Error() string {
	return fmt.Sprintf("tensor: encoding %q: %s", e.Name, e.Reason)
}

// Format is the element type of a tensor and its encoding.
type Format struct {
	DType    DType
	Encoding Encoding
}

// FormatOf returns the format of an encoding, with its logical element type. It never fails: unknown and retired
// encodings are refused by Check, which every constructor of a layout calls.
func FormatOf(e Encoding) Format {
	if i, ok := e.row(); ok {
		return Format{DType: i.DType, Encoding: e}
	}
	return Format{Encoding: e}
}

// Dense is the format that stores elements of type d one after another, unpacked.
func Dense(d DType) Format { return Format{DType: d, Encoding: Encoding(d)} }

// String is the encoding's name, which implies the dtype.
func (f Format) String() string { return f.Encoding.String() }

// Check returns an *EncodingError unless the encoding can be read and has the format's dtype.
func (f Format) Check() error {
	_, err := f.info()
	return err
}

func (f Format) info() (*EncodingInfo, error) {
	i, ok := f.Encoding.row()
	switch {
	case !ok:
		return nil, &EncodingError{f.Encoding.String(), "unknown encoding"}
	case i.Retired:
		return nil, &EncodingError{i.Name, "retired: its block size is unknown"}
	case i.DType != f.DType:
		return nil, &EncodingError{i.Name, fmt.Sprintf("holds %s, not %s", i.DType, f.DType)}
	}
	return i, nil
}

// Block returns the elements and bytes of one block (of one element if dense), or zeros if the encoding is unknown or
// retired.
func (f Format) Block() (elements, bytes int) {
	if i, ok := f.Encoding.row(); ok {
		return i.BlockElements, i.BlockBytes
	}
	return 0, 0
}

// Bytes is the size of a gap-free tensor of shape s. Blocks run along the last axis, whose extent must be a multiple of
// the block (for activation encodings it is rounded up). A scalar has one element. Errors: *EncodingError, *ShapeError.
func (f Format) Bytes(s Shape) (int64, error) {
	i, err := f.info()
	if err != nil {
		return 0, err
	}
	if err := s.Check(); err != nil {
		return 0, err
	}
	cells := int64(i.BlockBytes)
	for axis := range int(s.Rank) {
		n := s.Dims[axis]
		if axis == int(s.Rank)-1 {
			if n, err = blocks(s, axis, i); err != nil {
				return 0, err
			}
		}
		var ok bool
		if cells, ok = mul(cells, n); !ok {
			return 0, &ShapeError{Shape: s, Axis: axis, Reason: "more than 2⁶³ bytes"}
		}
	}
	if s.Rank == 0 && i.BlockElements > 1 {
		return 0, &ShapeError{Shape: s, Axis: -1, Reason: fmt.Sprintf("a scalar cannot be %s", i.Name)}
	}
	return cells, nil
}

// blocks is the extent of axis in blocks of i.
func blocks(s Shape, axis int, i *EncodingInfo) (int64, error) {
	n, b := s.Dims[axis], int64(i.BlockElements)
	if n%b == 0 {
		return n / b, nil
	}
	if i.Activation {
		return n/b + 1, nil
	}
	return 0, &ShapeError{Shape: s, Axis: axis, Reason: fmt.Sprintf("not a multiple of %s's block of %d", i.Name, b)}
}
