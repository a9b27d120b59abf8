package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/tensor"
)

// failer is what *testing.T and *rapid.T share.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	FailNow()
}

// requireValues compares a file's metadata with what was written, through every getter.
func requireValues(t failer, f *File, kvs []kv) {
	t.Helper()
	keys := slices.Collect(f.Keys())
	require.Len(t, keys, len(kvs))
	for i, k := range kvs {
		require.Equal(t, k.key, keys[i])
		v, ok := f.Value(k.key)
		require.True(t, ok)
		requireValue(t, k.val, v)
	}
}

func requireValue(t failer, want any, v arch.Value) {
	t.Helper()
	require.Equal(t, kindOf(want), v.Kind())
	i, isInt := v.Int()
	u, isUint := v.Uint()
	x, isFloat := v.Float()
	b, isBool := v.Bool()
	s, isText := v.Text()
	a, isArray := v.Array()
	var ints, floats bool
	switch w := want.(type) {
	case bool:
		require.Equal(t, w, b)
	case string:
		require.Equal(t, w, s)
	case float32:
		floats = true
		require.Equal(t, float64(w), x)
	case float64:
		floats = true
		require.Equal(t, w, x)
	case uint64:
		ints, floats = true, true
		require.Equal(t, w, u)
		require.True(t, isUint)
		require.Equal(t, int64(w) >= 0, isInt)
		require.Equal(t, float64(w), x)
	case uint8, uint16, uint32, int8, int16, int32, int64:
		ints, floats = true, true
		var n int64
		_, err := fmt.Sscan(fmt.Sprint(w), &n)
		require.NoError(t, err)
		require.True(t, isInt)
		require.Equal(t, n, i)
		require.Equal(t, n >= 0, isUint)
		if n >= 0 {
			require.EqualValues(t, n, u)
		}
		require.Equal(t, float64(n), x)
	case list:
		require.Equal(t, w.elem, a.Elem())
		requireElements(t, a, w.vals)
	case []string:
		vals := make([]any, len(w))
		for i := range w {
			vals[i] = w[i]
		}
		requireElements(t, a, vals)
	default:
		require.Fail(t, "unexpected type", "%T", want)
	}
	require.Equal(t, ints, isInt || isUint)
	require.Equal(t, floats, isFloat)
	require.Equal(t, v.Kind() == arch.Bool, isBool)
	require.Equal(t, v.Kind() == arch.String, isText)
	require.Equal(t, v.Kind() == arch.Array, isArray)
}

func requireElements(t failer, a arch.Values, vals []any) {
	t.Helper()
	require.Equal(t, len(vals), a.Len())
	for i := range vals {
		requireValue(t, vals[i], a.At(i))
		text, _ := vals[i].(string)
		require.Equal(t, text, a.Text(i))
	}
}

// drawValue draws a metadata value; arrays nest at most depth deep.
func drawValue(t *rapid.T, depth int) any {
	kinds := 12
	if depth > 0 {
		kinds = 13
	}
	kind := arch.Kind(rapid.IntRange(0, kinds-1).Draw(t, "kind"))
	if kind == arch.Array && depth == 0 || kind == arch.Float64 && kinds == 12 {
		kind = arch.String
	}
	return drawKind(t, kind, depth)
}

func drawKind(t *rapid.T, kind arch.Kind, depth int) any {
	switch kind {
	case arch.Uint8:
		return rapid.Uint8().Draw(t, "u8")
	case arch.Int8:
		return rapid.Int8().Draw(t, "i8")
	case arch.Uint16:
		return rapid.Uint16().Draw(t, "u16")
	case arch.Int16:
		return rapid.Int16().Draw(t, "i16")
	case arch.Uint32:
		return rapid.Uint32().Draw(t, "u32")
	case arch.Int32:
		return rapid.Int32().Draw(t, "i32")
	case arch.Float32:
		return rapid.Float32().Draw(t, "f32")
	case arch.Bool:
		return rapid.Bool().Draw(t, "bool")
	case arch.String:
		return string(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "string"))
	case arch.Uint64:
		return rapid.Uint64().Draw(t, "u64")
	case arch.Int64:
		return rapid.Int64().Draw(t, "i64")
	case arch.Float64:
		return rapid.Float64().Draw(t, "f64")
	}
	elem := arch.Kind(rapid.IntRange(0, 12).Draw(t, "elem"))
	if elem == arch.Array && depth <= 1 {
		elem = arch.String
	}
	l := list{elem: elem}
	for range rapid.IntRange(0, 20).Draw(t, "len") {
		l.vals = append(l.vals, drawKind(t, elem, depth-1))
	}
	return l
}

