package gguf

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/internal/argument"
	"github.com/skeep-project/skeep/go/tensor"
)

// The tests of this file show cases of tests/testdata/cases.tsv: failures of other readers, each with the behavior that
// is right.

// Case A01.
func TestDimsOfZeroAreEmptyTensors(t *testing.T) {
	for _, dims := range [][]uint64{{4, 0}, {0, 0}, {0}, {4, 0, 4}, {0, 1 << 40}} {
		b := spec{ti: []ti{{name: "t", dims: dims}}}.build()
		for _, b := range [][]byte{b, pad(bytes.Clone(b), 32), b[:len(b):len(b)]} {
			f := mustRead(t, b)
			require.Len(t, f.Tensors(), 1)
			info := f.Tensors()[0]
			n, err := info.Shape.Elements()
			require.NoError(t, err)
			require.Zero(t, n)
			require.Zero(t, info.Bytes)
			require.EqualValues(t, len(dims), info.Shape.Rank)
			require.Empty(t, payload(t, f, "t"))
		}
	}
}

// The end of the header, unpadded: the file of a zero-sized tensor may stop there.
// Case A01.
func TestEmptyTensorsNeedNoPadding(t *testing.T) {
	r := preamble(3, binary.LittleEndian, 1, 0)
	r.info("t", 0, 0, 4, 0)
	require.NotZero(t, len(r.b)%32)
	mustRead(t, r.b)
}

// Case A03.
func TestEmptyTensorBesideOthersTakesNoBytes(t *testing.T) {
	b := spec{ti: []ti{
		{name: "none", dims: []uint64{0, 16}},
		{name: "four", dims: []uint64{4}, data: seq(16, 1)},
		{name: "last", dims: []uint64{7, 0}, offset: 32}, // behind padding that the file does not have
	}}.build()
	f := mustRead(t, b)
	require.EqualValues(t, 0, f.Tensors()[0].Bytes)
	require.EqualValues(t, 16, f.Tensors()[1].Bytes)
	require.Empty(t, f.Tensors()[1].AliasOf)
	require.Equal(t, seq(16, 1), payload(t, f, "four"))
	require.EqualValues(t, len(b), f.Parts()[0].DataOffset+16)

	refuse(t, spec{ti: []ti{{name: "none", dims: []uint64{0}, offset: 32}}}.build(), ErrTruncated, `"none"`)
}

// Case A04.
func TestAlignmentTakesAnyIntegerKind(t *testing.T) {
	for _, v := range []any{uint8(32), int8(32), uint16(32), int16(32), uint32(32), int32(32), uint64(32), int64(32)} {
		f := mustRead(t, spec{kv: []kv{{keyAlignment, v}}}.build())
		require.EqualValues(t, 32, f.Parts()[0].Alignment)
	}
	for _, v := range []any{"32", true, float32(32), float64(32), []int32{32}} {
		refuse(t, spec{kv: []kv{{keyAlignment, v}}}.build(), ErrFormat, keyAlignment, "is a "+kindOf(v).String(), "u8 to u64")
	}
}

// Case A05.
func TestAlignmentIsAPowerOfTwo(t *testing.T) {
	for _, v := range []any{uint32(0), int32(-32), int64(math.MinInt64), uint32(24), uint32(33), uint64(math.MaxUint64)} {
		for _, tensors := range [][]ti{nil, {{name: "t", dims: []uint64{1}, data: seq(4, 1)}}} {
			refuse(t, spec{kv: []kv{{keyAlignment, v}}, ti: tensors}.build(), ErrFormat, keyAlignment, fmt.Sprint(v), "power of two")
		}
	}
	for _, a := range []uint64{1, 2, 8, 16, 64, 4096, 1 << 20} {
		b := spec{kv: []kv{{keyAlignment, uint32(a)}}, alignment: a, ti: []ti{
			{name: "a", dims: []uint64{1}, data: seq(4, 1)},
			{name: "b", dims: []uint64{2}, data: seq(8, 9), offset: (4 + a - 1) / a * a},
		}}.build()
		f := mustRead(t, b)
		require.EqualValues(t, a, f.Parts()[0].Alignment)
		require.Zero(t, f.Parts()[0].DataOffset%int64(a))
		require.Equal(t, seq(4, 1), payload(t, f, "a"))
		require.Equal(t, seq(8, 9), payload(t, f, "b"))
	}
}

// Case A07.
func TestHugeAlignmentIsRefused(t *testing.T) {
	for _, a := range []uint32{0x80000000, 1 << 30, 1 << 21} {
		r := preamble(3, binary.LittleEndian, 1, 1)
		r.kv(keyAlignment, a)
		r.info("t", 0, 0, 1)
		r.b = append(r.b, 1, 2, 3, 4)
		require.Less(t, len(r.b), 200)
		refuse(t, r.b, ErrFormat, keyAlignment, fmt.Sprint(a))
	}
}

// Case A09.
func TestHeaderThatEndsOnABoundaryGetsNoPadding(t *testing.T) {
	// Names of growing length move the end of the header over every residue.
	hits := 0
	for n := 1; n <= 32; n++ {
		for typ, bytes := range map[uint32]int{39: 17, 40: 36} {
			name := strings.Repeat("n", n)
			b := spec{ti: []ti{{name: name, typ: typ, dims: []uint64{64}, data: seq(bytes*map[uint32]int{39: 2, 40: 1}[typ], 5)}}}.build()
			f := mustRead(t, b)
			end := int64(24 + 8 + n + 4 + 8 + 4 + 8)
			start := f.Parts()[0].DataOffset
			require.EqualValues(t, (end+31)/32*32, start)
			if end%32 == 0 {
				hits++
				require.Equal(t, end, start)
			}
			require.Equal(t, b[start:], payload(t, f, name))
		}
	}
	require.Equal(t, 2, hits)
}

// hugeCounts are files of a few bytes that claim to hold more than any machine.
func hugeCounts() map[string][]byte {
	m := map[string][]byte{}
	for _, order := range []appender{binary.LittleEndian, binary.BigEndian} {
		for version := uint32(1); version <= 3; version++ {
			add := func(what string, b []byte) { m[fmt.Sprintf("%s v%d %v", what, version, order)] = b }
			start := func(tensors, keys uint64) *raw { return preamble(version, order, tensors, keys) }
			add("n_kv", start(0, 5e8).b)
			add("n_tensors", start(5e8, 0).b)
			add("both", start(math.MaxUint64, math.MaxUint64).b)
			r := start(0, 1)
			r.count(0xFFFFFFFFFFFF)
			add("key length", r.b)
			r = start(0, 1)
			r.str("k")
			r.u32(uint32(arch.String))
			r.count(1<<40 - 1) // in version 1 this is 2³²-1
			add("string length", r.b)
			for kind := range uint32(13) {
				r = start(0, 1)
				r.str("k")
				r.u32(uint32(arch.Array))
				r.u32(kind)
				r.count(1<<63 + 1<<31 - 1)
				add(fmt.Sprintf("array of %s", arch.Kind(kind)), r.b)
			}
			r = start(1, 0)
			r.str("t")
			r.u32(0xFFFFFFFF)
			r.b = append(r.b, make([]byte, 24)...)
			add("n_dims", r.b)
		}
	}
	return m
}

