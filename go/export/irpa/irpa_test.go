package irpa

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/internal/argument"
	"github.com/stretchr/testify/require"
)

// floats are four times 100.1, as IREE's tools write them.
var floats = bytes.Repeat([]byte{0x33, 0x33, 0xc8, 0x42}, 4)

// written is an archive whose blobs are data, by name.
func written(t *testing.T, entries []Entry, data map[string][]byte) []byte {
	t.Helper()
	p, err := Layout(entries)
	require.NoError(t, err)
	var out bytes.Buffer
	w, err := NewWriter(&out, p)
	require.NoError(t, err)
	for _, e := range p.Entries {
		if e.Kind == Data {
			require.NoError(t, w.Begin(e.Name))
			n, err := w.Write(data[e.Name])
			require.NoError(t, err)
			require.Len(t, data[e.Name], n)
		}
	}
	require.NoError(t, w.Close())
	require.EqualValues(t, p.Size, out.Len())
	return out.Bytes()
}

// TestTheSampleOfIREEIsReadAndWrittenToTheByte compares with a file that iree-create-parameters made. (Of a blob that is to be
// filled, that tool's version 3.13 writes the first element and leaves zeros behind it.)
func TestTheSampleOfIREEIsReadAndWrittenToTheByte(t *testing.T) {
	want, err := os.ReadFile("testdata/sample.irpa")
	require.NoError(t, err)
	a, err := Open("testdata/sample.irpa")
	require.NoError(t, err)
	defer a.Close()
	require.Equal(t, []Entry{
		{Name: "b", Kind: Splat, Length: 1024, Pattern: []byte{7}},
		{Name: "a", Kind: Data, Alignment: 64, Offset: 384, Length: 16},
		{Name: "long.name.with.dots", Kind: Data, Alignment: 64, Offset: 448, Length: 130},
	}, a.Entries())
	value := map[string][]byte{}
	for _, e := range a.Entries() {
		r, err := a.Bytes(e)
		require.NoError(t, err)
		value[e.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
	require.Equal(t, bytes.Repeat([]byte{7}, 1024), value["b"])
	require.Equal(t, append([]byte{0, 0, 0xc0, 0x3f}, make([]byte, 12)...), value["a"])
	require.Equal(t, make([]byte, 130), value["long.name.with.dots"])
	require.True(t, bytes.Equal(want, written(t, a.Entries(), value)), "the same bytes")
}

// TestFieldsAreAtThePackedOffsets looks at single fields. Case E14. No structure is padded as C would pad it.
func TestFieldsAreAtThePackedOffsets(t *testing.T) {
	b := written(t, []Entry{
		{Name: "d", Kind: Data, Flags: 5, Metadata: []byte("meta"), Length: 3},
		{Name: "s", Kind: Splat, Length: 8, Pattern: []byte{1, 2}},
		{Name: "x", Kind: External, Path: "weights.bin", Offset: 77, Length: 99},
		{Name: "", Kind: Skip},
	}, map[string][]byte{"d": {1, 2, 3}})
	u64 := func(at int) int { return int(little.Uint64(b[at:])) }
	require.Equal(t, "IRPA\x00\x00\x00\x00", string(b[:8]))
	require.Equal(t, 88, u64(8), "header size")
	require.Equal(t, 4, u64(32), "entries")
	require.Equal(t, 96, u64(40))
	first, second, third, fourth := 96, 96+80, 96+80+96, 96+80+96+96
	require.Equal(t, fourth+60-96, u64(48), "the last entry is not padded")
	for at, size := range map[int]int{first: 76, second: 85, third: 92, fourth: 60} {
		require.Equal(t, size, u64(at))
	}
	for at, kind := range map[int]uint32{first: 2, second: 1, third: 3, fourth: 0} {
		require.Equal(t, kind, little.Uint32(b[at+8:]))
	}
	require.Equal(t, 5, u64(first+12), "flags")
	require.Equal(t, []int{0, 1, 1, 4, 64}, []int{u64(first + 20), u64(first + 28), u64(first + 36), u64(first + 44), u64(first + 52)})
	require.Equal(t, []int{0, 3}, []int{u64(first + 60), u64(first + 68)})
	require.Equal(t, []int{8, 0x0201}, []int{u64(second + 60), u64(second + 68)})
	require.EqualValues(t, 2, b[second+84])
	require.Equal(t, []int{77, 99}, []int{u64(third + 76), u64(third + 84)})
	for _, gap := range [][2]int{{88, 96}, {first + 76, second}, {second + 85, third}, {third + 92, fourth}} {
		require.Equal(t, make([]byte, gap[1]-gap[0]), b[gap[0]:gap[1]], "gaps are zero")
	}
	a, err := Read(bytes.NewReader(b), int64(len(b)), "")
	require.NoError(t, err)
	require.Len(t, a.Entries(), 3)
	x, ok := a.Entry("x")
	require.True(t, ok)
	require.Equal(t, Entry{Name: "x", Kind: External, Path: "weights.bin", Offset: 77, Length: 99}, x)
	_, err = a.Bytes(x)
	require.ErrorIs(t, err, ErrUnsupported)
	_, ok = a.Entry("")
	require.False(t, ok, "an erased entry is not listed")
}

// TestBlobsAreWhereIREEPutsThem has the offsets of the files with which IREE tests its own parser. Case E11.
func TestBlobsAreWhereIREEPutsThem(t *testing.T) {
	key0, key1 := Entry{Name: "key0", Kind: Data, Length: 16}, Entry{Name: "key1", Kind: Data, Length: 5}
	splats := []Entry{{Name: "key2", Kind: Splat, Length: 8, Pattern: []byte{102}},
		{Name: "key3", Kind: Splat, Length: 4096 * 1024 * 8, Pattern: []byte{103, 0, 0, 0, 0, 0, 0, 0}}}
	for name, c := range map[string]struct {
		entries []Entry
		want    []int64
	}{
		"empty": {nil, nil}, "single": {[]Entry{key0}, []int64{192}}, "multiple": {[]Entry{key0, key1}, []int64{320, 384}},
		"mixed": {append([]Entry{key0, key1}, splats...), []int64{512, 576}},
	} {
		b := written(t, c.entries, map[string][]byte{"key0": floats, "key1": {1, 2, 3, 4, 5}})
		a, err := Read(bytes.NewReader(b), int64(len(b)), name)
		require.NoError(t, err)
		require.Len(t, a.Entries(), len(c.entries))
		require.Zero(t, len(b)%4096)
		for i, want := range c.want {
			require.Equal(t, want, a.Entries()[i].Offset, name)
		}
	}
	aligned, err := Layout([]Entry{{Name: "empty", Kind: Data}, key0, {Name: "page", Kind: Data, Alignment: 4096, Length: 1}, key1})
	require.NoError(t, err)
	require.Equal(t, []int64{4096, 4096, 8192, 8256}, []int64{aligned.Entries[0].Offset, aligned.Entries[1].Offset, aligned.Entries[2].Offset, aligned.Entries[3].Offset})
}

// zeros is a file of zeros behind a head, of any size.
type zeros struct{ head []byte }

func (z zeros) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	if at < int64(len(z.head)) {
		copy(b, z.head[at:])
	}
	return len(b), nil
}

// TestOffsetsHave64Bits plans and reads an archive of 600 GB, of which nothing but the tables exists.
func TestOffsetsHave64Bits(t *testing.T) {
	const large = 200 << 30
	p, err := Layout([]Entry{{Name: "a", Kind: Data, Length: large}, {Name: "b", Kind: Data, Length: large + 1}, {Name: "c", Kind: Data, Length: large}})
	require.NoError(t, err)
	a, err := Read(zeros{p.Head}, p.Size, "")
	require.NoError(t, err)
	c, _ := a.Entry("c")
	require.EqualValues(t, len(p.Head)+2*large+64, c.Offset)
	r, err := a.Bytes(c)
	require.NoError(t, err)
	require.EqualValues(t, large, r.Size())
	_, err = Read(zeros{p.Head}, p.Size-4096, "")
	require.ErrorIs(t, err, ErrTruncated)
	_, err = Layout([]Entry{{Name: "a", Kind: Data, Length: math.MaxInt64}})
	require.ErrorIs(t, err, ErrFormat)
}

// TestLinkedArchivesAreOne reads two archives in one file, and erased entries of the first.
func TestLinkedArchivesAreOne(t *testing.T) {
	one := written(t, []Entry{{Name: "a", Kind: Data, Length: 1}, {Name: "b", Kind: Skip}}, map[string][]byte{"a": {1}})
	two := written(t, []Entry{{Name: "b", Kind: Data, Length: 1}}, map[string][]byte{"b": {2}})
	little.PutUint64(one[16:], uint64(len(one)))
	both := append(one, two...)
	a, err := Read(bytes.NewReader(both), int64(len(both)), "")
	require.NoError(t, err)
	b, ok := a.Entry("b")
	require.True(t, ok)
	r, err := a.Bytes(b)
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, []byte{2}, got)
	little.PutUint64(both[len(one)+16:], 1<<20)
	_, err = Read(bytes.NewReader(both), int64(len(both)), "")
	require.ErrorIs(t, err, ErrTruncated)
}

