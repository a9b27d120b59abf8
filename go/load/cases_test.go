package load_test

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/skeep-project/skeep/go/exec"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// Tests of cases of tests/testdata/cases.tsv.

// weight is a tensor of a file that a test makes.
type weight struct {
	name     string
	encoding tensor.Encoding
	shape    tensor.Shape
	data     []byte
}

// made writes a file of these tensors, in their order, and opens it.
func made(t *testing.T, alignment uint32, weights ...weight) load.Source {
	path := filepath.Join(t.TempDir(), "made.gguf")
	h := gguf.Header{Metadata: []gguf.Pair{{Key: "general.alignment", Value: gguf.NumberOf(alignment)}}}
	for _, w := range weights {
		h.Tensors = append(h.Tensors, gguf.TensorSpec{Name: w.name, Encoding: w.encoding, Shape: w.shape})
	}
	require.NoError(t, gguf.WriteFile(path, h, func(w *gguf.Writer) error {
		for _, x := range weights {
			to, err := w.Tensor(x.name)
			if err != nil {
				return err
			}
			if _, err := to.Write(x.data); err != nil {
				return err
			}
		}
		return nil
	}))
	s, err := load.Open(path, gguf.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.File.Close()) })
	return s
}

func f32s(values ...float32) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// blocks are n random blocks whose halves at the given places are moderate.
func blocks(e tensor.Encoding, n int, halves ...int) []byte {
	info, _ := e.Info()
	r := rand.New(rand.NewPCG(uint64(e), 5))
	b := make([]byte, n*info.BlockBytes)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for at := 0; at < len(b); at += info.BlockBytes {
		for _, h := range halves {
			b[at+h+1] = 0x20 // 2^-7 to 2^-6
		}
	}
	return b
}

// A finite value that F16 makes infinite ends the load; what F16 holds, and infinities of the file, do not. The plan
// names the rule.
// Case B19.
func TestOverflowOfHalvesEndsTheLoad(t *testing.T) {
	for _, c := range []struct {
		value float32
		form  string
		fails bool
	}{
		{65504, "f16", false}, {65519, "f16", false}, {65520, "f16", true}, {7e4, "f16", true}, {-7e4, "f16", true},
		{7e4, "bf16", false}, {7e4, "f32", false}, {7e4, "keep", false}, {math.MaxFloat32, "bf16", true},
		{float32(math.Inf(-1)), "f16", false}, {float32(math.NaN()), "f16", false},
	} {
		values := make([]float32, 3*32)
		values[0], values[2*32+5] = float32(math.Inf(1)), c.value // the first is the file's own
		s := made(t, 32, weight{"blk.0.attn_q.weight", tensor.EncF32, tensor.ShapeOf(3, 32), f32s(values...)})
		p, err := resolver.ProfileNamed("desktop", 0)
		require.NoError(t, err)
		r, err := resolver.Resolve(resolver.Request{Header: s.File, Profile: p, Platform: s.Platform(), Kernels: skeep.Kernels(),
			Overrides: []resolver.Override{{Pattern: "*", Form: c.form}}})
		require.NoError(t, err)
		if c.form == "f16" {
			require.Contains(t, r.Decisions[0].Reason, "65504")
		}
		pool, err := skeep.NewPool(1)
		require.NoError(t, err)
		scope := skeep.NewModelScope("test")
		_, err = load.Load(context.Background(), s, r, scope, load.Options{Pool: pool})
		require.NoError(t, scope.Close())
		pool.Close()
		if !c.fails {
			require.NoError(t, err, "%g as %s", c.value, c.form)
			continue
		}
		var e *load.OverflowError
		require.ErrorAs(t, err, &e, "%g as %s", c.value, c.form)
		require.ErrorContains(t, err, `tensor "blk.0.attn_q.weight": element [2 5] is`)
		require.EqualValues(t, c.value, e.Value)
		require.Equal(t, []int64{2, 5}, e.Index)
	}
}

