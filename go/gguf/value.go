package gguf

import (
	"fmt"
	"math"
	"sync"

	"github.com/skeep-project/skeep/go/arch"
)

// header is the bytes of one file before its tensor data, kept as one string: every metadata value is
// a position in it, every text a substring, so a vocabulary costs no heap object per token.
type header struct {
	text  string
	big   bool // byte order
	count int  // bytes of a count or length: 4 in version 1, else 8
}

// decode reads the unsigned number that s is, of at most 8 bytes.
func decode[T string | []byte](s T, big bool) uint64 {
	var v uint64
	if big {
		for i := 0; i < len(s); i++ {
			v = v<<8 | uint64(s[i])
		}
		return v
	}
	for i := len(s) - 1; i >= 0; i-- {
		v = v<<8 | uint64(s[i])
	}
	return v
}

// uint reads the number of width bytes at off. Positions have been checked by the parser.
func (h *header) uint(off, width int) uint64 { return decode(h.text[off:off+width], h.big) }

// str is the length-prefixed text at off.
func (h *header) str(off int) string {
	off, n := off+h.count, int(h.uint(off, h.count))
	return h.text[off : off+n]
}

// skip is the position behind the value of kind k at off.
func (h *header) skip(k arch.Kind, off int) int {
	switch k {
	case arch.String:
		return off + h.count + int(h.uint(off, h.count))
	case arch.Array:
		a := h.array(off)
		if size := a.elem.Size(); size > 0 {
			return a.off + size*a.n
		}
		end := a.off
		for range a.n {
			end = h.skip(a.elem, end)
		}
		return end
	}
	return off + k.Size()
}

// array reads the head of the array at off.
func (h *header) array(off int) *array {
	return &array{
		h:    h,
		elem: arch.Kind(h.uint(off, 4)),
		n:    int(h.uint(off+4, h.count)),
		off:  off + 4 + h.count,
	}
}

// value is one metadata value; it implements arch.Value.
type value struct {
	h    *header
	kind arch.Kind
	off  int    // of its bytes in h.text
	arr  *array // when kind is Array
}

func (h *header) value(k arch.Kind, off int) *value {
	v := &value{h: h, kind: k, off: off}
	if k == arch.Array {
		v.arr = h.array(off)
	}
	return v
}

func (v *value) Kind() arch.Kind { return v.kind }

// integer is the value as the 64 bits of a signed or an unsigned number.
func (v *value) integer() (bits uint64, signed, ok bool) {
	switch v.kind {
	case arch.Uint8, arch.Uint16, arch.Uint32, arch.Uint64:
		return v.h.uint(v.off, v.kind.Size()), false, true
	case arch.Int8, arch.Int16, arch.Int32, arch.Int64:
		unused := 64 - 8*v.kind.Size()
		return uint64(int64(v.h.uint(v.off, v.kind.Size())<<unused) >> unused), true, true
	}
	return 0, false, false
}

func (v *value) Int() (int64, bool) {
	bits, signed, ok := v.integer()
	if !ok || !signed && bits > math.MaxInt64 {
		return 0, false
	}
	return int64(bits), true
}

func (v *value) Uint() (uint64, bool) {
	bits, signed, ok := v.integer()
	if !ok || signed && int64(bits) < 0 {
		return 0, false
	}
	return bits, true
}

func (v *value) Float() (float64, bool) {
	switch v.kind {
	case arch.Float32:
		return float64(math.Float32frombits(uint32(v.h.uint(v.off, 4)))), true
	case arch.Float64:
		return math.Float64frombits(v.h.uint(v.off, 8)), true
	}
	bits, signed, ok := v.integer()
	if signed {
		return float64(int64(bits)), ok
	}
	return float64(bits), ok
}

func (v *value) Bool() (val, ok bool) {
	if v.kind != arch.Bool {
		return false, false
	}
	return v.h.text[v.off] != 0, true
}

func (v *value) Text() (string, bool) {
	if v.kind != arch.String {
		return "", false
	}
	return v.h.str(v.off), true
}

func (v *value) Array() (arch.Values, bool) {
	if v.kind != arch.Array {
		return nil, false
	}
	return v.arr, true
}

// indexStep is how many elements of varying size share one entry of an array's index: a lookup walks
// over at most indexStep-1 lengths, and the index of 262,144 texts takes 128 KiB.
const indexStep = 8

// array is an array value; it implements arch.Values.
type array struct {
	h     *header
	elem  arch.Kind
	n     int
	off   int // of element 0
	once  sync.Once
	index []uint32 // position of every indexStep-th element; of elements with varying size only
}

func (a *array) Elem() arch.Kind { return a.elem }

func (a *array) Len() int { return a.n }

// at is the position of element i.
func (a *array) at(i int) int {
	if uint(i) >= uint(a.n) {
		panic(fmt.Sprintf("gguf: index %d of an array of %d elements", i, a.n))
	}
	if size := a.elem.Size(); size > 0 {
		return a.off + i*size
	}
	a.once.Do(a.buildIndex)
	off := int(a.index[i/indexStep])
	for range i % indexStep {
		off = a.h.skip(a.elem, off)
	}
	return off
}

func (a *array) buildIndex() {
	a.index = make([]uint32, 0, (a.n+indexStep-1)/indexStep)
	off := a.off
	for i := range a.n {
		if i%indexStep == 0 {
			a.index = append(a.index, uint32(off))
		}
		off = a.h.skip(a.elem, off)
	}
}

func (a *array) At(i int) arch.Value { return a.h.value(a.elem, a.at(i)) }

func (a *array) Text(i int) string {
	off := a.at(i)
	if a.elem != arch.String {
		return ""
	}
	return a.h.str(off)
}