// Whatever is written is read back, in all versions and both orders.
func TestReadGivesWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spec{
			version:   rapid.Uint32Range(1, 3).Draw(t, "version"),
			order:     rapid.SampledFrom([]appender{binary.LittleEndian, binary.BigEndian}).Draw(t, "order"),
			alignment: 1 << rapid.IntRange(0, 8).Draw(t, "alignment"),
		}
		s.kv = append(s.kv, kv{keyAlignment, uint32(s.alignment)})
		for i := range rapid.IntRange(0, 12).Draw(t, "keys") {
			s.kv = append(s.kv, kv{fmt.Sprintf("key.%d", i), drawValue(t, maxDepth)})
		}
		// Tensors stand in drawn order behind each other, with drawn holes.
		n := rapid.IntRange(0, 8).Draw(t, "tensors")
		place := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for i := 0; i < n && yield(i); i++ {
			}
		})).Draw(t, "place")
		s.ti = make([]ti, n)
		end := uint64(0)
		for _, i := range place {
			x := ti{name: fmt.Sprintf("tensor %d", i), typ: rapid.SampledFrom([]uint32{0, 24}).Draw(t, "type")}
			elements := uint64(1)
			for range rapid.IntRange(0, 4).Draw(t, "rank") {
				d := rapid.Uint64Range(0, 5).Draw(t, "dim")
				x.dims = append(x.dims, d)
				elements *= d
			}
			x.offset = end + s.alignment*rapid.Uint64Range(0, 2).Draw(t, "hole")
			x.data = seq(int(elements)*map[uint32]int{0: 4, 24: 1}[x.typ], byte(i))
			end = (x.offset + uint64(len(x.data)) + s.alignment - 1) / s.alignment * s.alignment
			s.ti[i] = x
		}
		b := pad(s.build(), 1)
		b = append(b, make([]byte, 5*2*s.alignment)...) // room for tensors without bytes at the end
		f, err := readBytes(b)
		require.NoError(t, err)
		require.EqualValues(t, s.version, f.Version())
		require.Equal(t, s.order, f.ByteOrder())
		requireValues(t, f, s.kv)
		require.Len(t, f.Tensors(), n)
		for i, x := range s.ti {
			info, ok := f.Tensor(x.name)
			require.True(t, ok)
			require.Equal(t, f.Tensors()[i], info)
			require.EqualValues(t, x.offset, info.Offset)
			require.EqualValues(t, len(x.data), info.Bytes)
			require.EqualValues(t, x.typ, info.Encoding)
			want := slices.Clone(x.dims)
			slices.Reverse(want)
			for axis, d := range want {
				require.EqualValues(t, d, info.Shape.Dims[axis])
			}
			require.EqualValues(t, len(want), info.Shape.Rank)
			var got bytes.Buffer
			require.NoError(t, f.ReadTensor(x.name, &got))
			if s.order == binary.BigEndian && x.typ == 0 {
				reverse(got.Bytes(), 4, []words{{0, 4, 1}})
			}
			require.True(t, bytes.Equal(x.data, got.Bytes()))
		}
	})
}

func TestUnknownKinds(t *testing.T) {
	r := preamble(3, binary.LittleEndian, 0, 1)
	r.str("k")
	r.u32(13)
	at := len(r.b) - 4
	e := refuse(t, append(r.b, make([]byte, 32)...), ErrFormat, "k: ", "kind 13")
	require.EqualValues(t, at, e.Offset)

	r = preamble(3, binary.LittleEndian, 0, 1)
	r.str("k")
	r.u32(uint32(arch.Array))
	r.u32(99)
	refuse(t, append(r.b, make([]byte, 32)...), ErrFormat, "k: ", "kind 99")

	r = preamble(3, binary.LittleEndian, 0, 1)
	r.kv("k", true)
	r.b[len(r.b)-1] = 2
	refuse(t, r.b, ErrFormat, "k: ", "boolean of value 2")
	r = preamble(3, binary.LittleEndian, 0, 1)
	r.kv("k", list{arch.Bool, []any{true, false, true}})
	r.b[len(r.b)-1] = 255
	refuse(t, r.b, ErrFormat, "k: ", "boolean of value 255")
}