// Case A10.
func TestCountsBeyondTheFileAreRefused(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // so that every byte stays counted
	for name, b := range hugeCounts() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := cpuTime(t)
		f, err := readBytes(b)
		took := cpuTime(t) - began
		runtime.ReadMemStats(&after)
		require.Error(t, err, name)
		require.Nil(t, f, name)
		require.True(t, errors.Is(err, ErrTruncated) || errors.Is(err, ErrFormat), "%s: %v", name, err)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<10), name)
		require.Less(t, took, time.Second, name)
	}
}

// Counts that a large file could hold are refused for their own sake.
// Case A10.
func TestCountsHaveLimits(t *testing.T) {
	size := int64(1 << 40)
	for _, c := range []struct {
		tensors, keys uint64
		field         string
	}{{maxTensors + 1, 0, "n_tensors"}, {0, maxKeys + 1, "n_kv"}} {
		_, err := Read(zeros{preamble(3, binary.LittleEndian, c.tensors, c.keys).b}, size, Options{})
		require.ErrorIs(t, err, ErrLimit)
		require.ErrorContains(t, err, c.field)
	}
	r := preamble(3, binary.LittleEndian, 0, 1)
	r.str("k")
	r.u32(uint32(arch.String))
	r.u64(1 << 39)
	_, err := Read(zeros{r.b}, size, Options{})
	require.ErrorIs(t, err, ErrLimit)
	_, err = Read(bytes.NewReader(r.b), int64(len(r.b)), Options{MaxHeader: 10})
	require.ErrorIs(t, err, ErrLimit)
	file := filepath.Join(t.TempDir(), "x.gguf")
	require.NoError(t, os.WriteFile(file, preamble(3, binary.LittleEndian, 0, 0).b, 0o600))
	for limit, ok := range map[int64]bool{math.MinInt64: false, -1: false, 0: true, math.MaxUint32: true, math.MaxUint32 + 1: false, math.MaxInt64: false} {
		f, err := Open(file, Options{MaxHeader: limit})
		if ok {
			require.NoError(t, err)
			require.NoError(t, f.Close())
			continue
		}
		for _, read := range []func(o Options) (*File, error){
			func(o Options) (*File, error) { return Open(file, o) },
			func(o Options) (*File, error) { return OpenFS(os.DirFS(filepath.Dir(file)), "x.gguf", o) },
			func(o Options) (*File, error) { return Read(bytes.NewReader(r.b), int64(len(r.b)), o) },
		} {
			_, err = read(Options{MaxHeader: limit})
			require.ErrorIs(t, err, argument.Err)
			require.ErrorContains(t, err, fmt.Sprintf("Options.MaxHeader is %d, want 0 to 4294967295", limit))
		}
	}
}

// zeros is an endless file that begins with b.
type zeros struct{ b []byte }

func (z zeros) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(z.b)) {
		copy(p, z.b[off:])
	}
	return len(p), nil
}

// The worst that passes the counts: a header up to the limit, full of the smallest things.
// Case A10.
func TestWorstHeaderIsReadInBoundedMemoryAndTime(t *testing.T) {
	strings := preamble(3, binary.LittleEndian, 0, 2)
	strings.str("k")
	strings.u32(uint32(arch.Array))
	strings.u32(uint32(arch.String))
	strings.u64(defaultMaxHeader/8 - 16) // each of length 0, by the zeros that follow; then a key of length 0

	arrays := preamble(3, binary.LittleEndian, 0, 2)
	arrays.str("k")
	arrays.u32(uint32(arch.Array))
	arrays.u32(uint32(arch.Array))
	arrays.u64(defaultMaxHeader/12 - 16) // each empty, of kind 0

	keys := preamble(3, binary.LittleEndian, 0, maxKeys)
	for i := range uint32(maxKeys - 1) {
		keys.kv(fmt.Sprintf("%04x", i), list{elem: arch.String, vals: []any{"x"}})
	}
	tensors := preamble(3, binary.LittleEndian, maxTensors, 0)
	for i := range uint64(maxTensors - 1) {
		tensors.info(fmt.Sprintf("%05x", i), 0, i*32, 8)
	}

	for name, b := range map[string][]byte{"strings": strings.b, "arrays": arrays.b, "keys": keys.b, "tensors": tensors.b} {
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		peak := watchHeap()
		began := cpuTime(t)
		_, err := Read(zeros{b}, 1<<40, Options{})
		took := cpuTime(t) - began
		require.Error(t, err, name)
		require.Less(t, peak()-before.HeapAlloc, uint64(256<<20), name)
		t.Log(name, took)
		require.Less(t, took, timeLimit, name)
	}
}

