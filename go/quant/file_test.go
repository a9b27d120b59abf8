package quant

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// sample is a tensor of a file to be made, and its bytes as a little-endian file has them.
type sample struct {
	name     string
	encoding tensor.Encoding
	shape    tensor.Shape
	bytes    []byte
}

// makeFile writes a file of these tensors and opens it.
func makeFile(t testing.TB, path string, h gguf.Header, tensors ...sample) *gguf.File {
	t.Helper()
	for _, s := range tensors {
		h.Tensors = append(h.Tensors, gguf.TensorSpec{Name: s.name, Encoding: s.encoding, Shape: s.shape})
	}
	require.NoError(t, gguf.WriteFile(path, h, func(w *gguf.Writer) error {
		for _, s := range tensors {
			out, err := w.Tensor(s.name)
			if err != nil {
				return err
			}
			if _, err := out.Write(s.bytes); err != nil {
				return err
			}
		}
		return nil
	}))
	return openFile(t, path)
}

func openFile(t testing.TB, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path, gguf.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func embeddedFile(t testing.TB) *gguf.File {
	t.Helper()
	f, err := gguf.Read(bytes.NewReader(embedded.Model()), int64(len(embedded.Model())), gguf.Options{Name: "embedded"})
	require.NoError(t, err)
	return f
}

// dense is a tensor of normally distributed numbers.
func dense(name string, e tensor.Encoding, seed uint64, dims ...int64) sample {
	s := sample{name: name, encoding: e, shape: tensor.ShapeOf(dims...)}
	n, _ := s.shape.Elements()
	r := rand.New(rand.NewPCG(seed, 1))
	for range n {
		x := r.NormFloat64()
		switch e {
		case tensor.EncF32:
			s.bytes = binary.LittleEndian.AppendUint32(s.bytes, math.Float32bits(float32(x)))
		case tensor.EncF64:
			s.bytes = binary.LittleEndian.AppendUint64(s.bytes, math.Float64bits(x))
		case tensor.EncBF16:
			s.bytes = binary.LittleEndian.AppendUint16(s.bytes, uint16(math.Float32bits(float32(x))>>16))
		case tensor.EncF16:
			h := half(math.Abs(x))
			s.bytes = binary.LittleEndian.AppendUint16(s.bytes, h|uint16(math.Float64bits(x)>>63)<<15)
		default:
			panic("no dense encoding")
		}
	}
	return s
}

// put replaces an element of an F32 tensor.
func (s sample) put(row, column int64, x float64) sample {
	s.bytes = slices.Clone(s.bytes)
	at := row*s.shape.Dims[s.shape.Rank-1] + column
	binary.LittleEndian.PutUint32(s.bytes[4*at:], math.Float32bits(float32(x)))
	return s
}

func payloadOf(t testing.TB, f *gguf.File, name string) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, f.ReadTensor(name, &b))
	return b.Bytes()
}

// viewOf is a tensor of a file as one whole, in memory.
func viewOf(t testing.TB, f *gguf.File, name string) skeep.View {
	t.Helper()
	info, ok := f.Tensor(name)
	require.True(t, ok)
	s, err := skeep.Borrow(name, payloadOf(t, f, name), skeep.ReadOnly())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	v, err := s.View(name, 0, tensor.FormatOf(info.Encoding), info.Shape)
	require.NoError(t, err)
	return v
}

// encodedWhole is what a tensor becomes when it is encoded at once by one thread.
func encodedWhole(t testing.TB, f *gguf.File, name string, to tensor.Encoding) []byte {
	t.Helper()
	if info, _ := f.Tensor(name); info.Encoding == to || info.Bytes == 0 {
		return payloadOf(t, f, name)
	}
	pool, err := skeep.NewPool(1)
	require.NoError(t, err)
	defer pool.Close()
	y, err := skeep.Copier{Pool: pool, Layer: -1}.Encode(name, viewOf(t, f, name), tensor.FormatOf(to), skeep.Ambient())
	require.NoError(t, err)
	b := make([]byte, y.Bytes())
	if _, err := y.Storage().ReadAt(b, 0); !errors.Is(err, io.EOF) {
		require.NoError(t, err)
	}
	return b
}

