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
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/tensor"
)

// made is the metadata value of what build_test.go writes by itself.
func made(v any) arch.Value {
	switch v := v.(type) {
	case uint8:
		return NumberOf(v)
	case int8:
		return NumberOf(v)
	case uint16:
		return NumberOf(v)
	case int16:
		return NumberOf(v)
	case uint32:
		return NumberOf(v)
	case int32:
		return NumberOf(v)
	case uint64:
		return NumberOf(v)
	case int64:
		return NumberOf(v)
	case float32:
		return NumberOf(v)
	case float64:
		return NumberOf(v)
	case bool:
		return NumberOf(v)
	case string:
		return TextOf(v)
	case list:
		switch v.elem {
		case arch.Uint8:
			return numbers[uint8](v)
		case arch.Int8:
			return numbers[int8](v)
		case arch.Uint16:
			return numbers[uint16](v)
		case arch.Int16:
			return numbers[int16](v)
		case arch.Uint32:
			return numbers[uint32](v)
		case arch.Int32:
			return numbers[int32](v)
		case arch.Uint64:
			return numbers[uint64](v)
		case arch.Int64:
			return numbers[int64](v)
		case arch.Float32:
			return numbers[float32](v)
		case arch.Float64:
			return numbers[float64](v)
		case arch.Bool:
			return numbers[bool](v)
		case arch.String:
			return TextsOf(as[string](v))
		case arch.Array:
			var all []arch.Value
			for _, x := range v.vals {
				all = append(all, made(x))
			}
			return ArraysOf(all...)
		}
	}
	panic(fmt.Sprintf("%T", v))
}

func as[T any](l list) (all []T) {
	for _, x := range l.vals {
		all = append(all, x.(T))
	}
	return all
}

func numbers[T Number](l list) arch.Value { return NumbersOf(as[T](l)) }

// foreign is a value of an implementation that is not this package's.
type foreign struct{ arch.Value }

func (f foreign) Array() (arch.Values, bool) {
	a, ok := f.Value.Array()
	return foreigns{a}, ok
}

type foreigns struct{ arch.Values }

func (f foreigns) At(i int) arch.Value { return foreign{f.Values.At(i)} }

// drawSpec draws a file: any metadata, tensors of every type that has a byte order. Payload is random.
func drawSpec(t *rapid.T) spec {
	var types []tensor.EncodingInfo
	big := rapid.Bool().Draw(t, "big")
	for info := range tensor.Encodings() {
		if _, ok := swappingOf(info.ID); !info.Retired && info.ID < firstInMemory && (ok || !big) {
			types = append(types, info)
		}
	}
	s := spec{version: 3, order: binary.LittleEndian, alignment: 1 << rapid.IntRange(0, 8).Draw(t, "alignment")}
	if big {
		s.order = binary.BigEndian
	} else {
		s.version = rapid.Uint32Range(2, 3).Draw(t, "version")
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "keys") {
		s.kv = append(s.kv, kv{string(rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "key")) + fmt.Sprint(i), drawValue(t, maxDepth)})
	}
	if s.alignment != defaultAlignment || rapid.Bool().Draw(t, "stated") {
		s.kv = append(s.kv, kv{keyAlignment, uint32(s.alignment)})
	}
	offset := uint64(0)
	for i := range rapid.IntRange(0, 6).Draw(t, "tensors") {
		info := rapid.SampledFrom(types).Draw(t, "type")
		x := ti{name: string(rapid.SliceOfN(rapid.Byte(), 0, 70).Draw(t, "name")) + fmt.Sprint(i), typ: uint32(info.ID), offset: offset}
		blocks := uint64(1)
		rank := rapid.IntRange(0, 4).Draw(t, "rank")
		if info.BlockElements > 1 {
			rank = max(rank, 1)
		}
		for axis := range rank {
			d := rapid.Uint64Range(0, 4).Draw(t, "dim")
			blocks *= d
			if axis == 0 {
				d *= uint64(info.BlockElements)
			}
			x.dims = append(x.dims, d)
		}
		x.data = rapid.SliceOfN(rapid.Byte(), int(blocks)*info.BlockBytes, int(blocks)*info.BlockBytes).Draw(t, "data")
		offset = (offset + uint64(len(x.data)) + s.alignment - 1) &^ (s.alignment - 1)
		s.ti = append(s.ti, x)
	}
	return s
}