// cpuTime is what this process has computed so far: unlike a clock it does not depend on what else the
// machine does.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// watchHeap samples the heap until the returned function is called, which gives the peak.
func watchHeap() func() uint64 {
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		var m runtime.MemStats
		peak := uint64(0)
		for {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
			select {
			case <-stop:
				done <- peak
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-done
	}
}

// Case A12.
func TestArraysAreNestedEightDeepAtMost(t *testing.T) {
	nested := func(levels int) []byte {
		r := preamble(3, binary.LittleEndian, 0, 1)
		r.str("deep")
		r.u32(uint32(arch.Array))
		for range levels - 1 {
			r.u32(uint32(arch.Array))
			r.u64(1)
		}
		r.u32(uint32(arch.Uint8))
		r.u64(0)
		return r.b
	}
	e := refuse(t, nested(5001), ErrFormat, "deep", "more than 8 deep")
	require.Positive(t, e.Offset)
	refuse(t, nested(9), ErrFormat, "deep")

	f := mustRead(t, nested(8))
	v, ok := f.Value("deep")
	require.True(t, ok)
	for range 7 {
		a, ok := v.Array()
		require.True(t, ok)
		require.Equal(t, arch.Array, a.Elem())
		require.Equal(t, 1, a.Len())
		v = a.At(0)
	}
	a, ok := v.Array()
	require.True(t, ok)
	require.Equal(t, 0, a.Len())
}

// Case A16.
func TestEmptyNamesAreRefused(t *testing.T) {
	for _, kvs := range [][]kv{{{"", uint32(1)}}, {{"", uint32(1)}, {"good", uint32(2)}}, {{"good", uint32(2)}, {"", uint32(1)}}} {
		refuse(t, spec{kv: kvs}.build(), ErrFormat, "key", "empty")
	}
	refuse(t, spec{ti: []ti{{name: "", dims: []uint64{1}, data: seq(4, 1)}}}.build(), ErrFormat, "tensor 0", "empty name")
}

// Case A17.
func TestDuplicateNamesAreRefused(t *testing.T) {
	e := refuse(t, spec{ti: []ti{
		{name: "w", dims: []uint64{4}, data: seq(16, 1)},
		{name: "w", dims: []uint64{4}, data: seq(16, 2), offset: 32},
	}}.build(), ErrFormat, `"w"`, "twice")
	require.Equal(t, "w", e.Tensor)

	e = refuse(t, spec{kv: []kv{{"k", uint32(1)}, {"j", "x"}, {"k", uint32(1)}}}.build(), ErrFormat, "k: ", "twice")
	require.Equal(t, "k", e.Field)

	parts := splitSet(2)
	parts["m-00002-of-00002.gguf"].Data = bytes.ReplaceAll(parts["m-00002-of-00002.gguf"].Data, []byte("t1"), []byte("t0"))
	_, err := OpenFS(parts, "m-00001-of-00002.gguf", Options{})
	require.ErrorIs(t, err, ErrFormat)
	require.ErrorContains(t, err, `tensor "t0": name occurs twice: in parts 1 and 2 in m-00002-of-00002.gguf`)
}

// Case A19.
func TestRanksThatDoNotExistAreRefused(t *testing.T) {
	for _, n := range []uint32{5, 9, 16, 0xFFFFFFFF} {
		r := preamble(3, binary.LittleEndian, 1, 0)
		r.str("t")
		r.u32(n)
		for range min(n, 20) {
			r.u64(1)
		}
		r.u32(0)
		r.u64(0)
		refuse(t, append(r.b, make([]byte, 64)...), ErrFormat, `"t"`, fmt.Sprint(n))
	}
	f := mustRead(t, spec{ti: []ti{{name: "s", data: seq(4, 3)}}}.build())
	require.Equal(t, tensor.Shape{}, f.Tensors()[0].Shape)
	require.EqualValues(t, 4, f.Tensors()[0].Bytes)
	require.Equal(t, seq(4, 3), payload(t, f, "s"))
}

// Case A20.
func TestSizesThatOverflowAreRefused(t *testing.T) {
	for _, c := range []ti{
		{typ: 0, dims: []uint64{1 << 32, 1 << 32}},
		{typ: 12, dims: []uint64{1<<42 + 256, 1 << 22}},
		{typ: 24, dims: []uint64{math.MaxInt64, 2}},
		{typ: 0, dims: []uint64{1 << 62, 4}},
		{typ: 0, dims: []uint64{1 << 62}},
		{typ: 0, dims: []uint64{1 << 63}},
		{typ: 24, dims: []uint64{math.MaxUint64, 1}},
		{typ: 24, dims: []uint64{1, 1 << 63}},
		{typ: 200, dims: []uint64{1 << 32, 1 << 32}},
		{typ: 0, dims: []uint64{0, 1 << 32, 1 << 32}}, // strides would wrap
	} {
		c.name = "t"
		e := refuse(t, pad(spec{ti: []ti{c}}.build(), 4096), ErrFormat, `"t"`, "2⁶³")
		require.Positive(t, e.Offset)
	}
	// In range, but far past the end.
	refuse(t, pad(spec{ti: []ti{{name: "t", typ: 24, dims: []uint64{math.MaxInt64}}}}.build(), 4096), ErrTruncated, `"t"`)
}

// Case A22.
func TestTensorCountTimesSizeDoesNotWrap(t *testing.T) {
	for _, n := range []uint64{math.MaxUint64 / 368, math.MaxUint64/368 + 1, math.MaxUint64/368 + 2, math.MaxUint64/24 + 1} {
		r := preamble(3, binary.LittleEndian, n, 0)
		r.info("t", 0, 0, 1)
		refuse(t, append(r.b, make([]byte, 64)...), ErrTruncated, "n_tensors", fmt.Sprint(n))
	}
}

// Case A24.
func TestOffsetsStayWithinTheFile(t *testing.T) {
	one := func(offset uint64) spec {
		return spec{ti: []ti{{name: "t", dims: []uint64{16}, offset: offset}}}
	}
	for _, offset := range []uint64{1 << 40, math.MaxUint64 - 31, math.MaxInt64 - 31, 1 << 63, 4096} {
		refuse(t, append(pad(one(offset).build(), 32), seq(64, 1)...), ErrTruncated, `"t"`, "past end of file")
	}
	whole := append(pad(one(0).build(), 32), seq(64, 1)...)
	mustRead(t, whole)
	refuse(t, whole[:len(whole)-1], ErrTruncated, `"t"`, "past end of file", "1 bytes short")
	for _, offset := range []uint64{1, 4, 16, 33} {
		refuse(t, append(pad(one(offset).build(), 32), seq(200, 1)...), ErrFormat, `"t"`, "alignment 32")
	}
	b := pad(one(4096).build(), 32)
	e := refuse(t, append(b, seq(64, 1)...), ErrTruncated)
	require.True(t, strings.HasPrefix(e.Error(),
		fmt.Sprintf(`gguf: tensor "t": offset %d past end of file (size %d)`, len(b)+4096, len(b)+64)), e.Error())
}

// Case A26.
func TestTensorsThatOverlapAreRefused(t *testing.T) {
	for _, at := range []uint64{96, 128, 0} {
		refuse(t, spec{ti: []ti{
			{name: "A", typ: 8, dims: []uint64{32, 4}, data: seq(136, 1)},
			{name: "B", dims: []uint64{4}, offset: at, data: seq(256, 1)},
		}}.build(), ErrFormat, `"A"`, `"B"`, "136 bytes", fmt.Sprintf("%d are reserved", at))
	}
	mustRead(t, spec{ti: []ti{
		{name: "A", typ: 8, dims: []uint64{32, 4}, data: seq(136, 1)},
		{name: "B", dims: []uint64{4}, offset: 160, data: seq(16, 1)},
	}}.build())
}

// Case A27.
func TestHolesOrderAndAliasesOfTensors(t *testing.T) {
	three := func(offsets [3]uint64) spec {
		s := spec{}
		for i, name := range []string{"a", "b", "c"} {
			s.ti = append(s.ti, ti{name: name, dims: []uint64{8, 2}, offset: offsets[i], data: seq(64, byte(50*i))})
		}
		return s
	}
	for _, offsets := range [][3]uint64{{0, 128, 192}, {128, 64, 0}, {64, 0, 320}} {
		f := mustRead(t, three(offsets).build())
		for i, name := range []string{"a", "b", "c"} {
			require.Equal(t, seq(64, byte(50*i)), payload(t, f, name))
			require.Empty(t, f.Tensors()[i].AliasOf)
		}
	}
	f := mustRead(t, three([3]uint64{0, 128, 192}).build())
	require.EqualValues(t, 128, f.Tensors()[0].Reserved)
	require.EqualValues(t, 64, f.Tensors()[1].Reserved)
	require.EqualValues(t, 64, f.Tensors()[2].Reserved)

	f = mustRead(t, three([3]uint64{64, 0, 64}).build())
	require.Equal(t, "a", f.Tensors()[2].AliasOf)
	require.Empty(t, f.Tensors()[0].AliasOf)
	require.Equal(t, payload(t, f, "a"), payload(t, f, "c"))

	other := three([3]uint64{0, 64, 64})
	other.ti[2].typ = 26 // as many bytes of another type
	refuse(t, other.build(), ErrFormat, `"b"`, `"c"`)
	other = three([3]uint64{0, 64, 64})
	other.ti[2].dims = []uint64{8} // the same type, half the range
	refuse(t, other.build(), ErrFormat, `"b"`, `"c"`)
	refuse(t, three([3]uint64{0, 32, 96}).build(), ErrFormat, `"a"`, `"b"`, "64 bytes", "32 are reserved")

	// An alignment that the offsets were not made for.
	s := three([3]uint64{0, 96, 192})
	s.kv = []kv{{keyAlignment, uint32(64)}}
	refuse(t, s.build(), ErrFormat, `"b"`, "offset 96", "alignment 64")
}

// Case A32.
func TestEveryPrefixOfAFileIsRefused(t *testing.T) {
	whole := spec{
		kv: []kv{{"general.name", "x"}, {"n", uint32(7)}, {"list", []string{"a", "bc", ""}}},
		ti: []ti{
			{name: "first", dims: []uint64{8, 2}, data: seq(64, 1)},
			{name: "second", typ: 8, dims: []uint64{32}, offset: 64, data: seq(34, 2)},
		},
	}.build()
	padded := pad(bytes.Clone(whole), 32)
	for n := range padded {
		f, err := readBytes(padded[:n:n])
		if n >= len(whole) {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrTruncated, "%d bytes", n)
		require.Nil(t, f)
		var e *Error
		require.ErrorAs(t, err, &e)
	}
	refuse(t, nil, ErrTruncated, "magic", "0 remain")
	refuse(t, []byte("GGUF"), ErrTruncated, "version")

	// A reader that ends before the size it was given, and one that fails.
	_, err := Read(bytes.NewReader(whole[:100]), int64(len(whole)), Options{})
	require.ErrorIs(t, err, ErrTruncated)
	_, err = Read(failing{}, 1000, Options{})
	require.ErrorIs(t, err, fs.ErrPermission)
}

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, fs.ErrPermission }

