// Package arch derives the description of a model from the metadata of its file: hyperparameters, the geometry of each
// layer, the role of each tensor, and which tensors are required. It reads the interface Header, which does not depend
// on a file format, and never reads payload.
package arch

import (
	"fmt"
	"iter"

	"github.com/skeep-project/skeep/go/tensor"
)

// Kind is the type of a metadata value; numbers follow GGUF.
type Kind uint32

// The kinds of metadata values.
const (
	Uint8   Kind = 0
	Int8    Kind = 1
	Uint16  Kind = 2
	Int16   Kind = 3
	Uint32  Kind = 4
	Int32   Kind = 5
	Float32 Kind = 6
	Bool    Kind = 7
	String  Kind = 8
	Array   Kind = 9
	Uint64  Kind = 10
	Int64   Kind = 11
	Float64 Kind = 12
)

// kinds holds what is fixed about each kind: the name, and the bytes of one value (0 = varies).
var kinds = [...]struct {
	name string
	size int
}{
	Uint8: {"u8", 1}, Int8: {"i8", 1}, Uint16: {"u16", 2}, Int16: {"i16", 2}, Uint32: {"u32", 4}, Int32: {"i32", 4},
	Float32: {"f32", 4}, Bool: {"bool", 1}, String: {"string", 0}, Array: {"array", 0},
	Uint64: {"u64", 8}, Int64: {"i64", 8}, Float64: {"f64", 8},
}

// Valid reports whether k is one of the kinds above.
func (k Kind) Valid() bool { return k < Kind(len(kinds)) }

// Size is the size of one value in bytes, 0 for strings, arrays and unknown kinds.
func (k Kind) Size() int {
	if !k.Valid() {
		return 0
	}
	return kinds[k].size
}

// String is the name of the kind: "u32", "string", "array"; "kind 13" when unknown.
func (k Kind) String() string {
	if !k.Valid() {
		return fmt.Sprintf("kind %d", uint32(k))
	}
	return kinds[k].name
}

// Value is one metadata value. A getter returns ok = false if the value has another kind. Int and Uint accept a value
// of any integer kind that they can represent exactly; Float accepts every number.
type Value interface {
	Kind() Kind
	Int() (v int64, ok bool)
	Uint() (v uint64, ok bool)
	Float() (v float64, ok bool)
	Bool() (v bool, ok bool)
	Text() (v string, ok bool)
	Array() (v Values, ok bool)
}

// Values is an array value. It is decoded lazily: At decodes one element on each call.
type Values interface {
	Elem() Kind // the kind of the elements
	Len() int
	At(i int) Value // panics like a slice when i is out of range
	// Text returns element i of a string array without making a Value; "" if the elements are not strings.
	Text(i int) string
}

// UnknownEncoding is the Encoding of a tensor whose type number is unknown: it has no row in the encoding table.
// TensorInfo.Type holds the number.
const UnknownEncoding tensor.Encoding = 1<<16 - 1

// TensorInfo describes one tensor of a file. Shape is logical, rows first: the reverse of GGUF's order.
type TensorInfo struct {
	Name     string
	Encoding tensor.Encoding // unknown or retired if Bytes is -1
	Type     uint32          // type number in the file; equals Encoding unless that is UnknownEncoding
	Shape    tensor.Shape
	Offset   int64  // bytes from the start of the tensor data of its file
	Bytes    int64  // size of the payload; -1 if the size of the type is unknown, and the tensor cannot be read
	Reserved int64  // bytes up to the next tensor or the end of the file: an upper bound of the size if Bytes is -1
	AliasOf  string // earlier tensor that shares bytes and type with this one, or ""
	File     int    // index of the part of a split set
}

// TypeName is the encoding's name as GGUF spells it, or "type 200" for an unknown type number.
func (t *TensorInfo) TypeName() string {
	if t.Encoding == UnknownEncoding {
		return fmt.Sprintf("type %d", t.Type)
	}
	return t.Encoding.String()
}

// Header gives access to everything in a model file except its payload. Implementations are safe for concurrent use.
type Header interface {
	Name() string // for messages, e.g. the file's path
	Keys() iter.Seq[string]
	Value(key string) (v Value, ok bool)
	Tensors() []TensorInfo // in file order; not to be modified
}
