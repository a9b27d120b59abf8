package quant

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/model"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/tokenizer"
)

// little is a shape whose rows are whole blocks of every format.
var little = Shape{Layers: 2, Width: 256, Heads: 4, KVHeads: 2, FF: 512, Vocab: 300, Context: 32}

func synthesize(t testing.TB, path string, o SynthOptions) (*gguf.File, *Report) {
	t.Helper()
	r, err := Synth(context.Background(), path, o)
	require.NoError(t, err)
	return openFile(t, path), r
}

// allTypes are the names of all mixes, those that are decoded only among them.
func allTypes() (names []string) {
	for _, m := range mixes {
		names = append(names, m.name)
	}
	return names
}

// rootMeanSquare is that of a tensor, and its mean.
func rootMeanSquare(t testing.TB, f *gguf.File, name string) (rms, mean float64) {
	t.Helper()
	pool, err := skeep.NewPool(1)
	require.NoError(t, err)
	defer pool.Close()
	v, err := skeep.Materialize(pool, name, viewOf(t, f, name), tensor.Dense(tensor.F32), skeep.Ambient())
	require.NoError(t, err)
	n, err := v.Shape().Elements()
	require.NoError(t, err)
	values := make([]float32, n)
	require.NoError(t, v.CopyTo(values))
	for _, x := range values {
		rms, mean = rms+float64(x)*float64(x), mean+float64(x)
	}
	return math.Sqrt(rms / float64(n)), mean / float64(n)
}

// lengths is the root mean square of a matrix, of 1, where it is not 1. Formats of few levels that keep what they
// can of normally distributed numbers make them shorter: signs are √(2/π), the best three levels √0.81.
var lengths = map[tensor.Encoding]float64{tensor.Q1_0: 0.798, tensor.TQ1_0: 0.9, tensor.TQ2_0: 0.9, tensor.Q2_0: 0.93, tensor.Q2_K: 0.97}

func lengthOf(e tensor.Encoding) float64 {
	if l, ok := lengths[e]; ok {
		return l
	}
	return 1
}

// TestSynthOfEveryType: the file is as large as it says, runs, and its matrices are of the size that they are to
// be, whatever the format.
func TestSynthOfEveryType(t *testing.T) {
	for _, name := range allTypes() {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "synth.gguf")
			f, r := synthesize(t, path, SynthOptions{Shape: little, Type: name, Seed: 1})
			m, err := parseType(name)
			require.NoError(t, err)
			v, _ := f.Value("general.file_type")
			fileType, _ := v.Uint()
			require.EqualValues(t, m.fileType, fileType)
			require.Equal(t, m.fileType, r.FileType)

			last := f.Tensors()[len(f.Tensors())-1]
			alignment := f.Parts()[0].Alignment
			st, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, f.Parts()[0].DataOffset+(last.Offset+last.Bytes+alignment-1)/alignment*alignment, st.Size())
			require.Len(t, f.Tensors(), len(r.Decisions))
			var elements, payload int64
			checked := map[[2]int64]bool{}
			for i, x := range f.Tensors() {
				require.Equal(t, Decision{x.Name, x.Shape, tensor.EncF32, x.Encoding, x.Bytes, r.Decisions[i].Reason, r.Decisions[i].Note}, r.Decisions[i])
				n, err := x.Shape.Elements()
				require.NoError(t, err)
				elements, payload = elements+n, payload+x.Bytes
				rms, mean := rootMeanSquare(t, f, x.Name)
				if x.Shape.Rank == 1 {
					require.Equal(t, [2]float64{1, 1}, [2]float64{rms, mean}, x.Name)
					continue
				}
				deviation := 1 / math.Sqrt(float64(x.Shape.Dims[1]))
				if key := [2]int64{int64(x.Encoding), x.Shape.Dims[1]}; !checked[key] {
					checked[key] = true
					t.Logf("%s of %d columns: %.4f, mean %.4f", x.Encoding, x.Shape.Dims[1], rms/deviation, mean/deviation)
				}
				require.InDelta(t, lengthOf(x.Encoding), rms/deviation, 0.03, "%s %s", x.Name, x.Encoding)
				require.InDelta(t, 0, mean/deviation, 0.1, "%s %s", x.Name, x.Encoding)
			}
			require.Equal(t, little.Params(), elements)
			require.Equal(t, payload, r.To)
			require.Zero(t, r.From)

			run, err := model.Open(context.Background(), path, model.Options{Threads: 2})
			require.NoError(t, err)
			defer func() { require.NoError(t, run.Close()) }()
			s, err := run.NewSession()
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			require.Equal(t, little.Vocab, run.Tokenizer().Len())
			ids := run.Tokenizer().Encode("Aé", tokenizer.EncodeOptions{BOS: true})
			require.Equal(t, []int32{1, 3 + 'A', 3 + 0xc3, 3 + 0xa9}, ids, "bytes")
			_, err = s.Append(context.Background(), ids...)
			require.NoError(t, err)
			logits, err := s.Append(context.Background(), 42)
			require.NoError(t, err)
			require.Len(t, logits, little.Vocab)
			squares := 0.0
			for _, x := range logits {
				squares += float64(x) * float64(x)
			}
			squares /= float64(little.Vocab) // normed activations times a head of variance 1/n
			require.True(t, squares > 0.3 && squares < 3, "mean square of logits %g", squares)
		})
	}
}

