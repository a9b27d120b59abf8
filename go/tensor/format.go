package tensor

//go:generate go run ./internal/genencodings

// DType is what an element logically is. Numbers follow GGUF.
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
	Retired       bool // listed, never read
	Activation    bool // made for activations, not a weight format
	Integer       bool // elements are integers
}

// Format is DType × Encoding: what the elements of a tensor are.
type Format struct {
	DType    DType
	Encoding Encoding
}