// checkResult compares a result with its input, its report, and an independent encoding.
func checkResult(t testing.TB, in *gguf.File, path string, r *Report, fileType uint32) {
	t.Helper()
	out, err := gguf.Open(path, gguf.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, out.Close()) }()
	want := map[string]string{}
	for key := range in.Keys() {
		if !strings.HasPrefix(key, "split.") {
			v, _ := in.Value(key)
			want[key] = valueText(v)
		}
	}
	want["general.file_type"] = valueText(gguf.NumberOf(fileType))
	want["general.quantization_version"] = valueText(gguf.NumberOf(uint32(2)))
	got := map[string]string{}
	for key := range out.Keys() {
		v, _ := out.Value(key)
		got[key] = valueText(v)
	}
	require.Equal(t, want, got)
	require.Equal(t, fileType, r.FileType)

	require.Len(t, r.Decisions, len(in.Tensors()))
	require.Len(t, out.Tensors(), len(in.Tensors()))
	var from, to int64
	for i, x := range in.Tensors() {
		y, d := out.Tensors()[i], r.Decisions[i]
		require.Equal(t, Decision{x.Name, x.Shape, x.Encoding, y.Encoding, y.Bytes, d.Reason, d.Note}, d)
		require.Equal(t, x.Name, y.Name)
		require.Equal(t, x.Shape, y.Shape)
		from, to = from+x.Bytes, to+y.Bytes
		if !bytes.Equal(encodedWhole(t, in, x.Name, y.Encoding), payloadOf(t, out, y.Name)) {
			require.Fail(t, "other bytes than those of the tensor encoded at once", "%s: %s -> %s", x.Name, x.Encoding, y.Encoding)
		}
	}
	require.Equal(t, [2]int64{from, to}, [2]int64{r.From, r.To})
}