// Case A34.
func TestLengthsThatWrapAreRefused(t *testing.T) {
	for _, n := range []uint64{math.MaxUint64, math.MaxUint64 - 7, math.MaxInt64, 1 << 63} {
		r := preamble(3, binary.LittleEndian, 0, 1)
		r.u64(n) // of the key
		refuse(t, append(r.b, make([]byte, 64)...), ErrTruncated, "key")

		r = preamble(3, binary.LittleEndian, 1, 0)
		r.u64(n) // of the tensor's name
		refuse(t, append(r.b, make([]byte, 64)...), ErrTruncated, "name")

		for _, kind := range []arch.Kind{arch.Uint16, arch.Float32, arch.Float64, arch.String, arch.Array, arch.Bool} {
			r = preamble(3, binary.LittleEndian, 0, 1)
			r.str("k")
			r.u32(uint32(arch.Array))
			r.u32(uint32(kind))
			r.u64(n/uint64(max(kind.Size(), 2)) + 1) // times the size wraps to little
			refuse(t, append(r.b, make([]byte, 64)...), ErrTruncated, "k: ")
		}
	}
}

// Case A39.
func TestBytesThatAreNoTextAreKept(t *testing.T) {
	tokens := []string{"\xe2\x96", "\xbf", "\xf0\x9f\x98", "\x00", ""}
	for c := 0x80; c <= 0xff; c++ {
		tokens = append(tokens, string([]byte{byte(c)}))
	}
	f := mustRead(t, spec{kv: []kv{{"tokens", tokens}, {"\xff\xfe", "\xff"}}}.build())
	v, _ := f.Value("tokens")
	a, _ := v.Array()
	require.Equal(t, len(tokens), a.Len())
	for i, s := range tokens {
		require.Equal(t, s, a.Text(i))
		text, ok := a.At(i).Text()
		require.True(t, ok)
		require.Equal(t, s, text)
	}
	v, ok := f.Value("\xff\xfe")
	require.True(t, ok)
	s, _ := v.Text()
	require.Equal(t, "\xff", s)

	for _, b := range [][]byte{
		spec{kv: []kv{{"\xff\xfe", "\xff"}, {"\xff\xfe", "\xff"}}}.build(),
		spec{ti: []ti{{name: "\x80", dims: []uint64{4}}}}.build(),
		[]byte("\xff\xfe\x00 no magic"),
	} {
		_, err := readBytes(b)
		require.Error(t, err)
		require.True(t, utf8.ValidString(err.Error()), err.Error())
	}
}

// The structs of some block formats, written by encoding/binary in either order: a statement of what a
// big-endian file holds that shares nothing with the table under test.
type (
	blockQ4_0 struct {
		D  uint16
		Qs [16]byte
	}
	blockQ5_1 struct {
		D, M uint16
		Qh   uint32
		Qs   [16]byte
	}
	blockQ4_K struct {
		D, Dmin uint16
		Scales  [12]byte
		Qs      [128]byte
	}
	blockQ6_K struct {
		Ql     [128]byte
		Qh     [64]byte
		Scales [16]int8
		D      uint16
	}
	blockQ8_K struct {
		D     float32
		Qs    [256]int8
		Bsums [16]int16
	}
	blockIQ1_S struct {
		D  uint16
		Qs [32]byte
		Qh [8]uint16
	}
	blockIQ3_XXS struct {
		D     uint16
		Qs    [64]byte
		Signs [8]uint32
	}
)

