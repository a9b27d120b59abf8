package tensor

// Field is a number, or an array of numbers of one type, in a block of an encoding; generated from csrc/encodings.def.
// A dense element is a block with one field.
type Field struct {
	Name       string
	Type       FieldType
	Offset     int  // of the first number, in bytes from the start of the block
	Count      int  // of consecutive numbers; 0 if Parts holds the bits
	Groups     int  // how often the run of Count numbers occurs in the block
	GroupBytes int  // distance between runs; 0 if there is only one
	Scale      bool // a scale or offset: multiplies the codes or is added to them
	Parts      []BitRange
}

// BitRange is a part of a number whose bits are not contiguous: the Width bits from bit From on, where the whole block
// is read as one little-endian number. The parts of a field are ordered from its lowest bits up.
type BitRange struct{ From, Width int }

// FieldType is the type of a number in a block.
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
	FieldUE4M3 // an unsigned float in a byte: four bits of exponent, three of mantissa
	FieldLE32  // four bytes that are read as one little-endian word on every machine
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

// Fields lists the fields of a block in the order of their offsets, followed by fields whose bits are spread over other
// fields. It is nil if the encoding is unknown or retired. The slice must not be modified.
func (e Encoding) Fields() []Field {
	if i, ok := e.index(); ok {
		return fields[i]
	}
	return nil
}