// TestSynthOddRows: rows that are no whole blocks, in every type, and of few elements.
func TestSynthOddRows(t *testing.T) {
	for _, shape := range []Shape{
		{Layers: 1, Width: 64, Heads: 8, KVHeads: 4, FF: 172, Vocab: 512, Context: 16}, // rows of 64 and 172
		{Layers: 1, Width: 6, Heads: 3, KVHeads: 1, FF: 1, Vocab: 259, Context: 1},
		{Layers: 1, Width: 640, Heads: 4, KVHeads: 1, FF: 96, Vocab: 259, Context: 1},
	} {
		for _, name := range allTypes() {
			f, _ := synthesize(t, filepath.Join(t.TempDir(), "odd.gguf"), SynthOptions{Shape: shape, Type: name, Seed: 3})
			for _, x := range f.Tensors() {
				if x.Shape.Rank == 2 && x.Shape.Dims[0]*x.Shape.Dims[1] > 10000 {
					rms, _ := rootMeanSquare(t, f, x.Name)
					require.InDelta(t, lengthOf(x.Encoding), rms*math.Sqrt(float64(x.Shape.Dims[1])), 0.04, "%s %s", x.Name, x.Encoding)
				}
			}
		}
	}
}

// TestSynthSeeds: a seed decides every byte; another makes every matrix another one. No two rows of a
// file of several blocks each are the same.
func TestSynthSeeds(t *testing.T) {
	for _, name := range []string{"F16", "Q4_K_M", "IQ2_XXS"} {
		dir := t.TempDir() // those before are open
		o := SynthOptions{Type: name, Seed: 1, Shape: Shape{Layers: 2, Width: 1024, Heads: 8, KVHeads: 2, FF: 1024, Vocab: 300, Context: 32}}
		a, _ := synthesize(t, filepath.Join(dir, "a.gguf"), o)
		synthesize(t, filepath.Join(dir, "b.gguf"), o)
		require.True(t, bytes.Equal(readFile(t, filepath.Join(dir, "a.gguf")), readFile(t, filepath.Join(dir, "b.gguf"))))
		o.Seed = 2
		c, _ := synthesize(t, filepath.Join(dir, "c.gguf"), o)
		seen := map[string]string{}
		for _, x := range a.Tensors() {
			if x.Shape.Rank < 2 {
				continue
			}
			p := payloadOf(t, a, x.Name)
			require.False(t, bytes.Equal(p, payloadOf(t, c, x.Name)), x.Name)
			for row := range slices.Chunk(p, int(x.Bytes/x.Shape.Dims[0])) {
				require.Empty(t, seen[string(row)], x.Name)
				seen[string(row)] = x.Name
			}
		}
	}
}

func shapeFor(t *testing.T, params float64) Shape {
	s, err := ShapeFor(params)
	require.NoError(t, err)
	return s
}

func TestShapeFor(t *testing.T) {
	require.Equal(t, Shape{Layers: 22, Width: 2048, Heads: 32, KVHeads: 4, FF: 5632, Vocab: 32000, Context: 2048}, shapeFor(t, 1.1e9))
	// Of models that people know, what their files say.
	for params, shape := range map[int64]Shape{
		1100048384:  tinyLlama.Shape,
		6738415616:  llama2.Shape,
		8030261248:  llama3.Shape,
		68976648192: llama70B.Shape,
	} {
		require.Equal(t, params, shape.Params())
	}
	for _, params := range []float64{260e3, 4e6, 24e6, 134e6, 1.1e9, 3e9, 7e9, 8e9, 13e9, 70e9} {
		s := shapeFor(t, params)
		require.NoError(t, s.check())
		require.InEpsilon(t, params, s.Params(), 0.05)
	}
	require.InEpsilon(t, 1.1e9, shapeFor(t, 1.1e9).Params(), 0.01)
	for params := 3e6; params < 1e12; params *= 1.17 { // no layer more or less comes nearer
		s := shapeFor(t, params)
		require.NoError(t, s.check())
		for _, by := range []int{-1, 1} {
			other := s
			if other.Layers += by; other.Layers > 0 {
				require.LessOrEqual(t, math.Abs(float64(s.Params())-params), math.Abs(float64(other.Params())-params))
			}
		}
	}
	for _, params := range []float64{1, 2, 1e13} { // the least and the most that there is
		require.NoError(t, shapeFor(t, params).check(), "%g", params)
	}
	for _, params := range []float64{math.Inf(-1), -1, 0, 0.5, 1e14, 1e30, math.Inf(1), math.NaN()} {
		s, err := ShapeFor(params)
		require.ErrorIs(t, err, ErrArgument, "%g", params)
		require.Zero(t, s)
	}
	for _, s := range []Shape{{}, {Layers: 1, Width: 8}, {Layers: -3, Heads: -1, Width: -8}} {
		s.Params() // of no meaning, but no panic
	}
}