// Case A40.
func TestBigEndianFilesAreRead(t *testing.T) {
	rows := func(block any) any { // three blocks, so that positions within blocks matter
		switch b := block.(type) {
		case blockQ4_0:
			return [3]blockQ4_0{b, {D: 2, Qs: b.Qs}, b}
		case blockQ4_K:
			return [3]blockQ4_K{b, {D: 2, Dmin: 0x1234}, b}
		case blockQ6_K:
			return [3]blockQ6_K{b, {D: 0x1234}, b}
		}
		return block
	}
	for _, c := range []struct {
		typ  uint32
		elem uint64 // elements of data
		data any
	}{
		{0, 3, [3]float32{1, -2.5, 3e-30}},
		{1, 3, [3]uint16{1, 0x3c00, 0x1234}},
		{24, 3, [3]int8{1, -2, 3}},
		{25, 2, [2]int16{1, -2}},
		{26, 2, [2]int32{1, -2}},
		{27, 2, [2]int64{1, -2}},
		{28, 2, [2]float64{1, -2}},
		{30, 2, [2]uint16{0x3f80, 0x1234}},
		{2, 96, rows(blockQ4_0{D: 0x3c01, Qs: [16]byte{1, 2, 3}})},
		{7, 32, blockQ5_1{D: 0x3c01, M: 0x1234, Qh: 0x01020304, Qs: [16]byte{1, 2, 3}}},
		{12, 768, rows(blockQ4_K{D: 0x3c01, Dmin: 0x2345, Scales: [12]byte{1, 2}, Qs: [128]byte{3, 4}})},
		{14, 768, rows(blockQ6_K{D: 0x3c01, Ql: [128]byte{1, 2}, Scales: [16]int8{-1, 3}})},
		{15, 256, blockQ8_K{D: 1.5, Qs: [256]int8{1, 2}, Bsums: [16]int16{3, -4}}},
		{19, 256, blockIQ1_S{D: 0x3c01, Qs: [32]byte{1, 2}, Qh: [8]uint16{0x1234, 0x5678}}},
		{18, 256, blockIQ3_XXS{D: 0x3c01, Qs: [64]byte{1, 2}, Signs: [8]uint32{0x12345678, 1}}},
		{39, 32, [17]byte{1, 2, 3}},
	} {
		var files [2]*File
		var want []byte
		for i, order := range []appender{binary.LittleEndian, binary.BigEndian} {
			data, err := binary.Append(nil, order, c.data)
			require.NoError(t, err)
			if i == 0 {
				want = data
			}
			b := spec{order: order, kv: []kv{{"f", float32(1.5)}, {"s", []string{"a", "bc"}}, {keyAlignment, uint32(64)}},
				alignment: 64, ti: []ti{{name: "t", typ: c.typ, dims: []uint64{c.elem}, data: data}}}.build()
			require.Equal(t, "GGUF", string(b[:4]))
			files[i] = mustRead(t, b)
		}
		big := files[1]
		require.Equal(t, binary.BigEndian, big.ByteOrder())
		require.Equal(t, binary.LittleEndian, files[0].ByteOrder())
		require.Equal(t, 3, big.Version())
		v, _ := big.Value("f")
		x, ok := v.Float()
		require.True(t, ok)
		require.Equal(t, 1.5, x)
		require.Equal(t, files[0].Tensors(), big.Tensors())
		require.Equal(t, want, payload(t, files[0], "t"))
		require.Equal(t, want, payload(t, big, "t"), "type %d", c.typ)

		// Any window gives the same bytes.
		p, err := big.Payload("t")
		require.NoError(t, err)
		for _, at := range [][2]int{{0, 1}, {1, 2}, {len(want) - 1, 1}, {len(want) / 2, len(want) / 3}, {0, len(want)}} {
			got := make([]byte, at[1])
			_, err := p.ReadAt(got, int64(at[0]))
			require.NoError(t, err)
			require.Equal(t, want[at[0]:at[0]+at[1]], got)
		}
		n, err := p.ReadAt(make([]byte, 10), int64(len(want))-1)
		require.Equal(t, 1, n)
		require.Equal(t, io.EOF, err)
	}
	// Larger than the buffer that blocks are converted in.
	n := 70_000
	data := make([]uint16, n)
	for i := range data {
		data[i] = uint16(i * 7)
	}
	bigEnd, _ := binary.Append(nil, binary.BigEndian, data)
	littleEnd, _ := binary.Append(nil, binary.LittleEndian, data)
	f := mustRead(t, spec{order: binary.BigEndian, ti: []ti{{name: "t", typ: 1, dims: []uint64{uint64(n)}, data: bigEnd}}}.build())
	require.True(t, bytes.Equal(littleEnd, payload(t, f, "t")))

	f = mustRead(t, spec{order: binary.BigEndian, ti: []ti{{name: "t", typ: 16, dims: []uint64{256}, data: seq(66, 1)}}}.build())
	_, err := f.Payload("t")
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, `tensor "t": big-endian IQ2_XXS`)
}

// Case A41.
func TestVersion1IsRead(t *testing.T) {
	for _, order := range []appender{binary.LittleEndian, binary.BigEndian} {
		for _, kvs := range [][]kv{nil, {{"k", "value"}}, {{"a", []string{"x", "", "yz"}}, {"b", uint64(5)}}} {
			data, _ := binary.Append(nil, order, []float32{1, 2, 3, 4, 5, 6})
			s := spec{version: 1, order: order, kv: kvs, ti: []ti{{name: "t", dims: []uint64{3, 2}, data: data}}}
			f := mustRead(t, s.build())
			require.Equal(t, 1, f.Version())
			require.Equal(t, tensor.ShapeOf(2, 3), f.Tensors()[0].Shape)
			want, _ := binary.Append(nil, binary.LittleEndian, []float32{1, 2, 3, 4, 5, 6})
			require.Equal(t, want, payload(t, f, "t"))
			requireValues(t, f, kvs)

			s.version = 2
			f = mustRead(t, s.build())
			require.Equal(t, 2, f.Version())
			requireValues(t, f, kvs)
		}
	}
}

// Case A43.
func TestOtherFilesAreNamed(t *testing.T) {
	for _, v := range []uint32{0, 4, 5, 256, 50_000, 0xFFFFFFFF} {
		refuse(t, preamble(v, binary.LittleEndian, 0, 0).b, ErrUnsupported, fmt.Sprintf("version %d", v), "versions 1 to 3")
	}
	refuse(t, preamble(4, binary.BigEndian, 0, 0).b, ErrUnsupported, "version 4")
	for begin, texts := range map[string][]string{
		"ggjt\x03\x00\x00\x00":                         {`"ggjt`, "before GGUF"},
		"tjgg\x03\x00\x00\x00":                         {`"tjgg`, "before GGUF"},
		"ggla\x01\x00\x00\x00":                         {`"ggla`, "adapter"},
		"FUGG\x03\x00\x00\x00":                         {`"FUGG`, "reversed"},
		"PK\x03\x04\x14\x00":                           {`PK\x03\x04`, "zip"},
		"\x40\x10\x00\x00\x00\x00\x00\x00{\"__metad":   {"safetensors"},
		"<!DOCTYPE html>\n<html>":                      {"<!DOCTYPE html>", "HTML"},
		"version https://git-lfs.github.com/spec/v1\n": {"git-lfs pointer"},
		"GGU":          {"needs 4 bytes"},
		"gguf\x03":     {`"gguf`},
		"random bytes": {`"random bytes`},
	} {
		b := []byte(begin)
		if begin != "GGU" {
			b = append(b, make([]byte, 100)...)
		}
		_, err := readBytes(b)
		require.Error(t, err)
		for _, s := range texts {
			require.ErrorContains(t, err, s)
		}
		if begin != "GGU" {
			require.ErrorIs(t, err, ErrFormat)
			require.ErrorContains(t, err, "versions 1 to 3")
			require.NotContains(t, err.Error(), "safetensors) (")
		}
	}
}