// header is the spec as the writer takes it.
func (s spec) header() Header {
	h := Header{Version: int(s.version), ByteOrder: s.order}
	for _, k := range s.kv {
		h.Metadata = append(h.Metadata, Pair{k.key, made(k.val)})
	}
	for _, x := range s.ti {
		t := TensorSpec{Name: x.name, Encoding: tensor.Encoding(x.typ)}
		dims := slices.Clone(x.dims)
		slices.Reverse(dims)
		t.Shape.Rank = uint8(len(dims))
		for i, d := range dims {
			t.Shape.Dims[i] = int64(d)
		}
		h.Tensors = append(h.Tensors, t)
	}
	return h
}

// native is a tensor's payload in little-endian order.
func (s spec) native(x ti) []byte {
	b := slices.Clone(x.data)
	if w, _ := swappingOf(tensor.Encoding(x.typ)); s.order == binary.BigEndian {
		reverse(b, w.unit, w.words)
	}
	return b
}

// writeAll writes the payload in pieces of any size.
func (s spec) writeAll(w *Writer, piece func() int) error {
	for _, x := range s.ti {
		out, err := w.Tensor(x.name)
		if err != nil {
			return err
		}
		for b := s.native(x); len(b) > 0; {
			n := min(len(b), piece())
			if _, err := out.Write(b[:n]); err != nil {
				return err
			}
			b = b[n:]
		}
	}
	return nil
}

// A file is, to the byte, what the specification's independent construction in build_test.go makes of it,
// whatever the sizes of the writes; it reads back; and written again from what was read it is the same.
func TestWriteGivesWhatReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		var out bytes.Buffer
		w, err := NewWriter(&out, s.header())
		require.NoError(t, err)
		require.NoError(t, s.writeAll(w, func() int { return rapid.IntRange(1, 200).Draw(t, "piece") }))
		require.NoError(t, w.Close())
		want := s.build()
		if len(s.ti) > 0 || len(want)%int(s.alignment) != 0 {
			want = pad(want, int(s.alignment))
		}
		require.True(t, bytes.Equal(want, out.Bytes()))

		f, err := readBytes(out.Bytes())
		require.NoError(t, err)
		requireValues(t, f, s.kv)
		for _, x := range s.ti {
			var b bytes.Buffer
			require.NoError(t, f.ReadTensor(x.name, &b))
			require.True(t, bytes.Equal(s.native(x), b.Bytes()))
		}
		for _, wrap := range []func(arch.Value) arch.Value{
			func(v arch.Value) arch.Value { return v }, func(v arch.Value) arch.Value { return foreign{v} },
		} {
			h := HeaderOf(f)
			for i := range h.Metadata {
				h.Metadata[i].Value = wrap(h.Metadata[i].Value)
			}
			var again bytes.Buffer
			w, err = NewWriter(&again, h)
			require.NoError(t, err)
			require.NoError(t, w.CopyFrom(context.Background(), f))
			require.NoError(t, w.Close())
			require.True(t, bytes.Equal(out.Bytes(), again.Bytes()))
		}
	})
}

// Floats keep all their bits: NaNs have payloads.
func TestWriteKeepsBits(t *testing.T) {
	bits := uint32(0x7f800001) // a signalling NaN
	v := newValue(arch.Float32, binary.LittleEndian.AppendUint32(nil, bits))
	var out bytes.Buffer
	w, err := NewWriter(&out, Header{Metadata: []Pair{{"k", v}}})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	f := mustRead(t, out.Bytes())
	require.EqualValues(t, bits, valueBits(f.values["k"]))
}

// A file of version 1 is written as one of version 2, with the same content.
func TestWriteOldVersion(t *testing.T) {
	s := spec{version: 1, kv: []kv{{"a", []string{"x", "", "yz"}}, {"b", list{arch.Array, []any{list{arch.Int8, []any{int8(-3)}}}}}},
		ti: []ti{{name: "t", dims: []uint64{3, 2}, data: seq(24, 1)}}}
	f := mustRead(t, s.build())
	var out bytes.Buffer
	w, err := NewWriter(&out, HeaderOf(f))
	require.NoError(t, err)
	require.NoError(t, w.CopyFrom(context.Background(), f))
	require.NoError(t, w.Close())
	s.version = 2
	require.Equal(t, pad(s.build(), 32), out.Bytes())
}