// Tensors at odd offsets of a file are read where they lie, with the numbers of aligned ones.
// Case F05.
func TestTensorsAtOddOffsetsAreReadWhereTheyLie(t *testing.T) {
	x := make([]float32, 64)
	for i := range x {
		x[i] = float32(i%7) - 2.5
	}
	h := make([]byte, 2*2*64)
	for i := range 128 {
		binary.LittleEndian.PutUint16(h[2*i:], uint16(0x3800+37*i))
	}
	weights := []weight{
		{"blk.0.attn_q.weight", tensor.EncF32, tensor.ShapeOf(2, 64), f32s(append(x, x...)...)},
		{"blk.0.attn_k.weight", tensor.Q4_0, tensor.ShapeOf(3, 64), blocks(tensor.Q4_0, 6, 0)},
		{"blk.0.attn_v.weight", tensor.EncF16, tensor.ShapeOf(2, 64), h},
	}
	product := func(alignment uint32, first int) (all []float32) {
		// A tensor of bytes moves what follows to any offset.
		s := made(t, alignment, append([]weight{{"pad.weight", tensor.EncI8, tensor.ShapeOf(int64(first)), make([]byte, first)}}, weights...)...)
		w, _, _ := loaded(t, s, load.Options{}, resolver.Override{Pattern: "blk.*", Place: "mapped"})
		in, err := skeep.Ambient().Alloc("x", tensor.Dense(tensor.F32), tensor.ShapeOf(1, 64))
		require.NoError(t, err)
		require.NoError(t, in.WriteFloat32s(x))
		for _, exact := range []bool{true, false} {
			for i, y := range projected(t, w, in, exact) {
				if alignment == 1 {
					at, err := s.File.Extent(weights[i].name)
					require.NoError(t, err)
					require.NotZero(t, at.Offset%2+int64(first+1)%2, weights[i].name)
				}
				all = append(all, y...)
			}
		}
		return all
	}
	want := product(32, 32)
	for first := 1; first < 6; first++ {
		require.Equal(t, want, product(1, first))
	}
}

// projected is x times q, k and v of layer 0, in one call.
func projected(t *testing.T, w *load.Weights, x skeep.View, exact bool) (y [3][]float32) {
	pool, err := skeep.NewPool(2)
	require.NoError(t, err)
	defer pool.Close()
	e, err := exec.NewEager(exec.Options{Pool: pool, SlabBytes: 1 << 20, Exact: exact})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	require.NoError(t, e.Begin())
	var qkv [3]skeep.View
	for i, name := range []string{"q", "k", "v"} {
		v, ok := w.View("blk.0.attn_" + name + ".weight")
		require.True(t, ok)
		qkv[i] = v
	}
	out := e.Project(x, qkv, [3]skeep.View{})
	require.NoError(t, e.End())
	for i, v := range out {
		n, err := v.Shape().Elements()
		require.NoError(t, err)
		y[i] = make([]float32, n)
		require.NoError(t, v.CopyTo(y[i]))
	}
	return y
}

// q, k and v of one layer in three encodings: each keeps its own form, and each product is right.
// Case H10.
func TestMixedEncodingsOfOneLayerKeepTheirForms(t *testing.T) {
	const n = 512
	h := make([]byte, 2*4*n)
	r := rand.New(rand.NewPCG(10, 10))
	for i := range 4 * n {
		binary.LittleEndian.PutUint16(h[2*i:], uint16(0x2c00+r.IntN(0x0c00))|uint16(r.IntN(2))<<15)
	}
	weights := []weight{
		{"blk.0.attn_q.weight", tensor.Q4_K, tensor.ShapeOf(8, n), blocks(tensor.Q4_K, 16, 0, 2)},
		{"blk.0.attn_k.weight", tensor.Q6_K, tensor.ShapeOf(4, n), blocks(tensor.Q6_K, 8, 208)},
		{"blk.0.attn_v.weight", tensor.EncF16, tensor.ShapeOf(4, n), h},
	}
	w, res, _ := loaded(t, made(t, 32, weights...), load.Options{})
	x, err := skeep.Ambient().Alloc("x", tensor.Dense(tensor.F32), tensor.ShapeOf(1, n))
	require.NoError(t, err)
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(r.NormFloat64())
	}
	require.NoError(t, x.WriteFloat32s(values))
	for i, c := range weights {
		d, _ := res.Decision(c.name)
		v, _ := w.View(c.name)
		require.Equal(t, resolver.Keep, d.Form.Action, c.name)
		require.Equal(t, c.encoding, v.Format().Encoding, c.name)
		for _, exact := range []bool{true, false} {
			got := projected(t, w, x, exact)[i]
			require.Len(t, got, int(c.shape.Dims[0]))
			for o := range got {
				sum, terms := 0.0, 0.0
				for k := range n {
					a, err := v.Get(int64(o), int64(k))
					require.NoError(t, err)
					sum += a * float64(values[k])
					terms += math.Abs(a * float64(values[k]))
				}
				tolerance := 1e-5 * terms
				if !exact {
					tolerance = 0.01 * terms // 8-bit activations
				}
				require.InDelta(t, sum, got[o], tolerance, "%s row %d", c.name, o)
			}
		}
	}
}