// splitSet is a set of n parts with tensors t0, t1, … of which part i holds one, of its own bytes.
func splitSet(n int) fstest.MapFS { return splitSetOf(n, 16) }

// splitSetOf is a set whose tensors have that many bytes.
func splitSetOf(n, size int) fstest.MapFS {
	set := fstest.MapFS{}
	for i := range n {
		s := spec{kv: []kv{{keySplitNo, uint16(i)}, {keySplitCount, uint16(n)}, {keySplitTotal, int32(n)}},
			ti: []ti{{name: fmt.Sprintf("t%d", i), dims: []uint64{uint64(size / 4)}, data: seq(size, byte(i))}}}
		if i == 0 {
			s.kv = append(s.kv, kv{"general.architecture", "llama"})
		}
		set[fmt.Sprintf("m-%05d-of-%05d.gguf", i+1, n)] = &fstest.MapFile{Data: s.build()}
	}
	return set
}

// Case A44.
func TestSplitSetsOpenFromAnyPart(t *testing.T) {
	const p1, p2, p3 = "m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"
	for _, name := range []string{p1, p2, p3} {
		f, err := OpenFS(splitSet(3), name, Options{})
		require.NoError(t, err)
		require.Len(t, f.Parts(), 3)
		require.Equal(t, name, f.Name())
		for i, t2 := range f.Tensors() {
			require.Equal(t, fmt.Sprintf("t%d", i), t2.Name)
			require.Equal(t, i, t2.File)
			require.Equal(t, seq(16, byte(i)), payload(t, f, t2.Name))
			at, err := f.Extent(t2.Name)
			require.NoError(t, err)
			require.Equal(t, Extent{Part: i, Offset: f.Parts()[i].DataOffset, Bytes: 16}, at)
		}
		v, ok := f.Value("general.architecture")
		require.True(t, ok)
		s, _ := v.Text()
		require.Equal(t, "llama", s)
		require.NoError(t, f.Close())
		require.ErrorIs(t, f.ReadTensor("t0", io.Discard), fs.ErrClosed)
	}

	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, splitSet(3)))
	f, err := Open(filepath.Join(dir, p3), Options{})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, p1), f.Parts()[0].Path)
	require.NotNil(t, f.Parts()[1].OSFile())
	require.Equal(t, seq(16, 1), payload(t, f, "t1"))
	require.NoError(t, f.Close())

	for what, c := range map[string]struct {
		open   string
		change func(fstest.MapFS)
		texts  []string
	}{
		"missing":       {p1, func(s fstest.MapFS) { delete(s, p3) }, []string{"part 3 of 3 is missing", p3}},
		"first missing": {p2, func(s fstest.MapFS) { delete(s, p1) }, []string{"part 1 of 3 is missing", p1}},
		"renamed": {"first.gguf", func(s fstest.MapFS) { s["first.gguf"] = s[p1]; delete(s, p1) },
			[]string{"first.gguf", "part 1 of 3", "NAME-00001-of-00003.gguf"}},
		"renumbered":         {p1, func(s fstest.MapFS) { s[p1] = s[p2] }, []string{"named part 1 of 3", "part 2 of 3"}},
		"sibling renumbered": {p1, func(s fstest.MapFS) { s[p2] = s[p3] }, []string{p2, "part 3 of 3", "named part 2 of 3"}},
		"no part":            {p1, func(s fstest.MapFS) { s[p2].Data = spec{}.build() }, []string{p2, "part 1 of 0"}},
		"foreign count": {p1, func(s fstest.MapFS) { s[p2].Data = part(1, 3, 4, kv{"x", "y"}) },
			[]string{p2, "another set", keySplitTotal}},
		"foreign metadata": {p1, func(s fstest.MapFS) { s[p2].Data = part(1, 3, 3, kv{"general.architecture", "qwen2"}) },
			[]string{p2, "another set", "general.architecture"}},
		"tensor count": {p1, func(s fstest.MapFS) { s[p2].Data = part(1, 3, 3, kv{"general.architecture", "llama"}) },
			[]string{"hold 2 tensors", "is 3"}},
		"not GGUF":          {p1, func(s fstest.MapFS) { s[p2].Data = []byte("<html>") }, []string{p2, "HTML"}},
		"number past count": {p1, func(s fstest.MapFS) { s[p1].Data = part(3, 3, 3, kv{"x", "y"}) }, []string{keySplitNo, "part number 3"}},
	} {
		set := splitSet(3)
		c.change(set)
		f, err := OpenFS(set, c.open, Options{})
		require.Error(t, err, what)
		require.Nil(t, f, what)
		var e *Error
		require.ErrorAs(t, err, &e, what)
		if what != "not GGUF" {
			require.ErrorIs(t, err, ErrSplit, what)
		}
		for _, s := range c.texts {
			require.ErrorContains(t, err, s, what)
		}
	}

	refuse(t, spec{kv: []kv{{keySplitCount, "3"}}}.build(), ErrFormat, keySplitCount, "a string")
	refuse(t, spec{kv: []kv{{keySplitNo, int32(-1)}}}.build(), ErrFormat, keySplitNo)
	one := splitSet(3)[p2].Data
	_, err = readBytes(one)
	require.ErrorIs(t, err, ErrSplit)
	require.ErrorContains(t, err, "part 2 of 3")
	mustRead(t, one, Options{SinglePart: true})
	f, err = OpenFS(splitSet(3), p2, Options{SinglePart: true})
	require.NoError(t, err)
	require.Len(t, f.Tensors(), 1)

	f, err = OpenFS(splitSet(1), "m-00001-of-00001.gguf", Options{}) // a set of one needs no siblings
	require.NoError(t, err)
	require.Len(t, f.Tensors(), 1)
}

// part is a part without tensors.
func part(no, count, tensors int, more kv) []byte {
	return spec{kv: []kv{{keySplitNo, uint16(no)}, {keySplitCount, uint16(count)}, {keySplitTotal, int32(tensors)}, more}}.build()
}

