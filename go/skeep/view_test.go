package skeep

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

func newPool(t testing.TB) *Pool {
	t.Helper()
	p, err := NewPool(2)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// decodeRow is the row of the kernel table that decodes e on every machine, or -1.
func decodeRow(e tensor.Encoding) int {
	for row, k := range core.Kernels() {
		if k.Op == tensor.OpDecode && k.Encoding == e && k.ISA == "portable" {
			return row
		}
	}
	return -1
}

// randomBlocks fills blocks with random codes and finite scales: most float fields of random bytes would
// be wild, but finite values compare all the same, and NaN is compared as NaN.
func randomBlocks(r *rand.Rand, f tensor.Format, n int64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	if f.Encoding == tensor.EncF32 {
		for i := 0; i+4 <= len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:], math.Float32bits(float32(r.NormFloat64())))
		}
	}
	return b
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// Get in every layout of every encoding is the decoded value. Blocks are put where the order's formula
// wants them, from a row-major original, at least three to a row.
func TestGetIsDecodeEverywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	orders := []tensor.Order{{}, {Family: tensor.InputBlockMajor}, tensor.Panels(1), tensor.Panels(2), tensor.Panels(4), tensor.Panels(8)}
	tried := 0
	for info := range tensor.Encodings() {
		row := decodeRow(info.ID)
		if info.Retired || row < 0 {
			continue
		}
		f := tensor.FormatOf(info.ID)
		const planes, out, blocks = 2, 11, 3
		in := int64(blocks * info.BlockElements)
		shape := tensor.ShapeOf(planes, out, in)
		bytes, err := f.Bytes(shape)
		require.NoError(t, err)
		original := randomBlocks(r, f, bytes)
		for _, order := range orders {
			if info.BlockElements == 1 && order != (tensor.Order{}) {
				continue
			}
			tried++
			t.Run(fmt.Sprintf("%s %s", info.Name, order), func(t *testing.T) {
				l, err := tensor.LayoutOf(f, shape, order)
				require.NoError(t, err)
				rowMajor, err := tensor.LayoutOf(f, shape, tensor.Order{})
				require.NoError(t, err)
				size := int64(info.BlockBytes)
				arranged := make([]byte, bytes+1)
				stored := arranged[1:] // an odd address
				for p := range int64(planes) {
					for o := range int64(out) {
						for b := range int64(blocks) {
							at := b * int64(info.BlockElements)
							from, _, err := rowMajor.Cell(p, o, at)
							require.NoError(t, err)
							to, _, err := l.Cell(p, o, at)
							require.NoError(t, err)
							copy(stored[to*size:][:size], original[from*size:])
						}
					}
				}
				s, err := Borrow("b", stored)
				require.NoError(t, err)
				defer s.Close()
				v, err := s.ViewLayout("w", 0, f, l)
				require.NoError(t, err)
				var plane []float32
				if !info.Integer && info.ID != tensor.EncF64 {
					plane = make([]float32, planes*out*int(in))
					require.NoError(t, coretest.RunDecode(row, original, plane))
				}
				for p := range int64(planes) {
					for o := range int64(out) {
						for i := range in {
							got, err := v.Get(p, o, i)
							require.NoError(t, err)
							flat := (p*out+o)*in + i
							want := plainValue(info, original[flat/int64(info.BlockElements)*size:])
							if plane != nil {
								want = float64(plane[flat])
							}
							if info.Activation { // scale and code have more bits together than a float
								got = float64(float32(got))
							}
							require.True(t, same(want, got), "[%d %d %d]: %v, want %v", p, o, i, got, want)
						}
					}
				}
				// View arithmetic reads the same elements.
				if n, err := v.Narrow(1, 8, 3); assert.NoError(t, err) {
					turned, err := n.Transpose(1, 2)
					require.NoError(t, err)
					got, err := turned.Get(1, in-1, 2)
					require.NoError(t, err)
					want, err := v.Get(1, 10, in-1)
					require.NoError(t, err)
					require.True(t, same(want, got))
				}
			})
		}
	}
	require.Greater(t, tried, 100)
}