func TestWriteRefusesHeaders(t *testing.T) {
	deep := NumbersOf([]uint8{1})
	for range maxDepth {
		deep = ArraysOf(deep)
	}
	one := TensorSpec{"t", tensor.EncF32, tensor.ShapeOf(1)}
	with := func(e tensor.Encoding, dims ...int64) Header {
		return Header{Tensors: []TensorSpec{{"t", e, tensor.ShapeOf(dims...)}}}
	}
	for want, c := range map[string]struct {
		h    Header
		kind error
	}{
		"version: GGUF version 1;":                  {Header{Version: 1}, ErrUnsupported},
		"version: GGUF version 4;":                  {Header{Version: 4}, ErrUnsupported},
		"big-endian files need at least version 3":  {Header{Version: 2, ByteOrder: binary.BigEndian}, ErrUnsupported},
		"key 1 is empty":                            {Header{Metadata: []Pair{{"a", NumberOf(true)}, {"", NumberOf(true)}}}, ErrFormat},
		"a: metadata key occurs twice":              {Header{Metadata: []Pair{{"a", NumberOf(true)}, {"a", NumberOf(true)}}}, ErrFormat},
		"a: no value":                               {Header{Metadata: []Pair{{Key: "a"}}}, ErrFormat},
		"a: arrays nested more than 8 deep":         {Header{Metadata: []Pair{{"a", deep}}}, ErrFormat},
		"general.alignment: not a power":            {Header{Metadata: []Pair{{keyAlignment, NumberOf(int32(48))}}}, ErrFormat},
		"tensor 0 has an empty name":                {Header{Tensors: []TensorSpec{{"", tensor.EncF32, tensor.ShapeOf(1)}}}, ErrFormat},
		`tensor "t": name occurs twice`:             {Header{Tensors: []TensorSpec{one, one}}, ErrFormat},
		`tensor "t": A8 is not a GGUF type`:         {with(tensor.A8, 128), ErrUnsupported},
		`tensor "t": the type is unknown`:           {with(arch.UnknownEncoding, 1), ErrUnsupported},
		`tensor "t": type 99 is not a GGUF type`:    {with(99, 1), ErrUnsupported},
		`tensor "t": Q4_2 is retired`:               {with(tensor.Q4_2, 32), ErrUnsupported},
		`not a multiple of Q4_K's block of 256`:     {with(tensor.Q4_K, 3, 128), ErrFormat},
		`tensor "t": rows of [2 33] are not whole`:  {with(tensor.Q8_1, 2, 33), ErrFormat},
		`tensor "t": tensor: shape [1 1 1 1 …]`:     {with(tensor.EncF32, 1, 1, 1, 1, 1), ErrFormat},
		`negative extent`:                           {with(tensor.EncF32, -1), ErrFormat},
		`take more than 2⁶³ bytes`:                  {with(tensor.EncF32, 0, math.MaxInt64/2), ErrFormat},
		`tensor "u": file of more than 2⁶³ bytes`:   {Header{Tensors: []TensorSpec{{"t", tensor.EncI8, tensor.ShapeOf(1 << 62)}, {"u", tensor.EncI8, tensor.ShapeOf(1 << 62)}}}, ErrLimit},
		`big-endian IQ2_XXS: the byte order of its`: {Header{ByteOrder: binary.BigEndian, Tensors: []TensorSpec{{"t", tensor.IQ2_XXS, tensor.ShapeOf(256)}}}, ErrUnsupported},
	} {
		var out bytes.Buffer
		w, err := NewWriter(&out, c.h)
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, c.kind)
		require.ErrorAs(t, err, new(*Error))
		require.Zero(t, out.Len())
		_ = w
	}
}