// Case A47.
func TestTensorsOfUnknownTypesAreListed(t *testing.T) {
	// More types than rows of the table: MXFP4 is known, Q4_2 retired, the others unknown.
	f := mustRead(t, spec{ti: []ti{
		{name: "mxfp4", typ: 39, dims: []uint64{64, 2}, data: seq(68, 1)},
		{name: "nvfp4", typ: 40, dims: []uint64{64}, offset: 96, data: seq(36, 2)},
		{name: "u63", typ: 63, dims: []uint64{100}, offset: 160, data: seq(90, 3)},
		{name: "dense", typ: 0, dims: []uint64{4}, offset: 256, data: seq(16, 4)},
		{name: "u200", typ: 200, dims: []uint64{5, 7}, offset: 288, data: seq(50, 5)},
		{name: "retired", typ: 4, dims: []uint64{32}, offset: 352, data: seq(20, 5)},
		{name: "memory", typ: 256, dims: []uint64{128}, offset: 384, data: seq(160, 5)},
		{name: "none", typ: 0xFFFFFFFE, dims: []uint64{0, 3}},
		{name: "last", typ: 0xFFFFFFFF, dims: []uint64{7}, offset: 544, data: seq(100, 6)},
	}}.build())
	for i, want := range []struct {
		bytes, reserved int64
		name            string
	}{
		{68, 96, "MXFP4"}, {36, 64, "NVFP4"}, {-1, 96, "type 63"}, {16, 32, "F32"}, {-1, 64, "type 200"},
		{-1, 32, "Q4_2"}, {-1, 160, "type 256"}, {0, 0, "type 4294967294"}, {-1, 100, "type 4294967295"},
	} {
		info := f.Tensors()[i]
		require.Equal(t, want.bytes, info.Bytes, info.Name)
		require.Equal(t, want.reserved, info.Reserved, info.Name)
		require.Equal(t, want.name, info.TypeName())
		err := f.ReadTensor(info.Name, io.Discard)
		if want.bytes >= 0 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrUnsupported)
		require.ErrorContains(t, err, fmt.Sprintf("%q", info.Name))
		require.ErrorContains(t, err, fmt.Sprintf("type %d", info.Type))
		_, known := info.Encoding.Info()
		require.Equal(t, info.Name == "retired", known)
	}
	// Unknown sizes overlap where they begin within another tensor, or two at one place differ.
	for _, second := range []ti{{name: "b", typ: 200, dims: []uint64{4}, offset: 32}, {name: "b", typ: 201, dims: []uint64{16}},
		{name: "b", typ: 200, dims: []uint64{15}}, {name: "b", typ: 0, dims: []uint64{16}}} {
		first := ti{name: "a", typ: 200, dims: []uint64{16}, data: seq(64, 1)}
		if second.offset > 0 {
			first.typ = 0
		}
		refuse(t, spec{ti: []ti{first, second}}.build(), ErrFormat, `"a"`, `"b"`)
	}
	f = mustRead(t, spec{ti: []ti{{name: "a", typ: 200, dims: []uint64{16}, data: seq(64, 1)}, {name: "b", typ: 200, dims: []uint64{16}}}}.build())
	require.Equal(t, "a", f.Tensors()[1].AliasOf)
	refuse(t, spec{ti: []ti{{name: "a", typ: 200, dims: []uint64{16}, offset: 64}}}.build(), ErrTruncated, `"a"`)
}

// Case A50.
func TestRowsAreWholeBlocks(t *testing.T) {
	for _, c := range []struct {
		typ   uint32
		dims  []uint64
		texts []string
	}{
		{12, []uint64{896, 256}, []string{"896", "Q4_K", "256"}},
		{2, []uint64{48, 2}, []string{"48", "Q4_0", "32"}},
		{8, []uint64{33, 32}, []string{"33", "Q8_0", "32"}},
		{8, nil, []string{"row of 1 ", "Q8_0", "32"}},
	} {
		refuse(t, pad(spec{ti: []ti{{name: "t", typ: c.typ, dims: c.dims}}}.build(), 1<<18), ErrFormat, append(c.texts, `"t"`)...)
	}
}

// Case A51.
func TestPartOfADownloadIsRefused(t *testing.T) {
	s := spec{kv: []kv{{"general.architecture", "llama"}, {"text", strings.Repeat("x", 200)}}}
	for i := range uint64(3) {
		s.ti = append(s.ti, ti{name: fmt.Sprintf("t%d", i), typ: 8, dims: []uint64{32, 8}, offset: i * 288, data: seq(272, byte(i))})
	}
	b := s.build()
	start := len(b) - 2*288 - 272
	refuse(t, b[:200], ErrTruncated, "text: ") // in the metadata
	refuse(t, b[:start-40], ErrTruncated, `"t2"`)
	for cut, first := range map[int]string{start + 10: "t0", start + 288: "t1", start + 400: "t1", len(b) - 1: "t2"} {
		missing := fmt.Sprintf("%d bytes short", len(b)-cut)
		refuse(t, b[:cut], ErrTruncated, fmt.Sprintf("%q", first), missing)

		f := mustRead(t, b[:cut], Options{HeaderOnly: true})
		require.ErrorIs(t, f.Truncated(), ErrTruncated)
		require.ErrorContains(t, f.Truncated(), missing)
		require.Len(t, f.Tensors(), 3)
		for i, info := range f.Tensors() {
			err := f.ReadTensor(info.Name, io.Discard)
			if info.Name < first {
				require.NoError(t, err)
				require.Equal(t, seq(272, byte(i)), payload(t, f, info.Name))
				continue
			}
			require.ErrorIs(t, err, ErrTruncated)
			require.ErrorContains(t, err, fmt.Sprintf("%q", info.Name))
		}
	}
	require.NoError(t, mustRead(t, b, Options{HeaderOnly: true}).Truncated())

	// A file that shrinks after it was opened.
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	f, err := Open(path, Options{})
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Truncate(path, int64(start+300)))
	err = f.ReadTensor("t1", io.Discard)
	require.ErrorIs(t, err, ErrTruncated)
	require.ErrorIs(t, err, ErrChanged)
	require.ErrorContains(t, err, `"t1"`)
	require.ErrorContains(t, err, path)
	// What is still there need not be what it was.
	err = f.ReadTensor("t0", io.Discard)
	require.ErrorIs(t, err, ErrChanged)
	require.ErrorContains(t, err, `"t0"`)
	_, err = f.Check(context.Background(), "t0")
	require.ErrorIs(t, err, ErrChanged)
	require.ErrorIs(t, f.Parts()[0].Verify(), ErrChanged)
	require.ErrorContains(t, f.Parts()[0].Verify(), path)
}