// plainValue reads one dense element.
func plainValue(info tensor.EncodingInfo, b []byte) float64 {
	switch info.ID {
	case tensor.EncI8:
		return float64(int8(b[0]))
	case tensor.EncI16:
		return float64(int16(binary.LittleEndian.Uint16(b)))
	case tensor.EncI32:
		return float64(int32(binary.LittleEndian.Uint32(b)))
	case tensor.EncI64:
		return float64(int64(binary.LittleEndian.Uint64(b)))
	case tensor.EncF64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	return math.NaN()
}

func TestGetIntIsExact(t *testing.T) {
	s, err := Allocate("x", 8*3)
	require.NoError(t, err)
	defer s.Close()
	want := []int64{math.MinInt64, math.MaxInt64, 1<<53 + 1}
	var b []byte
	for _, n := range want {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	_, err = s.WriteAt(b, 0)
	require.NoError(t, err)
	v, err := s.View("n", 0, tensor.Dense(tensor.I64), tensor.ShapeOf(3))
	require.NoError(t, err)
	for i, n := range want {
		got, err := v.GetInt(int64(i))
		require.NoError(t, err)
		require.Equal(t, n, got)
	}
	f, err := s.View("f", 0, tensor.Dense(tensor.F32), tensor.ShapeOf(3))
	require.NoError(t, err)
	_, err = f.GetInt(0)
	requireError(t, err, ErrFormat, "x", "f")
}

func TestIndexErrors(t *testing.T) {
	s, err := Allocate("x", 96)
	require.NoError(t, err)
	defer s.Close()
	v, err := s.View("t", 0, tensor.Dense(tensor.F32), tensor.ShapeOf(4, 6))
	require.NoError(t, err)
	for _, index := range [][]int64{{}, {0}, {0, 0, 0}} {
		_, err = v.Get(index...)
		requireError(t, err, ErrIndex, "x", "t")
		require.Contains(t, err.Error(), "for 2 axes")
	}
	for _, index := range [][]int64{{4, 0}, {0, 6}, {-1, 0}, {0, math.MinInt64}} {
		_, err = v.Get(index...)
		var e *Error
		require.ErrorAs(t, err, &e, index)
	}
	var zero View
	_, err = zero.Get()
	require.ErrorIs(t, err, ErrArgument)
	require.ErrorIs(t, zero.CopyTo(nil), ErrArgument)
	require.ErrorIs(t, zero.WriteFloat32s(nil), ErrArgument)
	_, err = zero.Narrow(0, 0, 1)
	require.Error(t, err)
	require.True(t, zero.IsZero())
	require.False(t, zero.Live())
	require.False(t, v.IsZero())
	require.Equal(t, "absent", zero.String())
	require.Equal(t, "t F32 [4 6]", v.String())
}

func TestViewBounds(t *testing.T) {
	s, err := Allocate("x", 100)
	require.NoError(t, err)
	defer s.Close()
	for _, c := range []struct {
		offset int64
		shape  tensor.Shape
		want   error
	}{
		{0, tensor.ShapeOf(26), ErrBounds}, {1, tensor.ShapeOf(25), ErrBounds}, {-1, tensor.ShapeOf(1), ErrBounds},
		{100, tensor.ShapeOf(1), ErrBounds}, {math.MaxInt64, tensor.ShapeOf(1), ErrBounds},
	} {
		for _, name := range []string{"t", ""} {
			_, err := s.View(name, c.offset, tensor.Dense(tensor.F32), c.shape)
			requireError(t, err, c.want, "x", name)
		}
	}
	_, err = s.View("t", 0, tensor.FormatOf(99), tensor.ShapeOf(1))
	var ee *tensor.EncodingError
	require.ErrorAs(t, err, &ee)
	requireError(t, err, ee, "x", "t")
	_, err = s.View("t", 0, tensor.FormatOf(tensor.Q4_0), tensor.ShapeOf(33))
	var se *tensor.ShapeError
	require.ErrorAs(t, err, &se)
	_, err = s.ViewLayout("t", 0, tensor.Dense(tensor.F32), tensor.Layout{})
	require.Error(t, err)
	v, err := s.View("t", 96, tensor.Dense(tensor.F32), tensor.ShapeOf())
	require.NoError(t, err)
	require.NoError(t, v.WriteFloat32s([]float32{7}))
	got, err := v.Get()
	require.NoError(t, err)
	require.Equal(t, 7.0, got)
}

func TestCopies(t *testing.T) {
	s, err := Allocate("x", 4*24)
	require.NoError(t, err)
	defer s.Close()
	v, err := s.View("t", 0, tensor.Dense(tensor.F32), tensor.ShapeOf(4, 6))
	require.NoError(t, err)
	all := make([]float32, 24)
	for i := range all {
		all[i] = float32(i)
	}
	require.NoError(t, v.WriteFloat32s(all))
	got := make([]float32, 24)
	require.NoError(t, v.CopyTo(got))
	require.Equal(t, all, got)

	turned, err := v.Transpose(0, 1)
	require.NoError(t, err)
	part, err := turned.Slice(0, 1, 6, 2)
	require.NoError(t, err)
	got = make([]float32, 12)
	require.NoError(t, part.CopyTo(got))
	require.Equal(t, []float32{1, 7, 13, 19, 3, 9, 15, 21, 5, 11, 17, 23}, got)
	column, err := v.Narrow(1, 2, 1)
	require.NoError(t, err)
	require.NoError(t, column.WriteFloat32s([]float32{-1, -2, -3, -4}))
	require.NoError(t, v.CopyTo(all))
	require.Equal(t, []float32{-1, -2, -3, -4}, []float32{all[2], all[8], all[14], all[20]})
	require.Equal(t, float32(3), all[3])

	requireError(t, v.CopyTo(make([]float32, 23)), ErrShape, "x", "t")
	requireError(t, v.WriteFloat32s(make([]float32, 25)), ErrShape, "x", "t")
	requireError(t, v.WriteInt32s(make([]int32, 24)), ErrFormat, "x", "t")
	ids, err := s.View("ids", 0, tensor.Dense(tensor.I32), tensor.ShapeOf(3))
	require.NoError(t, err)
	require.NoError(t, ids.WriteInt32s([]int32{5, -6, 7}))
	back := make([]int32, 3)
	require.NoError(t, ids.CopyInt32s(back))
	require.Equal(t, []int32{5, -6, 7}, back)
	require.NoError(t, ids.CopyTo(got[:3])) // through Get
	require.Equal(t, []float32{5, -6, 7}, got[:3])
	requireError(t, ids.CopyTo(got), ErrShape, "x", "ids")
}

// The core accepts every layout that arithmetic makes, and refuses what Check refuses.
func TestCoreAgreesOnLayouts(t *testing.T) {
	s, err := Allocate("x", 1<<20)
	require.NoError(t, err)
	defer s.Close()
	r := rand.New(rand.NewPCG(3, 4))
	formats := []tensor.Format{tensor.FormatOf(tensor.Q4_0), tensor.Dense(tensor.F32), tensor.FormatOf(tensor.A8), tensor.FormatOf(tensor.Q4_K)}
	orders := []tensor.Order{{}, {Family: tensor.InputBlockMajor}, tensor.Panels(4)}
	for range 300 {
		f := formats[r.IntN(len(formats))]
		block, _ := f.Block()
		order := orders[r.IntN(len(orders))]
		if block == 1 {
			order = tensor.Order{}
		}
		v, err := func() (View, error) {
			l, err := tensor.LayoutOf(f, tensor.ShapeOf(2, int64(1+r.IntN(12)), int64(block*(1+r.IntN(4)))), order)
			require.NoError(t, err)
			return s.ViewLayout("t", 0, f, l)
		}()
		require.NoError(t, err)
		for range 4 {
			axis := r.IntN(int(v.Shape().Rank))
			extent := v.Shape().Dims[axis]
			var next View
			switch r.IntN(6) {
			case 0:
				start := r.Int64N(extent)
				next, err = v.Narrow(axis, start, 1+r.Int64N(extent-start))
			case 1:
				next, err = v.Step(axis, 1+r.Int64N(3))
			case 2:
				next, err = v.Transpose(axis, r.IntN(int(v.Shape().Rank)))
			case 3:
				next, err = v.Squeeze(axis)
			case 4:
				next, err = v.Split(axis, 1+r.Int64N(3))
			case 5:
				next, err = v.Merge(axis)
			}
			if err == nil {
				v = next
			}
		}
		require.NoError(t, v.Layout().Check(f))
		require.NoError(t, v.wrap("check", core.Check(&v.desc)), "%+v", v.Layout())
		index := make([]int64, v.Shape().Rank)
		_, err = v.Get(index...)
		require.NoError(t, err, "%+v", v.Layout())
	}
}

func TestViewOperationsAllocateNothing(t *testing.T) {
	s, err := Allocate("x", 4*24)
	require.NoError(t, err)
	defer s.Close()
	v, err := s.View("t", 0, tensor.Dense(tensor.F32), tensor.ShapeOf(4, 6))
	require.NoError(t, err)
	buf := make([]float32, 24)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		n, err := v.Narrow(0, 1, 2)
		if err == nil {
			n, err = n.Transpose(0, 1)
		}
		if err == nil {
			err = v.WriteFloat32s(buf)
		}
		if err == nil {
			err = v.CopyTo(buf)
		}
		if err == nil {
			_, err = n.Get(0, 0)
		}
		if err == nil && v.Live() {
			_, err = v.Split(1, 2)
		}
		if err != nil {
			t.Fatal(err)
		}
	}))
}