func TestWriteRefusesPayload(t *testing.T) {
	h := Header{Tensors: []TensorSpec{{"a", tensor.EncF32, tensor.ShapeOf(2)}, {"b", tensor.EncI8, tensor.ShapeOf(3)}}}
	for want, do := range map[string]func(w *Writer) error{
		`tensor "b": the next tensor is "a"`: func(w *Writer) error { _, err := w.Tensor("b"); return err },
		`tensor "a": 6 bytes written, 2 missing`: func(w *Writer) error {
			out, _ := w.Tensor("a")
			_, _ = out.Write(make([]byte, 6))
			_, err := w.Tensor("b")
			return err
		},
		`tensor "a": 1 bytes more than its size of 8`: func(w *Writer) error {
			out, _ := w.Tensor("a")
			_, err := out.Write(make([]byte, 9))
			return err
		},
		`tensor "a": not written, and 1 more`: func(w *Writer) error { return w.Close() },
		`tensor "b": 0 bytes written, 3 missing`: func(w *Writer) error {
			out, _ := w.Tensor("a")
			_, _ = out.Write(make([]byte, 8))
			_, _ = w.Tensor("b")
			return w.Close()
		},
		`tensor "a": write after tensor "b" was begun`: func(w *Writer) error {
			a, _ := w.Tensor("a")
			_, _ = a.Write(make([]byte, 8))
			_, _ = w.Tensor("b")
			_, err := a.Write(nil)
			return err
		},
		`tensor "c": all 2 tensors have been written already`: func(w *Writer) error {
			a, _ := w.Tensor("a")
			_, _ = a.Write(make([]byte, 8))
			b, _ := w.Tensor("b")
			_, _ = b.Write(make([]byte, 3))
			_, err := w.Tensor("c")
			return err
		},
	} {
		w, err := NewWriter(io.Discard, h)
		require.NoError(t, err)
		err = do(w)
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, ErrPayload)
		require.Equal(t, err, w.Close(), "the first error stays")
	}

	full := errors.New("disk full")
	_, err := NewWriter(writer{full}, Header{})
	require.NoError(t, err) // buffered
	w, err := NewWriter(writer{full}, Header{})
	require.NoError(t, err)
	require.ErrorIs(t, w.Close(), full)
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	s := spec{kv: []kv{{"k", "v"}}, ti: []ti{{name: "t", dims: []uint64{4}, data: seq(16, 1)}}}
	alone := func() {
		t.Helper()
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			require.NotContains(t, e.Name(), "tmp")
		}
	}
	write := func(w *Writer) error { return s.writeAll(w, func() int { return 5 }) }

	// What fails leaves nothing, and an older file as it was.
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	wrong := errors.New("wrong")
	require.ErrorIs(t, WriteFile(path, s.header(), func(w *Writer) error {
		out, err := w.Tensor("t")
		require.NoError(t, err)
		_, err = out.Write(make([]byte, 7))
		require.NoError(t, err)
		return wrong
	}), wrong)
	err := WriteFile(path, s.header(), func(*Writer) error { return nil })
	require.ErrorIs(t, err, ErrPayload)
	require.ErrorContains(t, err, path)
	require.Error(t, WriteFile(path, Header{Version: 9}, nil))
	alone()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(b))

	require.NoError(t, WriteFile(path, s.header(), write))
	alone()
	f, err := Open(path, Options{})
	require.NoError(t, err)
	require.Equal(t, seq(16, 1), payload(t, f, "t"))

	// Canceled in the middle of a copy.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, Merge(ctx, f, filepath.Join(dir, "copy.gguf")), context.Canceled)
	_, err = os.Stat(filepath.Join(dir, "copy.gguf"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	alone()
	require.NoError(t, f.Close())

	// A link stays one; what is no regular file is not replaced; a missing folder is the system's error.
	link := filepath.Join(dir, "link.gguf")
	require.NoError(t, os.Symlink("m.gguf", link))
	require.NoError(t, WriteFile(link, s.header(), write))
	st, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, st.Mode()&fs.ModeSymlink)
	require.ErrorIs(t, WriteFile(dir, s.header(), write), ErrUnsupported)
	require.ErrorIs(t, WriteFile("/dev/null", s.header(), write), ErrUnsupported)
	require.ErrorIs(t, WriteFile(filepath.Join(dir, "none", "m.gguf"), s.header(), write), fs.ErrNotExist)
	alone()
}

// A set keeps the limits as well as greedy filling can, opens from any of its files, and merges into the file
// that it was made of.
func TestSplitAndMerge(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSpec(rt)
		s.version = 3
		path := filepath.Join(dir, "whole.gguf")
		require.NoError(rt, WriteFile(path, s.header(), func(w *Writer) error { return s.writeAll(w, func() int { return 1000 }) }))
		whole, err := Open(path, Options{})
		require.NoError(rt, err)
		defer whole.Close()
		limits := PartLimits{Bytes: rapid.Int64Range(0, 3000).Draw(rt, "bytes"), Tensors: rapid.IntRange(0, 3).Draw(rt, "tensors")}
		paths, err := Split(context.Background(), whole, filepath.Join(dir, "part"), limits)
		require.NoError(rt, err)
		set, err := Open(paths[rapid.IntRange(0, len(paths)-1).Draw(rt, "opened")], Options{})
		require.NoError(rt, err)
		defer set.Close()
		require.Len(rt, set.Parts(), len(paths))
		count := make([]int, len(paths))
		for _, x := range set.Tensors() {
			count[x.File]++
		}
		for i, p := range set.Parts() {
			require.True(rt, limits.Tensors == 0 || count[i] <= limits.Tensors)
			require.True(rt, limits.Bytes == 0 || count[i] <= 1 || p.Size <= limits.Bytes, "part %d of %d bytes", i, p.Size)
			require.True(rt, count[i] > 0 || len(s.ti) == 0)
		}
		merged := filepath.Join(dir, "merged.gguf")
		require.NoError(rt, Merge(context.Background(), set, merged))
		a, err := os.ReadFile(path)
		require.NoError(rt, err)
		b, err := os.ReadFile(merged)
		require.NoError(rt, err)
		require.True(rt, bytes.Equal(a, b))
		for _, p := range paths {
			require.NoError(rt, os.Remove(p))
		}
	})
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