func TestErrorText(t *testing.T) {
	for want, e := range map[string]*Error{
		`gguf: tensor "blk.0.attn_q.weight": offset 4096 past end of file (size 4000)`: {
			Offset: -1, Tensor: "blk.0.attn_q.weight", Reason: "offset 4096 past end of file (size 4000)"},
		`gguf: n_kv: wrong, byte 16 of m.gguf`:                    {File: "m.gguf", Offset: 16, Field: "n_kv", Reason: "wrong"},
		`gguf: tensor "t": n_dims: wrong, byte 16`:                {Offset: 16, Field: "n_dims", Tensor: "t", Reason: "wrong"},
		`gguf: "a\xffb": wrong in m.gguf`:                         {File: "m.gguf", Offset: -1, Field: "a\xffb", Reason: "wrong"},
		`gguf: tensor "` + strings.Repeat("x", 128) + `"…: wrong`: {Offset: -1, Tensor: strings.Repeat("x", 1000), Reason: "wrong"},
	} {
		require.Equal(t, want, e.Error())
	}
	// Names in errors are whole, whatever the message shows.
	long := strings.Repeat("n", 5000)
	e := refuse(t, spec{ti: []ti{{name: long, dims: []uint64{4}, offset: 1}}}.build(), ErrFormat)
	require.Equal(t, long, e.Tensor)
	require.Less(t, len(e.Error()), 400)
	f := mustRead(t, spec{ti: []ti{{name: long, dims: []uint64{4}, data: seq(16, 1)}}}.build())
	require.Equal(t, long, f.Tensors()[0].Name)
}

func TestPayloadAccess(t *testing.T) {
	f := mustRead(t, spec{ti: []ti{{name: "t", dims: []uint64{4}, data: seq(16, 1)}}}.build(), Options{Name: "some"})
	require.Equal(t, "some", f.Name())
	_, err := f.Extent("absent")
	require.ErrorIs(t, err, ErrNotFound)
	require.EqualError(t, err, `gguf: tensor "absent": no such tensor in some`)
	require.ErrorIs(t, f.ReadTensor("absent", io.Discard), ErrNotFound)
	_, ok := f.Tensor("absent")
	require.False(t, ok)
	_, ok = f.Value("absent")
	require.False(t, ok)

	p, err := f.Payload("t")
	require.NoError(t, err)
	require.EqualValues(t, 16, p.Size())
	_, err = p.ReadAt(make([]byte, 1), -1)
	require.Error(t, err)
	_, err = p.ReadAt(make([]byte, 1), 16)
	require.Equal(t, io.EOF, err)
	b := make([]byte, 20)
	n, err := p.ReadAt(b, 4)
	require.Equal(t, 12, n)
	require.Equal(t, io.EOF, err)
	require.Equal(t, seq(16, 1)[4:], b[:12])

	full := errors.New("disk full")
	require.ErrorIs(t, f.ReadTensor("t", writer{full}), full)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.ReadTensor("t", io.Discard), fs.ErrClosed)
}

type writer struct{ err error }

func (w writer) Write([]byte) (int, error) { return 0, w.err }