// onlyFiles fails when a folder has other files than these.
func onlyFiles(t testing.TB, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	slices.Sort(names)
	require.Equal(t, names, got)
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

func quantize(t testing.TB, in *gguf.File, out string, o Options) *Report {
	t.Helper()
	r, err := File(context.Background(), in, out, o)
	require.NoError(t, err)
	return r
}

// TestFileOfEveryType encodes the embedded model, and compares with tensors encoded at once.
func TestFileOfEveryType(t *testing.T) {
	in := embeddedFile(t)
	for _, name := range Types() {
		t.Run(name, func(t *testing.T) {
			m, err := parseType(name)
			require.NoError(t, err)
			out := filepath.Join(t.TempDir(), "out.gguf")
			r := quantize(t, in, out, Options{Type: strings.ToLower(name), Threads: 2})
			checkResult(t, in, out, r, m.fileType)
			chosen, err := Choose(in, name, false)
			require.NoError(t, err)
			require.Equal(t, chosen, r.Decisions)
		})
	}
}

// assorted is a file of tensors of all kinds: of several pieces, of three and four axes, of odd rows, empty,
// scalar, packed, of integers.
func assorted(t testing.TB, path string) *gguf.File {
	h := gguf.Header{}
	h.Set("general.architecture", gguf.TextOf("llama"))
	h.Set("general.file_type", gguf.NumberOf(uint32(0)))
	h.Set("llama.block_count", gguf.NumberOf(uint32(2)))
	h.Set("llama.expert_count", gguf.NumberOf(uint32(3)))
	h.Set("general.alignment", gguf.NumberOf(uint32(64)))
	h.Set("a.list", gguf.TextsOf([]string{"", "ä", "z\x00"}))
	packed := makeFile(t, path+".packed", gguf.Header{}, dense("q.weight", tensor.EncF32, 9, 5, 512))
	return makeFile(t, path, h,
		dense("token_embd.weight", tensor.EncF32, 1, 1100, 1024), // two pieces, the second of few rows
		dense("blk.0.attn_norm.weight", tensor.EncF32, 2, 1024),
		dense("blk.0.attn_q.weight", tensor.EncF16, 3, 7, 256),
		dense("blk.0.attn_v.weight", tensor.EncBF16, 4, 3, 512),
		dense("blk.0.attn_q.bias", tensor.EncF32, 5, 2, 256),
		dense("blk.0.ffn_down_exps.weight", tensor.EncF32, 6, 3, 5, 256),
		dense("blk.1.ffn_down_exps.weight", tensor.EncF16, 7, 2, 3, 2, 256),
		dense("blk.1.attn_q.weight", tensor.EncF32, 8, 6, 96),
		dense("blk.1.attn_k.weight", tensor.EncF32, 9, 6, 100),
		dense("blk.1.attn_v.weight", tensor.EncF32, 10, 6, 1),
		dense("blk.1.ffn_up.weight", tensor.EncF64, 11, 4, 256),
		dense("blk.1.empty.weight", tensor.EncF32, 0, 0, 256),
		dense("blk.1.hollow.weight", tensor.EncF32, 0, 4, 0),
		dense("scalar.weight", tensor.EncF32, 12),
		dense("unit.weight", tensor.EncF32, 13, 1, 1),
		sample{"table.weight", tensor.EncI32, tensor.ShapeOf(4, 64), bytes.Repeat([]byte{1, 2, 3, 0}, 4*64)},
		sample{"bytes.weight", tensor.EncI8, tensor.ShapeOf(4, 64), bytes.Repeat([]byte{200}, 4*64)},
		sample{"packed.weight", tensor.Q8_0, tensor.ShapeOf(5, 512), encodedWhole(t, packed, "q.weight", tensor.Q8_0)},
		sample{"thin.weight", tensor.Q6_K, tensor.ShapeOf(512), encodedWhole(t, packed, "q.weight", tensor.Q6_K)[:2*210]},
		sample{"activations.weight", tensor.Q8_1, tensor.ShapeOf(2, 64), bytes.Repeat([]byte{7}, 4*36)},
		dense("output.weight", tensor.EncF32, 14, 11, 1024),
	)
}

// TestThreadsChangeNothing: results are the same to the byte for any number of threads, and for a caller's pool.
func TestThreadsChangeNothing(t *testing.T) {
	dir := t.TempDir()
	in := assorted(t, filepath.Join(dir, "in.gguf"))
	tried := map[tensor.Encoding]bool{}
	for _, name := range Types() {
		m, err := parseType(name)
		require.NoError(t, err)
		if tried[m.base] {
			continue // the same kernels again
		}
		tried[m.base] = true
		var want []byte
		for _, threads := range []int{1, 2, 3, 7} {
			out := filepath.Join(dir, "out.gguf")
			o := Options{Type: name, Threads: threads}
			if threads == 3 {
				pool, err := skeep.NewPool(3)
				require.NoError(t, err)
				defer pool.Close()
				o = Options{Type: name, Threads: -1, Pool: pool} // then Threads says nothing
			}
			r := quantize(t, in, out, o)
			if threads == 1 {
				checkResult(t, in, out, r, m.fileType)
				want = readFile(t, out)
			} else if !bytes.Equal(want, readFile(t, out)) {
				require.Fail(t, "other bytes", "%s, %d threads", name, threads)
			}
		}
	}
}

// TestAssorted: what becomes of tensors that are no usual weights.
func TestAssorted(t *testing.T) {
	dir := t.TempDir()
	in := assorted(t, filepath.Join(dir, "in.gguf"))
	r := quantize(t, in, filepath.Join(dir, "out.gguf"), Options{Type: "Q4_K_M"})
	const again = "decoded from Q8_0, which has already lost precision"
	want := map[string]struct {
		to           tensor.Encoding
		reason, note string
	}{
		"token_embd.weight":          {tensor.Q4_K, "Q4_K_M", ""},
		"blk.0.attn_norm.weight":     {tensor.EncF32, "kept: fewer than two axes", ""},
		"blk.0.attn_q.weight":        {tensor.Q4_K, "Q4_K_M", ""},
		"blk.0.attn_v.weight":        {tensor.Q4_K, "Q4_K_M", ""},
		"blk.0.attn_q.bias":          {tensor.EncF32, "kept: not a weight", ""},
		"blk.0.ffn_down_exps.weight": {tensor.Q4_K, "Q4_K_M", ""},
		"blk.1.ffn_down_exps.weight": {tensor.Q6_K, "Q4_K_M: ffn_down_exps", ""},
		"blk.1.attn_q.weight":        {tensor.Q5_0, "Q4_K_M", "rows of 96 elements are not whole blocks of Q4_K: Q5_0 is used instead"},
		"blk.1.attn_k.weight":        {tensor.EncF16, "Q4_K_M", "rows of 100 elements are not whole blocks of Q4_K: F16 is used instead"},
		"blk.1.attn_v.weight":        {tensor.EncF16, "Q4_K_M: attn_v", "rows of 1 elements are not whole blocks of Q6_K: F16 is used instead"},
		"blk.1.ffn_up.weight":        {tensor.Q4_K, "Q4_K_M", ""},
		"blk.1.empty.weight":         {tensor.EncF32, "kept: empty", ""},
		"blk.1.hollow.weight":        {tensor.EncF32, "kept: empty", ""},
		"scalar.weight":              {tensor.EncF32, "kept: fewer than two axes", ""},
		"unit.weight":                {tensor.EncF32, "kept: fewer than two axes", ""},
		"table.weight":               {tensor.EncI32, "kept: holds I32", ""},
		"bytes.weight":               {tensor.EncI8, "kept: holds I8", ""},
		"packed.weight":              {tensor.Q4_K, "Q4_K_M", again},
		"thin.weight":                {tensor.Q6_K, "kept: fewer than two axes", ""},
		"activations.weight":         {tensor.Q8_1, "kept: holds Q8_1", ""},
		"output.weight":              {tensor.Q6_K, "head", ""},
	}
	require.Len(t, r.Decisions, len(want))
	for _, d := range r.Decisions {
		w := want[d.Name]
		require.Equal(t, [3]string{w.to.String(), w.reason, w.note}, [3]string{d.To.String(), d.Reason, d.Note}, d.Name)
	}

	// In the format that it has, a tensor is copied, and nothing is said about loss.
	r = quantize(t, in, filepath.Join(dir, "same.gguf"), Options{Type: "Q8_0"})
	i := slices.IndexFunc(r.Decisions, func(d Decision) bool { return d.Name == "packed.weight" })
	require.Equal(t, "Q8_0; bytes are copied", r.Decisions[i].Reason)
	require.Empty(t, r.Decisions[i].Note)
	require.Equal(t, payloadOf(t, in, "packed.weight"), payloadOf(t, openFile(t, filepath.Join(dir, "same.gguf")), "packed.weight"))

	// Both notes at once.
	q := makeFile(t, filepath.Join(dir, "q.gguf"), gguf.Header{},
		sample{"w.weight", tensor.Q8_0, tensor.ShapeOf(2, 32), payloadOf(t, in, "packed.weight")[:2*34]})
	r = quantize(t, q, filepath.Join(dir, "both.gguf"), Options{Type: "Q6_K", Pure: true})
	require.Equal(t, "Q6_K; bytes are copied", r.Decisions[0].Reason)
	require.Equal(t, "rows of 32 elements are not whole blocks of Q6_K: Q8_0 is used instead", r.Decisions[0].Note)
	r = quantize(t, q, filepath.Join(dir, "both.gguf"), Options{Type: "Q4_K", Pure: true})
	require.Equal(t, "rows of 32 elements are not whole blocks of Q4_K: Q5_0 is used instead; "+again, r.Decisions[0].Note)
}

// TestTwice: a second run has nothing to do, whatever the first chose, and makes the same file.
func TestTwice(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"Q4_K_M", "Q2_K", "Q5_0", "IQ4_XS", "F32"} {
		first, second := filepath.Join(dir, name+".gguf"), filepath.Join(dir, "again.gguf")
		quantize(t, embeddedFile(t), first, Options{Type: name})
		rec := trace.NewRecorder(1)
		quantize(t, openFile(t, first), second, Options{Type: name, Trace: rec})
		require.Equal(t, readFile(t, first), readFile(t, second))
		require.Zero(t, rec.Total(trace.Requantize))
	}
}