func TestSplitRefuses(t *testing.T) {
	dir := t.TempDir()
	s := spec{ti: []ti{{name: "a", typ: 24, dims: []uint64{4}, data: seq(4, 1)}, {name: "b", typ: 24, dims: []uint64{4}, offset: 32, data: seq(4, 1)}}}
	write := func(w *Writer) error { return s.writeAll(w, func() int { return 5 }) }
	_, err := WriteSplit(filepath.Join(dir, "x"), s.header(), PartLimits{Bytes: -1}, write)
	require.ErrorIs(t, err, ErrLimit)
	// The second part fails: the first is not left behind.
	_, err = WriteSplit(filepath.Join(dir, "x"), s.header(), PartLimits{Tensors: 1}, func(w *Writer) error {
		return errors.Join(write(w), errors.New("late"))
	})
	require.ErrorContains(t, err, "late")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)

	paths, err := WriteSplit(filepath.Join(dir, "x"), s.header(), PartLimits{Tensors: 1}, write)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(paths[1], "x-00002-of-00002.gguf"))
}

// What goes wrong in the middle leaves nothing, also when it panics; and no set is broken by its own merging.
func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.gguf")
	require.NoError(t, os.WriteFile(whole, splitSet(1)["m-00001-of-00001.gguf"].Data, 0o644))
	f, err := Open(whole, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.Panics(t, func() { _ = WriteFile(filepath.Join(dir, "x.gguf"), HeaderOf(f), func(*Writer) error { panic("no") }) })
	require.NoError(t, os.Link(whole, filepath.Join(dir, "other.gguf")))
	require.True(t, f.Holds(filepath.Join(dir, "other.gguf")))
	require.False(t, f.Holds(dir))
	for _, name := range []string{"whole.gguf", "other.gguf"} {
		require.ErrorContains(t, Merge(context.Background(), f, filepath.Join(dir, name)), "the output is an input")
	}
	require.NoError(t, os.Symlink("nowhere.gguf", filepath.Join(dir, "dangling.gguf")))
	require.ErrorContains(t, Merge(context.Background(), f, filepath.Join(dir, "dangling.gguf")), "a link to nothing")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3)
}

// Nothing that is read is written: not the input, not another part of its set, under no name; nor what this process
// has open or mapped for other reasons.
func TestOutputIsNoInput(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	s := spec{ti: []ti{{name: "a", typ: 24, dims: []uint64{4}, data: seq(4, 1)}, {name: "b", typ: 24, dims: []uint64{4}, offset: 32, data: seq(4, 1)}}}
	write := func(w *Writer) error { return s.writeAll(w, func() int { return 5 }) }
	one := PartLimits{Tensors: 1}
	paths, err := WriteSplit(path("x"), s.header(), one, write)
	require.NoError(t, err)
	require.Equal(t, paths, PartPaths(paths[1]))
	require.Equal(t, []string{path("x.gguf")}, PartPaths(path("x.gguf")))
	require.Equal(t, []string{"x-00000-of-00000.gguf"}, PartPaths("x-00000-of-00000.gguf"))
	require.NoError(t, os.Link(paths[1], path("hard-00002-of-00002.gguf")))
	require.NoError(t, os.Symlink(filepath.Base(paths[1]), path("soft-00002-of-00002.gguf")))
	before := map[string]string{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		before[p] = string(b)
	}
	f, err := Open(paths[0], Options{})
	require.NoError(t, err)
	for _, prefix := range []string{"x", "hard", "soft"} {
		_, err := Split(context.Background(), f, path(prefix), one)
		require.ErrorIs(t, err, ErrInUse, prefix)
		require.ErrorAs(t, err, new(*Error))
		_, err = WriteSplit(path(prefix), s.header(), one, write)
		require.ErrorIs(t, err, ErrInUse, prefix)
		name := path(prefix + "-00002-of-00002.gguf")
		require.ErrorIs(t, Merge(context.Background(), f, name), ErrInUse)
		require.ErrorIs(t, WriteFile(name, s.header(), write), ErrInUse)
	}
	for p, want := range before {
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		require.Equal(t, want, string(b))
	}
	require.NoError(t, f.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4, "nothing is left")

	// Closed, they are files like others, and hand on their permissions.
	require.NoError(t, os.Chmod(paths[1], 0o600))
	_, err = WriteSplit(path("x"), s.header(), one, write)
	require.NoError(t, err)
	st, err := os.Stat(paths[1])
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), st.Mode())
}
