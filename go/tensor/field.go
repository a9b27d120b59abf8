package tensor

// Field is one number, or a run of equal ones, in a block of an encoding, generated from csrc/encodings.def. An element
// of a dense encoding is a block with one field.
type Field struct {
	Name       string
	Type       FieldType
	Offset     int  // of the first one, in bytes from the block's first
	Count      int  // numbers that follow each other; 0 when the bits lie in Parts
	Groups     int  // how often the run stands in the block
	GroupBytes int  // from one run to the next; 0 when there is one
	Scale      bool // multiplies codes or is added to them
	Parts      []BitRange
}

// BitRange is a part of a number whose bits do not lie together: Width bits from bit From of a block that is read as one
// little-endian number. The parts of a field begin with the lowest bits.
type BitRange struct{ From, Width int }

// FieldType is what a number in a block is.
type FieldType uint8

// The types of fields.
const (
	FieldU8 FieldType = iota
	FieldI8
	FieldU16
	FieldI16
	FieldU32
	FieldI32
	FieldI64
	FieldF16
	FieldBF16
	FieldF32
	FieldF64
	FieldE8M0  // a power of two in a byte (OCP Microscaling 1.0)
	FieldUE4M3 // four bits of exponent and three of mantissa in a byte
	FieldLE32  // a word that some readers take as four bytes: little-endian everywhere
)

var fieldTypes = [...]struct {
	name  string
	bytes int
}{
	FieldU8: {"u8", 1}, FieldI8: {"i8", 1}, FieldU16: {"u16", 2}, FieldI16: {"i16", 2}, FieldU32: {"u32", 4}, FieldI32: {"i32", 4},
	FieldI64: {"i64", 8}, FieldF16: {"f16", 2}, FieldBF16: {"bf16", 2}, FieldF32: {"f32", 4}, FieldF64: {"f64", 8},
	FieldE8M0: {"e8m0", 1}, FieldUE4M3: {"ue4m3", 1}, FieldLE32: {"le32", 4},
}

// String is the type as csrc/encodings.def spells it.
func (t FieldType) String() string { return fieldTypes[t].name }

// Bytes is the size of one number.
func (t FieldType) Bytes() int { return fieldTypes[t].bytes }

// Fields lists the fields of a block in the order of their bytes, those that are spread over others at the end; nil when
// the encoding is unknown or retired. The slice must not be changed.
func (e Encoding) Fields() []Field {
	if i, ok := e.index(); ok {
		return fields[i]
	}
	return nil
}