// TestGolden compares with the blocks that the formats' own quantizers made of published inputs.
func TestGolden(t *testing.T) {
	golden := filepath.Join("..", "internal", "core", "testdata", "golden")
	for _, c := range []struct {
		name string
		mix  string
		pure bool
	}{{"q4_0", "Q4_0", false}, {"q4_1", "Q4_1", false}, {"q5_0", "Q5_0", false}, {"q5_1", "Q5_1", false}, {"q8_0", "Q8_0", false}, {"q4_0", "q4_0", true}} {
		dir := t.TempDir()
		in := makeFile(t, filepath.Join(dir, "in.gguf"), gguf.Header{},
			sample{"blk.0.ffn_up.weight", tensor.EncF32, tensor.ShapeOf(8, 96), readFile(t, filepath.Join(golden, c.name+".quant.f32"))})
		quantize(t, in, filepath.Join(dir, "out.gguf"), Options{Type: c.mix, Pure: c.pure})
		out := openFile(t, filepath.Join(dir, "out.gguf"))
		require.Equal(t, strings.ToUpper(c.name), out.Tensors()[0].Encoding.String())
		require.Equal(t, readFile(t, filepath.Join(golden, c.name+".quant.blocks")), payloadOf(t, out, "blk.0.ffn_up.weight"), c.name)
	}
}

