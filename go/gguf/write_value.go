package gguf

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/skeep-project/skeep/go/arch"
)

// Number is the constraint of metadata values that are neither texts nor arrays.
type Number interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64 | bool
}

// NumberOf makes a metadata value of the kind that corresponds to T.
func NumberOf[T Number](v T) arch.Value {
	return newValue(kindFor[T](), appendNumber(nil, binary.LittleEndian, v))
}

// TextOf makes a text value; s may hold any bytes.
func TextOf(s string) arch.Value {
	return newValue(arch.String, appendText(nil, binary.LittleEndian, s))
}

// NumbersOf makes an array, which may be empty.
func NumbersOf[T Number](v []T) arch.Value {
	b := appendArrayHead(nil, binary.LittleEndian, kindFor[T](), len(v))
	for _, x := range v {
		b = appendNumber(b, binary.LittleEndian, x)
	}
	return newValue(arch.Array, b)
}

// TextsOf makes an array of texts.
func TextsOf(v []string) arch.Value {
	b := appendArrayHead(nil, binary.LittleEndian, arch.String, len(v))
	for _, s := range v {
		b = appendText(b, binary.LittleEndian, s)
	}
	return newValue(arch.Array, b)
}

// ArraysOf makes an array of arrays. It panics if an element is not an array.
func ArraysOf(v ...arch.Value) arch.Value {
	b := appendArrayHead(nil, binary.LittleEndian, arch.Array, len(v))
	for i, x := range v {
		if x == nil {
			panic(fmt.Sprintf("gguf: element %d of an array of arrays is nil", i))
		}
		if x.Kind() != arch.Array {
			panic(fmt.Sprintf("gguf: element %d of an array of arrays is a %s", i, x.Kind()))
		}
		b = appendValue(b, binary.LittleEndian, x)
	}
	return newValue(arch.Array, b)
}

// newValue reads a value from its bytes as a file of version 3 has them: made values are those of files.
func newValue(k arch.Kind, b []byte) arch.Value {
	return (&header{text: string(b), count: 8}).value(k, 0)
}

// kindFor is the kind that values of a Go type are written as.
func kindFor[T Number]() arch.Kind {
	switch any(*new(T)).(type) {
	case uint8:
		return arch.Uint8
	case int8:
		return arch.Int8
	case uint16:
		return arch.Uint16
	case int16:
		return arch.Int16
	case uint32:
		return arch.Uint32
	case int32:
		return arch.Int32
	case uint64:
		return arch.Uint64
	case int64:
		return arch.Int64
	case float32:
		return arch.Float32
	case float64:
		return arch.Float64
	}
	return arch.Bool
}

func appendNumber[T Number](b []byte, order binary.AppendByteOrder, v T) []byte {
	b, err := binary.Append(b, order.(binary.ByteOrder), v)
	if err != nil {
		panic(err) // every Number has a fixed size
	}
	return b
}

func appendText(b []byte, order binary.AppendByteOrder, s string) []byte {
	return append(order.AppendUint64(b, uint64(len(s))), s...)
}

func appendArrayHead(b []byte, order binary.AppendByteOrder, elem arch.Kind, n int) []byte {
	return order.AppendUint64(order.AppendUint32(b, uint32(elem)), uint64(n))
}

// appendBits appends the low size bytes of a number.
func appendBits(b []byte, order binary.AppendByteOrder, v uint64, size int) []byte {
	switch size {
	case 1:
		return append(b, byte(v))
	case 2:
		return order.AppendUint16(b, uint16(v))
	case 4:
		return order.AppendUint32(b, uint32(v))
	}
	return order.AppendUint64(b, v)
}

// appendValue appends any value, whoever implements it, without its kind. The value has passed checkValue.
func appendValue(b []byte, order binary.AppendByteOrder, v arch.Value) []byte {
	switch k := v.Kind(); k {
	case arch.String:
		s, _ := v.Text()
		return appendText(b, order, s)
	case arch.Array:
		a, _ := v.Array()
		b = appendArrayHead(b, order, a.Elem(), a.Len())
		for i := range a.Len() {
			if a.Elem() == arch.String {
				b = appendText(b, order, a.Text(i))
			} else {
				b = appendValue(b, order, a.At(i))
			}
		}
		return b
	default:
		return appendBits(b, order, valueBits(v), k.Size())
	}
}

// valueBits is the bits of a number; of a file's value exactly as it is stored, also where a float is no
// number.
func valueBits(v arch.Value) uint64 {
	if own, ok := v.(*value); ok {
		return own.h.uint(own.off, own.kind.Size())
	}
	switch v.Kind() {
	case arch.Bool:
		if x, _ := v.Bool(); x {
			return 1
		}
		return 0
	case arch.Float32:
		x, _ := v.Float()
		return uint64(math.Float32bits(float32(x)))
	case arch.Float64:
		x, _ := v.Float()
		return math.Float64bits(x)
	}
	if i, ok := v.Int(); ok {
		return uint64(i)
	}
	u, _ := v.Uint()
	return u
}

// checkValue says why a value cannot be written, or "".
func checkValue(v arch.Value, depth int) string {
	switch {
	case v == nil:
		return "no value"
	case !v.Kind().Valid():
		return fmt.Sprintf("value of unknown %s", v.Kind())
	case v.Kind() != arch.Array:
		return ""
	case depth == maxDepth:
		return fmt.Sprintf("arrays nested more than %d deep", maxDepth)
	}
	a, ok := v.Array()
	if !ok || !a.Elem().Valid() {
		return "array without elements of a known kind"
	}
	if a.Elem() != arch.Array {
		return ""
	}
	for i := range a.Len() {
		if why := checkValue(a.At(i), depth+1); why != "" {
			return why
		}
	}
	return ""
}