// A file of full size with a hole runs and speaks nonsense: the check of payloads sees it, and scales
// that are not finite.
// Case A51.
func TestCheckSeesHolesAndScalesThatAreNotFinite(t *testing.T) {
	for _, c := range []struct {
		enc   tensor.Encoding
		scale []int // bytes of a block that make it infinite when they are 0xff
	}{
		{tensor.Q4_0, []int{0, 1}}, {tensor.Q4_1, []int{2, 3}}, {tensor.Q5_1, []int{2, 3}}, {tensor.Q8_0, []int{0, 1}}, {tensor.Q2_K, []int{82, 83}},
		{tensor.Q3_K, []int{108, 109}}, {tensor.Q4_K, []int{0, 1}}, {tensor.Q4_K, []int{2, 3}}, {tensor.Q6_K, []int{208, 209}},
		{tensor.IQ1_M, []int{53, 55}}, {tensor.IQ2_XXS, []int{0, 1}}, {tensor.TQ1_0, []int{52, 53}}, {tensor.TQ2_0, []int{64, 65}},
		{tensor.Q8_K, []int{2, 3}}, {tensor.MXFP4, nil}, {tensor.NVFP4, nil}, {tensor.Encoding(tensor.F16), []int{0, 1}},
		{tensor.Encoding(tensor.BF16), []int{0, 1}}, {tensor.Encoding(tensor.F32), []int{2, 3}}, {tensor.Encoding(tensor.F64), []int{6, 7}},
		{tensor.Encoding(tensor.I32), nil},
	} {
		info, ok := c.enc.Info()
		require.True(t, ok)
		const rows, blocks = 2000, 5
		size := info.BlockBytes
		data := bytes.Repeat([]byte{0x11}, rows*blocks*size)
		at := func(row, block int) []byte { return data[(row*blocks+block)*size:][:size] }
		check := func() []Finding {
			f := mustRead(t, spec{ti: []ti{{name: "t", typ: uint32(c.enc), dims: []uint64{uint64(blocks * info.BlockElements), 20, rows / 20}, data: data}}}.build())
			found, err := f.Check(t.Context(), "t")
			require.NoError(t, err)
			return found
		}
		require.Empty(t, check(), info.Name)
		var want []Finding
		for _, i := range c.scale {
			at(1234, 3)[i], at(1999, 4)[i] = 0xff, 0xff
		}
		if c.scale != nil {
			want = append(want, Finding{"t", NotFinite, 1234, 3, 2})
		}
		for block := range blocks {
			clear(at(1500, block))
		}
		if info.BlockElements > 1 {
			want = append(want, Finding{"t", ZeroBlock, 1500, 0, blocks})
		}
		require.Equal(t, want, check(), info.Name)
	}
	require.Equal(t, `tensor "t": 2 blocks whose scale is not finite, the first is block 3 of row 1234`, Finding{"t", NotFinite, 1234, 3, 2}.String())

	f := mustRead(t, spec{ti: []ti{{name: "t", typ: 2, dims: []uint64{32}, data: seq(18, 1)}, {name: "u", typ: 200, dims: []uint64{1}, offset: 32, data: seq(1, 1)}}}.build())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Check(ctx, "t")
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.Check(t.Context(), "u")
	require.ErrorIs(t, err, ErrUnsupported)
	_, err = f.Check(t.Context(), "absent")
	require.ErrorIs(t, err, ErrNotFound)

	// A sparse file with a hole of whole pages.
	path := filepath.Join(t.TempDir(), "m.gguf")
	whole := spec{ti: []ti{{name: "t", typ: 8, dims: []uint64{32, 1000}, data: bytes.Repeat([]byte{0x11}, 34_000)}}}.build()
	require.NoError(t, os.WriteFile(path, whole[:8192], 0o600))
	require.NoError(t, os.Truncate(path, int64(len(whole))))
	f, err = Open(path, Options{})
	require.NoError(t, err)
	defer f.Close()
	found, err := f.Check(t.Context(), "t")
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, ZeroBlock, found[0].Kind)
	require.Equal(t, (8192-f.Parts()[0].DataOffset+33)/34, found[0].Row)
}

// counting counts the reads of a file.
type counting struct {
	io.ReaderAt
	reads, bytes int
}

func (c *counting) ReadAt(b []byte, off int64) (int, error) {
	c.reads++
	c.bytes += len(b)
	return c.ReaderAt.ReadAt(b, off)
}

// vocabulary is a header with n tokens, their side arrays and merges.
func vocabulary(n int) spec {
	tokens, merges := make([]string, n), make([]string, n)
	scores, types := make([]float32, n), make([]int32, n)
	for i := range tokens {
		tokens[i] = fmt.Sprintf("tok%d", i)
		merges[i] = fmt.Sprintf("a%d b%d", i, i%97)
		scores[i], types[i] = -float32(i), int32(i%6+1)
	}
	return spec{
		kv: []kv{{"general.architecture", "llama"}, {"tokenizer.ggml.tokens", tokens}, {"tokenizer.ggml.scores", scores},
			{"tokenizer.ggml.token_type", types}, {"tokenizer.ggml.merges", merges}},
		ti: []ti{{name: "t", dims: []uint64{4}, data: seq(16, 1)}},
	}
}

// Case A53.
func TestLargeVocabularyIsReadWithFewAllocations(t *testing.T) {
	const n = 262_144
	b := vocabulary(n).build()
	c := &counting{ReaderAt: bytes.NewReader(b)}
	began := cpuTime(t)
	f, err := Read(c, int64(len(b)), Options{})
	took := cpuTime(t) - began
	require.NoError(t, err)
	require.Less(t, c.reads, 20)
	require.LessOrEqual(t, c.bytes, len(b))
	require.Less(t, took, timeLimit/5)
	allocs := testing.AllocsPerRun(3, func() { _, _ = Read(bytes.NewReader(b), int64(len(b)), Options{}) })
	require.Less(t, allocs, 200.0)

	v, _ := f.Value("tokenizer.ggml.tokens")
	tokens, _ := v.Array()
	v, _ = f.Value("tokenizer.ggml.merges")
	merges, _ := v.Array()
	total := 0
	allocs = testing.AllocsPerRun(1, func() {
		for i := range n {
			total += len(tokens.Text(i)) + len(merges.Text(n-1-i))
		}
	})
	require.Less(t, allocs, 10.0)
	for _, i := range []int{0, 1, 7, 8, 9, 100_001, n - 1} {
		require.Equal(t, fmt.Sprintf("tok%d", i), tokens.Text(i))
		require.Equal(t, fmt.Sprintf("a%d b%d", i, i%97), merges.Text(i))
	}
	require.Panics(t, func() { tokens.Text(n) })
	require.Panics(t, func() { tokens.At(-1) })
}

// Case C29.
func TestMisalignedPayloadsAreReadAndShortOnesRefused(t *testing.T) {
	s := spec{kv: []kv{{keyAlignment, uint8(1)}}, alignment: 1, ti: []ti{
		{name: "f32", typ: 0, dims: []uint64{3}, offset: 1, data: seq(12, 1)},
		{name: "q4_0", typ: 2, dims: []uint64{32, 3}, offset: 15, data: seq(54, 2)},
		{name: "f16", typ: 1, dims: []uint64{5}, offset: 69, data: seq(10, 3)},
	}}
	b := s.build()
	f := mustRead(t, b)
	for _, x := range s.ti {
		require.Equal(t, x.data, payload(t, f, x.name))
		at, err := f.Extent(x.name)
		require.NoError(t, err)
		require.Equal(t, x.data, b[at.Offset:at.Offset+at.Bytes])
	}
	refuse(t, b[:len(b)-1], ErrTruncated, `"f16"`, "1 bytes short")
}