// TestBadElement: an element that a format cannot hold is named with its place, and nothing is left.
func TestBadElement(t *testing.T) {
	const columns, rows = 768, pieceElements/768 + 10
	const third = pieceElements/columns + 2 // of the second piece
	good := dense("blk.0.ffn_up.weight", tensor.EncF32, 1, rows, columns)
	for _, c := range []struct {
		name        string
		tensor      sample
		mix         string
		row, column int64
		text        string
	}{
		{"NaN", good.put(third, 5, math.NaN()), "Q4_K_M", third, 5, "NaN, which cannot be encoded in Q4_K"},
		{"infinite", good.put(third, columns-1, math.Inf(-1)), "Q8_0", third, columns - 1, "-Inf, which cannot be encoded in Q8_0"},
		{"too large", good.put(third, 0, 1<<40), "Q4_0", third, 0, "1.099511627776e+12, which cannot be encoded in Q4_0"},
		{"too large for halves", good.put(third, 7, 70000), "F16", third, 7, "70000, which cannot be encoded in F16"},
		{"the first of two", good.put(third, 700, math.NaN()).put(third+1, 3, math.NaN()), "Q6_K", third, 700, "NaN, which cannot be encoded in Q6_K"},
		{"the first piece", good.put(2, 9, math.NaN()), "MXFP4", 2, 9, "NaN, which cannot be encoded in MXFP4"},
		{"outer axes", dense("blk.0.ffn_up_exps.weight", tensor.EncF32, 1, 2, 3, 256).put(5, 255, math.NaN()), "Q4_K", 5, 255, "NaN, which cannot be encoded in Q4_K"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inDir, dir := t.TempDir(), t.TempDir()
			in := makeFile(t, filepath.Join(inDir, "in.gguf"), gguf.Header{}, dense("token_embd.weight", tensor.EncF32, 1, 4, 256), c.tensor)
			for _, threads := range []int{1, 3} {
				for _, old := range []bool{false, true} {
					out := filepath.Join(dir, "out.gguf")
					if old {
						require.NoError(t, os.WriteFile(out, []byte("older"), 0o600))
					}
					_, err := File(context.Background(), in, out, Options{Type: c.mix, Threads: threads})
					var bad *Error
					require.ErrorAs(t, err, &bad)
					require.Equal(t, c.tensor.name, bad.Tensor)
					require.Equal(t, []int64{c.row, c.column}, []int64{bad.Row, bad.Column})
					require.ErrorIs(t, err, skeep.ErrValue)
					require.ErrorContains(t, err, c.tensor.name)
					require.ErrorContains(t, err, c.text)
					if !old {
						onlyFiles(t, dir)
						continue
					}
					onlyFiles(t, dir, "out.gguf")
					require.Equal(t, "older", string(readFile(t, out)))
					require.NoError(t, os.Remove(out))
				}
			}
		})
	}
	// What is kept may hold anything.
	dir := t.TempDir()
	norm := dense("blk.0.attn_norm.weight", tensor.EncF32, 1, 256)
	norm.bytes = bytes.Repeat([]byte{0xff}, 4*256)
	in := makeFile(t, filepath.Join(dir, "in.gguf"), gguf.Header{}, norm)
	checkResult(t, in, filepath.Join(dir, "out.gguf"), quantize(t, in, filepath.Join(dir, "out.gguf"), Options{Type: "Q8_0"}), 7)
}

// TestRefused: what cannot be done is said before anything is written.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "in.gguf")
	in := makeFile(t, path, gguf.Header{}, dense("blk.0.ffn_up.weight", tensor.EncF32, 1, 4, 256))
	before := readFile(t, path)
	for _, name := range []string{"", "Q9_K", "IQ2_XXS", "IQ1_M"} {
		_, err := File(context.Background(), in, filepath.Join(dir, "out.gguf"), Options{Type: name})
		var bad *TypeError
		require.ErrorAs(t, err, &bad)
		onlyFiles(t, dir, "in.gguf")
	}

	symlink, hardlink := filepath.Join(dir, "symlink.gguf"), filepath.Join(dir, "hardlink.gguf")
	require.NoError(t, os.Symlink("in.gguf", symlink))
	require.NoError(t, os.Link(path, hardlink))
	for _, out := range []string{path, symlink, hardlink, filepath.Join(dir, ".", "..", filepath.Base(dir), "in.gguf")} {
		_, err := File(context.Background(), in, out, Options{Type: "Q8_0"})
		var bad *Error
		require.ErrorAs(t, err, &bad, out)
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorIs(t, err, gguf.ErrInUse)
		require.ErrorContains(t, err, out+" is the input itself")
		require.EqualValues(t, -1, bad.Row)
	}
	onlyFiles(t, dir, "in.gguf", "symlink.gguf", "hardlink.gguf")
	require.Equal(t, before, readFile(t, path))

	_, err := File(context.Background(), in, filepath.Join(dir, "none", "out.gguf"), Options{Type: "Q8_0"})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = File(context.Background(), in, filepath.Join(path, "out.gguf"), Options{Type: "Q8_0"})
	require.ErrorContains(t, err, "not a directory")
	_, err = File(context.Background(), in, dir, Options{Type: "Q8_0"})
	require.ErrorIs(t, err, gguf.ErrUnsupported, "a folder")
	if os.Geteuid() != 0 {
		closed := filepath.Join(dir, "closed")
		require.NoError(t, os.Mkdir(closed, 0o500))
		_, err = File(context.Background(), in, filepath.Join(closed, "out.gguf"), Options{Type: "Q8_0"})
		require.ErrorIs(t, err, os.ErrPermission)
	} else {
		t.Log("not tried: a folder that must not be written to, for root may")
	}
	_, err = File(context.Background(), in, filepath.Join(dir, "out.gguf"), Options{Type: "Q8_0", Threads: -1})
	require.ErrorIs(t, err, ErrArgument)
	onlyFiles(t, dir, "in.gguf", "symlink.gguf", "hardlink.gguf")
}