// TestDamagedTablesAreRefused changes single fields; each refusal says where.
func TestDamagedTablesAreRefused(t *testing.T) {
	good := written(t, []Entry{{Name: "a", Kind: Data, Length: 16}, {Name: "s", Kind: Splat, Length: 4, Pattern: []byte{1}}}, map[string][]byte{"a": floats})
	for name, c := range map[string]struct {
		at   int
		to   byte
		want error
	}{
		"magic": {0, 'X', ErrFormat}, "major": {4, 1, ErrUnsupported}, "minor": {6, 1, ErrUnsupported}, "header size": {8, 96, ErrFormat},
		"link": {16, 1, ErrTruncated}, "count": {32, 3, ErrTruncated}, "huge count": {39, 0x7f, ErrTruncated}, "table": {47, 1, ErrTruncated},
		"metadata": {63, 0x80, ErrTruncated}, "storage": {87, 0xff, ErrTruncated}, "entry size": {96, 75, ErrFormat}, "kind": {104, 9, ErrUnsupported},
		"name": {96 + 20, 200, ErrTruncated}, "name length": {96 + 35, 0xff, ErrTruncated}, "blob": {96 + 60, 1, ErrTruncated}, "blob length": {96 + 75, 0xff, ErrTruncated},
		"alignment": {96 + 52, 65, ErrFormat}, "pattern": {96 + 80 + 84, 3, ErrFormat}, "no pattern": {96 + 80 + 84, 0, ErrFormat},
	} {
		bad := bytes.Clone(good)
		require.NotEqual(t, c.to, bad[c.at], name)
		bad[c.at] = c.to
		_, err := Read(bytes.NewReader(bad), int64(len(bad)), "file")
		require.ErrorIs(t, err, c.want, name)
		var e *Error
		require.ErrorAs(t, err, &e, name)
		require.GreaterOrEqual(t, e.Offset, int64(0), name)
		require.Equal(t, "file", e.File)
	}
	for n := range len(good) {
		if _, err := Read(bytes.NewReader(good[:n]), int64(n), ""); n < len(good)-4096+192 {
			require.ErrorIs(t, err, ErrTruncated, n)
		}
	}
}