func TestShapeCheck(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out.gguf")
	for text, change := range map[string]func(*Shape){
		"layers is 0, want 1 to 4096":                            func(s *Shape) { s.Layers = 0 },
		"layers is 5000, want":                                   func(s *Shape) { s.Layers = 5000 },
		"width is 0, want":                                       func(s *Shape) { s.Width = 0 },
		"width is 2097152, want":                                 func(s *Shape) { s.Width = 1 << 21 },
		"heads is 0, want":                                       func(s *Shape) { s.Heads = 0 },
		"heads is -4, want":                                      func(s *Shape) { s.Heads = -4 },
		"key-value heads is 0, want":                             func(s *Shape) { s.KVHeads = 0 },
		"feed-forward width is 0, want":                          func(s *Shape) { s.FF = 0 },
		"feed-forward width is 8388608, want":                    func(s *Shape) { s.FF = 1 << 23 },
		"vocabulary is 258, want 259 to":                         func(s *Shape) { s.Vocab = 258 },
		"context is 0, want":                                     func(s *Shape) { s.Context = 0 },
		"width 256 does not give 3 heads of equal, even width":   func(s *Shape) { s.Heads, s.KVHeads = 3, 3 },
		"width 256 does not give 256 heads of equal, even width": func(s *Shape) { s.Heads, s.KVHeads = 256, 256 },
		"4 heads are not a multiple of 3 key-value heads":        func(s *Shape) { s.KVHeads = 3 },
		"4 heads are not a multiple of 8 key-value heads":        func(s *Shape) { s.KVHeads = 8 },
	} {
		s := little
		change(&s)
		_, err := Synth(context.Background(), out, SynthOptions{Shape: s, Type: "F16"})
		var bad *Error
		require.ErrorAs(t, err, &bad, text)
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorContains(t, err, "quant: "+text)
	}
	_, err := Synth(context.Background(), out, SynthOptions{Shape: little, Type: "Q7_7"})
	var bad *TypeError
	require.ErrorAs(t, err, &bad)
	onlyFiles(t, dir)
}

func TestSynthProgressAndCancel(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out.gguf")
	o := SynthOptions{Shape: little, Type: "F32", Seed: 1}
	var got []Progress
	o.Progress = func(p Progress) { got = append(got, p) }
	r, err := Synth(context.Background(), out, o)
	require.NoError(t, err)
	require.Equal(t, Progress{Tensor: "token_embd.weight", Total: r.To}, got[0])
	require.Equal(t, Progress{Done: r.To, Total: r.To}, got[len(got)-1])
	for i, p := range got[1:] {
		require.GreaterOrEqual(t, p.Done, got[i].Done)
		require.Equal(t, r.To, p.Total)
	}
	before := readFile(t, out)

	ctx, cancel := context.WithCancel(context.Background())
	reports := 0
	o.Progress = func(p Progress) {
		if reports++; p.Done > p.Total/2 {
			cancel()
		}
	}
	o.Seed = 2
	_, err = Synth(ctx, out, o)
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, reports, len(got))
	_, err = Synth(ctx, filepath.Join(dir, "new.gguf"), o)
	require.ErrorIs(t, err, context.Canceled)
	onlyFiles(t, dir, "out.gguf")
	require.True(t, bytes.Equal(before, readFile(t, out)))
	_, err = Synth(context.Background(), filepath.Join(dir, "none", "out.gguf"), o)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestSynthPure: every matrix has the format, also one that has no encoder.
func TestSynthPure(t *testing.T) {
	for _, name := range []string{"Q4_K_M", "Q2_K", "IQ1_M", "Q8_0"} {
		m, err := parseType(name)
		require.NoError(t, err)
		_, r := synthesize(t, filepath.Join(t.TempDir(), "pure.gguf"), SynthOptions{Shape: little, Type: name, Pure: true})
		for _, d := range r.Decisions {
			want := tensor.EncF32
			if d.Shape.Rank > 1 {
				want = m.base
			}
			require.Equal(t, want, d.To, d.Name)
		}
	}
}

// TestSynthThenFile: what Synth makes is an input like any other.
func TestSynthThenFile(t *testing.T) {
	dir := t.TempDir()
	in, _ := synthesize(t, filepath.Join(dir, "in.gguf"), SynthOptions{Shape: little, Type: "IQ3_S", Seed: 7})
	out := filepath.Join(dir, "out.gguf")
	checkResult(t, in, out, quantize(t, in, out, Options{Type: "Q4_K_M"}), 15)
}

// A model that is mapped stays.
func TestSynthSparesOpenModels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	o := SynthOptions{Shape: shapeFor(t, 1), Type: "F16"}
	_, err := Synth(context.Background(), path, o)
	require.NoError(t, err)
	before, err := os.Stat(path)
	require.NoError(t, err)
	mapped, err := skeep.MapFile(path)
	require.NoError(t, err)
	_, err = Synth(context.Background(), path, o)
	require.ErrorIs(t, err, gguf.ErrInUse)
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	require.NoError(t, mapped.Close())
	_, err = Synth(context.Background(), path, o)
	require.NoError(t, err)
}
