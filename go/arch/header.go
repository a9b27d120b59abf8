// Package arch says what a model file's metadata tells of a model: hyperparameters, geometry per
// layer, the role of each tensor, which tensors are required. It reads a neutral Header, so that
// GGUF files, safetensors headers and tests serve alike, and it never sees a payload byte.
package arch

import (
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

// Value is one metadata value. A getter of another kind than the value's returns ok = false; Int and
// Uint accept every integer kind that holds the number exactly, Float every number.
type Value interface {
	Kind() Kind
	Int() (v int64, ok bool)
	Uint() (v uint64, ok bool)
	Float() (v float64, ok bool)
	Bool() (v bool, ok bool)
	Text() (v string, ok bool)
	Array() (v Values, ok bool)
}

// Values is an array value, read lazily: At(i) decodes one element and keeps nothing.
type Values interface {
	Elem() Kind // the kind of the elements
	Len() int
	At(i int) Value // panics like a slice when i is out of range
	// Text returns element i of a string array without an intermediate Value.
	Text(i int) string
}

// TensorInfo describes one tensor of a file. Shape is logical, rows first: the reverse of GGUF's order.
type TensorInfo struct {
	Name     string
	Encoding tensor.Encoding
	Shape    tensor.Shape
	Offset   int64 // bytes from the start of the tensor data of its file
	Bytes    int64 // payload bytes
	File     int   // which part of a split set
}

// Header is what a model file says before its payload. Implementations are safe for concurrent use.
type Header interface {
	Name() string // for messages, e.g. the file's path
	Keys() iter.Seq[string]
	Value(key string) (v Value, ok bool)
	Tensors() []TensorInfo // in file order; not to be modified
}