// TestOutputOfTheSameName: whether the output is the input is a question of files, not of names.
func TestOutputOfTheSameName(t *testing.T) {
	home, away := t.TempDir(), t.TempDir()
	x := dense("blk.0.ffn_up.weight", tensor.EncF32, 1, 4, 256)
	makeFile(t, filepath.Join(home, "m.gguf"), gguf.Header{}, x)
	require.NoError(t, os.WriteFile(filepath.Join(away, "m.gguf"), []byte("older"), 0o600))
	t.Chdir(away)
	in, err := gguf.OpenFS(os.DirFS(home), "m.gguf", gguf.Options{})
	require.NoError(t, err)
	_, err = File(context.Background(), in, filepath.Join(home, "m.gguf"), Options{Type: "Q8_0"})
	require.ErrorIs(t, err, ErrArgument)
	quantize(t, in, "m.gguf", Options{Type: "Q8_0"})
	require.NoError(t, in.Close())

	in = openFile(t, "m.gguf")
	require.NoError(t, os.Rename("m.gguf", "renamed.gguf"))
	_, err = File(context.Background(), in, "renamed.gguf", Options{Type: "Q8_0"})
	require.ErrorIs(t, err, ErrArgument)
}

func TestCanceled(t *testing.T) {
	dir := t.TempDir()
	in := embeddedFile(t)
	out := filepath.Join(dir, "out.gguf")
	require.NoError(t, os.WriteFile(out, []byte("older"), 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := File(ctx, in, out, Options{Type: "Q4_0"})
	require.ErrorIs(t, err, context.Canceled)

	pieces := 0
	ctx, cancel = context.WithCancel(context.Background())
	_, err = File(ctx, in, out, Options{Type: "Q4_0", Progress: func(p Progress) {
		if pieces++; p.Done > p.Total/2 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Greater(t, pieces, 1)
	require.Less(t, pieces, len(in.Tensors()))
	onlyFiles(t, dir, "out.gguf")
	require.Equal(t, "older", string(readFile(t, out)))
}

// TestUnknownType: a tensor whose size nobody knows is refused by its name.
func TestUnknownType(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "in.gguf")
	const name = "blk.0.ffn_up.weight"
	makeFile(t, path, gguf.Header{}, dense("blk.0.attn_q.weight", tensor.EncF32, 1, 4, 256), dense(name, tensor.EncF32, 1, 4, 256))
	for number, text := range map[uint32]string{200: "type 200", uint32(tensor.Q4_2): "Q4_2", uint32(tensor.IQ4_NL_4_4): "IQ4_NL_4_4"} {
		b := readFile(t, path)
		at := bytes.Index(b, []byte(name)) + len(name) + 4 + 2*8 // behind the number of axes and two extents
		require.Zero(t, binary.LittleEndian.Uint32(b[at:]))
		binary.LittleEndian.PutUint32(b[at:], number)
		in, err := gguf.Read(bytes.NewReader(b), int64(len(b)), gguf.Options{})
		require.NoError(t, err)
		_, err = File(context.Background(), in, filepath.Join(dir, "out.gguf"), Options{Type: "Q8_0"})
		var bad *Error
		require.ErrorAs(t, err, &bad)
		require.Equal(t, name, bad.Tensor)
		require.ErrorIs(t, err, ErrUnsupported)
		require.ErrorContains(t, err, `quant: tensor "blk.0.ffn_up.weight": its type `+text+" is unknown or retired")
		onlyFiles(t, dir, "in.gguf")
	}
}

// TestTruncated: an input that is too short is an error that names the tensor, and nothing is left.
func TestTruncated(t *testing.T) {
	dir := t.TempDir()
	b := embedded.Model()[:len(embedded.Model())-1000]
	in, err := gguf.Read(bytes.NewReader(b), int64(len(b)), gguf.Options{HeaderOnly: true})
	require.NoError(t, err)
	_, err = File(context.Background(), in, filepath.Join(dir, "out.gguf"), Options{Type: "Q8_0"})
	require.ErrorIs(t, err, gguf.ErrTruncated)
	require.ErrorContains(t, err, in.Tensors()[len(in.Tensors())-1].Name)
	onlyFiles(t, dir)
}

// TestBigEndian: the tensors of a big-endian file are those of the little-endian one, as far as big-endian
// blocks are defined, and the result is big-endian.
func TestBigEndian(t *testing.T) {
	dir := t.TempDir()
	little := []sample{dense("token_embd.weight", tensor.EncF32, 1, 5, 512), dense("blk.0.attn_v.weight", tensor.EncF16, 2, 4, 256),
		dense("blk.0.ffn_down.weight", tensor.EncBF16, 3, 4, 256), dense("blk.0.attn_norm.weight", tensor.EncF32, 4, 256)}
	a := makeFile(t, filepath.Join(dir, "little.gguf"), gguf.Header{}, little...)
	b := makeFile(t, filepath.Join(dir, "big.gguf"), gguf.Header{ByteOrder: binary.BigEndian}, little...)
	for _, name := range Types() {
		out := t.TempDir() // those before are open
		quantize(t, a, filepath.Join(out, "a.gguf"), Options{Type: name})
		quantize(t, b, filepath.Join(out, "b.gguf"), Options{Type: name})
		x, y := openFile(t, filepath.Join(out, "a.gguf")), openFile(t, filepath.Join(out, "b.gguf"))
		require.Equal(t, binary.BigEndian, y.ByteOrder())
		for _, info := range x.Tensors() {
			other, _ := y.Tensor(info.Name)
			require.Equal(t, info.Encoding, other.Encoding)
			require.Equal(t, payloadOf(t, x, info.Name), payloadOf(t, y, info.Name), "%s: %s", name, info.Name)
		}
	}
}

// TestSplitSet: a set is read as the file that it is of; none of its parts can be the output.
func TestSplitSet(t *testing.T) {
	dir := t.TempDir()
	whole := assorted(t, filepath.Join(t.TempDir(), "whole.gguf"))
	paths, err := gguf.Split(context.Background(), whole, filepath.Join(dir, "set"), gguf.PartLimits{Tensors: 5})
	require.NoError(t, err)
	require.Greater(t, len(paths), 3)
	in := openFile(t, paths[0])
	for _, path := range paths {
		_, err := File(context.Background(), in, path, Options{Type: "Q4_K_M"})
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorContains(t, err, path)
	}
	onlyFiles(t, dir, func() (names []string) {
		for _, p := range paths {
			names = append(names, filepath.Base(p))
		}
		return names
	}()...)
	fromSet, fromWhole := filepath.Join(dir, "a.gguf"), filepath.Join(dir, "b.gguf")
	checkResult(t, in, fromSet, quantize(t, in, fromSet, Options{Type: "Q4_K_M"}), 15)
	quantize(t, whole, fromWhole, Options{Type: "Q4_K_M"})
	require.Equal(t, readFile(t, fromWhole), readFile(t, fromSet))
}

// TestProgress: reports go up from nothing to everything, in file order, and the trace counts what was encoded.
func TestProgress(t *testing.T) {
	dir := t.TempDir()
	in := assorted(t, filepath.Join(dir, "in.gguf"))
	rec := trace.NewRecorder(100)
	var got []Progress
	out := filepath.Join(dir, "out.gguf")
	r := quantize(t, in, out, Options{Type: "Q5_K_M", Trace: rec, Progress: func(p Progress) {
		_, err := os.Stat(out)
		require.Equal(t, p.Done < p.Total || p.Tensor != "", errors.Is(err, os.ErrNotExist), "the file appears at the end")
		got = append(got, p)
	}})
	require.Equal(t, Progress{Tensor: in.Tensors()[0].Name, Total: r.To}, got[0])
	require.Equal(t, Progress{Done: r.To, Total: r.To}, got[len(got)-1])
	var order []string
	for i, p := range got[:len(got)-1] {
		require.Equal(t, r.To, p.Total)
		require.Less(t, p.Done, got[i+1].Done+1)
		order = append(order, p.Tensor)
	}
	require.Equal(t, []string{"token_embd.weight", "token_embd.weight", "blk.0.attn_norm.weight"}, order[:3], "two pieces, then the next")
	var filled []string
	pieces, encoded := int64(0), int64(0)
	for i, d := range r.Decisions {
		if d.Bytes > 0 {
			filled = append(filled, d.Name)
		}
		if d.From != d.To {
			pieces, encoded = pieces+1, encoded+d.Bytes
			if i == 0 {
				pieces++
			}
		}
	}
	require.Equal(t, filled, slices.Compact(order))
	require.Equal(t, trace.Total{Count: pieces, Bytes: encoded, Elapsed: rec.Total(trace.Requantize).Elapsed}, rec.Total(trace.Requantize))
	require.Positive(t, rec.Total(trace.Requantize).Elapsed)
	events, _ := rec.Events()
	require.Equal(t, "F32 -> Q5_K", events[0].Detail)
	require.Equal(t, "token_embd.weight", events[0].Tensor)
	require.EqualValues(t, -1, events[0].Layer)
}

// TestMemory: what is held of a file is a few rows, on the Go heap and outside, also of a vector.
func TestMemory(t *testing.T) {
	const vector = 4 << 20 // elements, 16 MiB
	dir := t.TempDir()
	big, long := filepath.Join(dir, "big.gguf"), filepath.Join(dir, "long.gguf")
	_, err := Synth(context.Background(), big, SynthOptions{Type: "F16", Pure: true, Seed: 1,
		Shape: Shape{Layers: 1, Width: 1024, Heads: 8, KVHeads: 8, FF: 2048, Vocab: 12288, Context: 64}})
	require.NoError(t, err)
	makeFile(t, long, gguf.Header{}, sample{"rope_freqs.weight", tensor.EncF32, tensor.ShapeOf(vector), make([]byte, 4*vector)})
	for _, c := range []struct {
		path    string
		mix     string
		largest int64 // bytes of a tensor
	}{{big, "Q4_0", 24 << 20}, {big, "F32", 24 << 20}, {long, "Q4_0", 4 * vector}} {
		in := openFile(t, c.path)
		require.Equal(t, c.largest, in.Tensors()[0].Bytes)
		var m runtime.MemStats
		heap := func() int64 {
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		outside := func() (n int64) {
			for _, b := range skeep.Stats().Bytes {
				n += b
			}
			return n
		}
		runtime.GC()
		heapBefore, outsideBefore, totalBefore := heap(), outside(), m.TotalAlloc
		heapMost, outsideMost := int64(0), int64(0)
		quantize(t, in, filepath.Join(dir, "out.gguf"), Options{Type: c.mix, Threads: 2, Progress: func(Progress) {
			heapMost, outsideMost = max(heapMost, heap()-heapBefore), max(outsideMost, outside()-outsideBefore)
		}})
		heap()
		allocated := int64(m.TotalAlloc - totalBefore)
		t.Logf("%s of %s: heap at most %.2f MiB, %.2f allocated in all, %.2f outside", c.mix, filepath.Base(c.path),
			float64(heapMost)/(1<<20), float64(allocated)/(1<<20), float64(outsideMost)/(1<<20))
		require.Less(t, heapMost, int64(12<<20))
		require.Less(t, allocated, int64(12<<20), "so much was allocated in all")
		require.Less(t, outsideMost, int64(12<<20))
		require.Equal(t, outsideBefore, outside(), "nothing stays open")
	}
}

// TestFileProperty: any tensor of any dense format and shape in any mix is what it is encoded at once.
func TestFileProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir := t.TempDir() // those before are open
		var tensors []sample
		for i, name := range []string{"token_embd.weight", "blk.0.attn_v.weight", "blk.3.ffn_down.weight", "unknown.weight", "blk.0.attn_q.bias"} {
			dims := []int64{rapid.SampledFrom([]int64{0, 1, 32, 64, 96, 128, 256, 320, 512, 7}).Draw(r, "columns")}
			for range rapid.IntRange(0, 3).Draw(r, "outer axes") {
				dims = append([]int64{rapid.Int64Range(0, 5).Draw(r, "extent")}, dims...)
			}
			e := rapid.SampledFrom([]tensor.Encoding{tensor.EncF32, tensor.EncF16, tensor.EncBF16, tensor.EncF64}).Draw(r, "encoding")
			tensors = append(tensors, dense(name, e, uint64(i), dims...))
		}
		in := makeFile(t, filepath.Join(dir, "in.gguf"), gguf.Header{}, tensors...)
		name := rapid.SampledFrom(Types()).Draw(r, "type")
		m, _ := parseType(name)
		o := Options{Type: name, Pure: rapid.Bool().Draw(r, "pure"), Threads: rapid.IntRange(1, 3).Draw(r, "threads")}
		checkResult(t, in, filepath.Join(dir, "out.gguf"), quantize(t, in, filepath.Join(dir, "out.gguf"), o), m.fileType)
	})
}