func TestOpen(t *testing.T) {
	b := spec{kv: []kv{{"k", "v"}}, ti: []ti{{name: "t", dims: []uint64{4}, data: seq(16, 1)}}}.build()
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	f, err := Open(path, Options{})
	require.NoError(t, err)
	require.Equal(t, path, f.Name())
	require.Equal(t, path, f.Parts()[0].Path)
	require.NotNil(t, f.Parts()[0].OSFile())
	require.Equal(t, seq(16, 1), payload(t, f, "t"))
	require.NoError(t, f.Close())
	require.Nil(t, f.Parts()[0].OSFile())

	_, err = Open(filepath.Join(dir, "absent"), Options{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Open(dir, Options{})
	require.ErrorIs(t, err, ErrUnsupported)
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	_, err = Open(filepath.Join(dir, "pipe"), Options{})
	require.ErrorIs(t, err, ErrUnsupported)
	require.NoError(t, os.WriteFile(path, b[:30], 0o600))
	_, err = Open(path, Options{})
	require.ErrorIs(t, err, ErrTruncated)
	require.ErrorContains(t, err, path)

	f, err = OpenFS(os.DirFS(dir), "absent", Options{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Nil(t, f)
	_, err = OpenFS(fstest.MapFS{"d/m": {Data: b}}, "d", Options{})
	require.ErrorIs(t, err, ErrUnsupported)
	_, err = OpenFS(noReaderAt{fstest.MapFS{"m": {Data: b}}}, "m", Options{})
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "io.ReaderAt")
	f, err = OpenFS(fstest.MapFS{"d/m": {Data: b}}, "d/m", Options{})
	require.NoError(t, err)
	require.Nil(t, f.Parts()[0].OSFile())
	require.NoError(t, f.Close())
}

// noReaderAt hides all but the methods of fs.File.
type noReaderAt struct{ fs.FS }

func (n noReaderAt) Open(name string) (fs.File, error) {
	f, err := n.FS.Open(name)
	return struct{ fs.File }{f}, err
}

func TestConcurrentValues(t *testing.T) {
	f := mustRead(t, vocabulary(1000).build())
	v, _ := f.Value("tokenizer.ggml.tokens")
	a, _ := v.Array()
	done := make(chan bool)
	for range 4 {
		go func() {
			for i := range 1000 {
				if a.Text(i) != fmt.Sprintf("tok%d", i) {
					done <- false
					return
				}
			}
			done <- true
		}()
	}
	for range 4 {
		require.True(t, <-done)
	}
}

// Real files, when there are any: every key and every tensor can be read, and shapes agree with sizes.
func TestRealFiles(t *testing.T) {
	dir := os.Getenv("SKEEP_TEST_MODELS")
	if dir == "" {
		t.Skip("SKEEP_TEST_MODELS is not set: no real file is read")
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.gguf"))
	require.NoError(t, err)
	vocabularies, err := filepath.Glob(filepath.Join(dir, "*", "*.gguf"))
	require.NoError(t, err)
	require.NotEmpty(t, append(paths, vocabularies...))
	for _, path := range append(paths, vocabularies...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := Open(path, Options{})
			require.NoError(t, err)
			defer f.Close()
			require.Equal(t, 3, f.Version())
			for key := range f.Keys() {
				v, ok := f.Value(key)
				require.True(t, ok)
				if a, ok := v.Array(); ok {
					require.NotZero(t, a.Len())
					require.Equal(t, a.Elem(), a.At(a.Len()-1).Kind())
				}
			}
			for _, info := range f.Tensors() {
				bytes, err := tensor.FormatOf(info.Encoding).Bytes(info.Shape)
				require.NoError(t, err)
				require.Equal(t, bytes, info.Bytes)
				require.NoError(t, f.ReadTensor(info.Name, io.Discard))
				found, err := f.Check(t.Context(), info.Name)
				require.NoError(t, err)
				for _, x := range found {
					require.NotEqual(t, NotFinite, x.Kind, x)
				}
			}
			if len(f.Tensors()) > 0 {
				m, err := arch.Describe(f)
				require.NoError(t, err)
				require.Empty(t, m.Unused)
			}
			if n := len(f.Tensors()); n > 0 { // the data end where the file ends, but for padding
				last := f.Tensors()[n-1]
				end := f.Parts()[0].DataOffset + last.Offset + last.Bytes
				require.LessOrEqual(t, f.Parts()[0].Size-end, f.Parts()[0].Alignment)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	whole := spec{
		kv: []kv{{"general.architecture", "llama"}, {keyAlignment, uint32(32)}, {"a", []string{"x", "", "yz"}},
			{"n", list{arch.Array, []any{list{arch.Uint8, []any{uint8(1)}}, list{arch.Bool, nil}}}}, {"f", []float32{1, 2}}, {"b", true}},
		ti: []ti{{name: "a", dims: []uint64{8, 2}, data: seq(64, 1)}, {name: "b", typ: 8, dims: []uint64{32}, offset: 64, data: seq(34, 2)},
			{name: "c", typ: 200, dims: []uint64{3}, offset: 128, data: seq(9, 2)}, {name: "d", dims: []uint64{4, 0}},
			{name: "e", dims: []uint64{8, 2}}},
	}
	for version := uint32(1); version <= 3; version++ {
		for _, order := range []appender{binary.LittleEndian, binary.BigEndian} {
			whole.version, whole.order = version, order
			f.Add(whole.build())
		}
	}
	for _, b := range hugeCounts() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := readBytes(b, Options{SinglePart: true, HeaderOnly: true})
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Offset > int64(len(b)) {
				t.Fatalf("%#v", err)
			}
			return
		}
		strict, err := readBytes(b, Options{SinglePart: true})
		if (err == nil) != (file.Truncated() == nil) || (strict == nil) != (err != nil) {
			t.Fatalf("Truncated %v, Read %v", file.Truncated(), err)
		}
		for key := range file.Keys() {
			v, ok := file.Value(key)
			if !ok {
				t.Fatalf("key %q is listed and absent", key)
			}
			visit(v)
		}
		for _, info := range file.Tensors() {
			if at, err := file.Extent(info.Name); err == nil && (at.Offset < 0 || at.Bytes < 0 || at.Bytes > 0 && at.Offset > int64(len(b))-at.Bytes) {
				t.Fatalf("%+v outside of the file", at)
			}
			if n := new(counter); file.ReadTensor(info.Name, n) == nil && int64(*n) != info.Bytes {
				t.Fatalf("%+v: read %d bytes", info, *n)
			}
		}
	})
}

type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// visit calls every getter of a value.
func visit(v arch.Value) {
	v.Int()
	v.Uint()
	v.Float()
	v.Bool()
	v.Text()
	if a, ok := v.Array(); ok {
		for i := range a.Len() {
			a.Text(i)
			visit(a.At(i))
		}
	}
}

func BenchmarkRead(b *testing.B) {
	file := vocabulary(262_144).build()
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readBytes(file); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTokens(b *testing.B) {
	f, err := readBytes(vocabulary(262_144).build())
	require.NoError(b, err)
	v, _ := f.Value("tokenizer.ggml.tokens")
	a, _ := v.Array()
	b.ReportAllocs()
	for b.Loop() {
		for i := range a.Len() {
			_ = a.Text(i)
		}
	}
}

// countingFS counts the reads of its files.
type countingFS struct {
	fs.FS
	reads, bytes int
}

type countedFile struct {
	fs.File
	at    io.ReaderAt
	count *countingFS
}

func (c *countingFS) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return countedFile{f, f.(io.ReaderAt), c}, nil
}

func (f countedFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.at.ReadAt(b, at)
	f.count.reads++
	f.count.bytes += n
	return n, err
}

// A set of a hundred parts opens with a few reads and allocations for each, whatever the size of its payload.
func TestHundredParts(t *testing.T) {
	const parts = 100
	set := splitSetOf(parts, 1<<20)
	c := &countingFS{FS: set}
	began := time.Now()
	f, err := OpenFS(c, "m-00001-of-00100.gguf", Options{})
	took := time.Since(began)
	require.NoError(t, err)
	require.Len(t, f.Tensors(), parts)
	require.NoError(t, f.Close())
	require.Zero(t, c.reads%parts, "no part costs more than another")
	require.LessOrEqual(t, c.reads, 3*parts)
	require.LessOrEqual(t, c.bytes, parts*(64<<10), "no payload is read, but for what stands behind a header")
	allocs := testing.AllocsPerRun(3, func() {
		f, err := OpenFS(set, "m-00001-of-00100.gguf", Options{})
		require.NoError(t, err)
		require.NoError(t, f.Close())
	})
	t.Logf("%d parts: %d reads of %d KiB in all, %.0f allocations, %v", parts, c.reads, c.bytes>>10, allocs, took)
	require.Less(t, allocs, 100.0*parts)
}

func TestNegativeSizesAreRefused(t *testing.T) {
	for _, headerOnly := range []bool{false, true} {
		_, err := Read(bytes.NewReader(nil), -1, Options{HeaderOnly: headerOnly})
		var e *Error
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, err, ErrTruncated)
	}
}