// TestWhatCannotBeWrittenIsRefused lists entries and orders of writing that are errors.
func TestWhatCannotBeWrittenIsRefused(t *testing.T) {
	for name, entries := range map[string][]Entry{
		"twice": {{Name: "a", Kind: Data}, {Name: "a", Kind: Data}}, "kind": {{Kind: 4}}, "length": {{Kind: Data, Length: -1}},
		"alignment": {{Kind: Data, Alignment: 3}}, "pattern": {{Kind: Splat, Length: 3, Pattern: []byte{1, 2}}}, "long": {{Kind: Splat, Pattern: make([]byte, 32)}},
		"offset": {{Kind: External, Offset: -1}},
	} {
		_, err := Layout(entries)
		require.ErrorIs(t, err, ErrFormat, name)
	}
	p, err := Layout([]Entry{{Name: "a", Kind: Data, Length: 2}, {Name: "b", Kind: Data, Length: 2}})
	require.NoError(t, err)
	begin := func() *Writer {
		w, err := NewWriter(io.Discard, p)
		require.NoError(t, err)
		return w
	}
	w := begin()
	_, err = w.Write([]byte{1})
	require.ErrorIs(t, err, ErrPayload, "nothing begun")
	require.ErrorIs(t, w.Begin("b"), ErrPayload, "order")
	require.ErrorIs(t, begin().Close(), ErrPayload, "nothing written")
	require.NoError(t, w.Begin("a"))
	_, err = w.Write([]byte{1, 2, 3})
	require.ErrorIs(t, err, ErrPayload, "too much")
	_, err = w.Write([]byte{1})
	require.NoError(t, err)
	require.ErrorIs(t, w.Begin("b"), ErrPayload, "too little")
	_, err = NewWriter(nil, p)
	require.ErrorIs(t, err, argument.Err)
	_, err = NewWriter(io.Discard, nil)
	require.ErrorIs(t, err, argument.Err)
	_, err = Read(nil, 1, "")
	require.ErrorIs(t, err, argument.Err)
	full := errors.New("full")
	_, err = NewWriter(failing{full}, p)
	require.ErrorIs(t, err, full)
	_, err = Open(t.TempDir())
	require.ErrorIs(t, err, ErrUnsupported)
	_, err = Open(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestIREEReadsOursAndWeReadTheirs runs the tools of iree-base-runtime (PyPI) if they are installed.
func TestIREEReadsOursAndWeReadTheirs(t *testing.T) {
	dump, err := exec.LookPath("iree-dump-parameters")
	if err != nil {
		t.Skip("iree-dump-parameters is not installed: pip install iree-base-runtime")
	}
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "ours.irpa"), filepath.Join(dir, "theirs.irpa")
	data := map[string][]byte{"key0": floats, "large": bytes.Repeat([]byte("0123456789abcdef"), 1<<17), "empty": nil}
	require.NoError(t, os.WriteFile(ours, written(t, []Entry{
		{Name: "key0", Kind: Data, Metadata: []byte(`{"a":1}`), Length: 16}, {Name: "large", Kind: Data, Alignment: 4096, Length: 2 << 20}, {Name: "empty", Kind: Data},
		{Name: "same", Kind: Splat, Length: 64, Pattern: []byte{1, 2, 3, 4}},
	}, data), 0o600))
	out, err := exec.Command(dump, "--parameters="+ours).CombinedOutput()
	require.NoError(t, err, "%s", out)
	a, err := Open(ours)
	require.NoError(t, err)
	defer a.Close()
	for _, e := range a.Entries() {
		line := fmt.Sprintf("%16d | %16d | %16d | `%s`", e.Offset, e.Offset+e.Length, e.Length, e.Name)
		if e.Kind == Splat {
			line = fmt.Sprintf("%16s | %16s | %16d | `%s`", "-", "-", e.Length, e.Name)
		}
		if e.Length > 0 {
			require.Contains(t, strings.ReplaceAll(string(out), "\t", " "), line)
		}
	}
	out, err = exec.Command(filepath.Join(filepath.Dir(dump), "iree-convert-parameters"), "--parameters="+ours, "--output="+theirs).CombinedOutput()
	require.NoError(t, err, "%s", out)
	b, err := Open(theirs)
	require.NoError(t, err)
	defer b.Close()
	require.Len(t, b.Entries(), 4)
	for name, want := range data {
		e, ok := b.Entry(name)
		require.True(t, ok)
		r, err := b.Bytes(e)
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), name)
	}
}

// FuzzRead reads anything: an error, or an archive whose entries can be read.
func FuzzRead(f *testing.F) {
	sample, err := os.ReadFile("testdata/sample.irpa")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sample)
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := Read(bytes.NewReader(b), int64(len(b)), "")
		if err != nil {
			return
		}
		for _, e := range a.Entries() {
			r, err := a.Bytes(e)
			if e.Kind != External && err != nil {
				t.Fatal(err)
			}
			if e.Kind == Data {
				if n, err := io.Copy(io.Discard, r); err != nil || n != e.Length {
					t.Fatal(n, err)
				}
			}
		}
	})
}
