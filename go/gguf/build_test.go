package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/arch"
)

// appender is a byte order that can both be stored in tests and append.
type appender interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// raw appends the primitives of a GGUF file, right or wrong.
type raw struct {
	b       []byte
	order   appender
	version uint32
}

func (r *raw) u32(v uint32) { r.b = r.order.AppendUint32(r.b, v) }
func (r *raw) u64(v uint64) { r.b = r.order.AppendUint64(r.b, v) }

// count appends a count in the width of the version.
func (r *raw) count(v uint64) {
	if r.version == 1 {
		r.u32(uint32(v))
	} else {
		r.u64(v)
	}
}

func (r *raw) str(s string) {
	r.count(uint64(len(s)))
	r.b = append(r.b, s...)
}

// preamble starts a file.
func preamble(version uint32, order appender, tensors, keys uint64) *raw {
	r := &raw{b: []byte("GGUF"), order: order, version: version}
	r.u32(version)
	r.count(tensors)
	r.count(keys)
	return r
}

// list is an array with its element kind stated, which an empty one needs.
type list struct {
	elem arch.Kind
	vals []any
}

// kindOf is the kind that a Go value is written as.
func kindOf(v any) arch.Kind {
	switch v.(type) {
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
	case float32:
		return arch.Float32
	case bool:
		return arch.Bool
	case string:
		return arch.String
	case list, []string, []float32, []int32:
		return arch.Array
	case uint64:
		return arch.Uint64
	case int64:
		return arch.Int64
	case float64:
		return arch.Float64
	}
	panic(fmt.Sprintf("no kind for %T", v))
}

func (r *raw) value(v any) {
	switch v := v.(type) {
	case uint8:
		r.b = append(r.b, v)
	case int8:
		r.b = append(r.b, uint8(v))
	case uint16:
		r.b = r.order.AppendUint16(r.b, v)
	case int16:
		r.b = r.order.AppendUint16(r.b, uint16(v))
	case uint32:
		r.u32(v)
	case int32:
		r.u32(uint32(v))
	case float32:
		r.u32(math.Float32bits(v))
	case bool:
		if v {
			r.b = append(r.b, 1)
		} else {
			r.b = append(r.b, 0)
		}
	case string:
		r.str(v)
	case uint64:
		r.u64(v)
	case int64:
		r.u64(uint64(v))
	case float64:
		r.u64(math.Float64bits(v))
	case list:
		r.array(v.elem, len(v.vals), func(i int) any { return v.vals[i] })
	case []string:
		r.array(arch.String, len(v), func(i int) any { return v[i] })
	case []float32:
		r.array(arch.Float32, len(v), func(i int) any { return v[i] })
	case []int32:
		r.array(arch.Int32, len(v), func(i int) any { return v[i] })
	}
}

func (r *raw) array(elem arch.Kind, n int, at func(i int) any) {
	r.u32(uint32(elem))
	r.count(uint64(n))
	for i := range n {
		r.value(at(i))
	}
}

func (r *raw) kv(key string, v any) {
	r.str(key)
	r.u32(uint32(kindOf(v)))
	r.value(v)
}

func (r *raw) info(name string, typ uint32, offset uint64, dims ...uint64) {
	r.str(name)
	r.u32(uint32(len(dims)))
	for _, d := range dims {
		r.count(d)
	}
	r.u32(typ)
	r.u64(offset)
}

// kv is a metadata pair; ti a tensor with its payload, as bytes of the file.
type kv struct {
	key string
	val any
}

type ti struct {
	name   string
	typ    uint32
	dims   []uint64 // as in the file: row first
	offset uint64
	data   []byte
}

// spec is a whole file.
type spec struct {
	version   uint32   // 0: 3
	order     appender // nil: little-endian
	kv        []kv
	ti        []ti
	alignment uint64 // that the payload is laid out with; 0: 32
}

func (s spec) build() []byte {
	if s.version == 0 {
		s.version = 3
	}
	if s.order == nil {
		s.order = binary.LittleEndian
	}
	r := preamble(s.version, s.order, uint64(len(s.ti)), uint64(len(s.kv)))
	for _, k := range s.kv {
		r.kv(k.key, k.val)
	}
	for _, t := range s.ti {
		r.info(t.name, t.typ, t.offset, t.dims...)
	}
	start := uint64(len(r.b))
	if len(s.ti) > 0 {
		a := max(s.alignment, 1)
		if s.alignment == 0 {
			a = 32
		}
		start = (start + a - 1) / a * a
	}
	for _, t := range s.ti {
		if len(t.data) == 0 {
			continue
		}
		if end := start + t.offset + uint64(len(t.data)); end > uint64(len(r.b)) {
			r.b = append(r.b, make([]byte, end-uint64(len(r.b)))...)
		}
		copy(r.b[start+t.offset:], t.data)
	}
	return r.b
}

// pad appends zeros up to a multiple of n.
func pad(b []byte, n int) []byte {
	for len(b)%n != 0 {
		b = append(b, 0)
	}
	return b
}

// seq is n bytes that differ from their neighbors and from those of another first byte.
func seq(n int, first byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = first + byte(i*7+i>>8)
	}
	return b
}

func readBytes(b []byte, o ...Options) (*File, error) {
	return Read(bytes.NewReader(b), int64(len(b)), append(o, Options{})[0])
}

func mustRead(t *testing.T, b []byte, o ...Options) *File {
	t.Helper()
	f, err := readBytes(b, o...)
	require.NoError(t, err)
	return f
}

// payload is a tensor's bytes as ReadTensor gives them.
func payload(t *testing.T, f *File, name string) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, f.ReadTensor(name, &b))
	return b.Bytes()
}

// refuse reads b, which must fail with the kind and with all the texts in the message.
func refuse(t *testing.T, b []byte, kind error, texts ...string) *Error {
	t.Helper()
	f, err := readBytes(b)
	require.Error(t, err)
	require.Nil(t, f)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, kind)
	for _, s := range texts {
		require.ErrorContains(t, err, s)
	}
	return e
}
