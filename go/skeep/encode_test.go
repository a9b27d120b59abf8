package skeep

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

func TestEncode(t *testing.T) {
	pool := newPool(t)
	rec := trace.NewRecorder(4)
	c := Copier{Pool: pool, Trace: rec, Layer: 3}
	into := Ambient()
	v, err := into.Alloc("w", tensor.Dense(tensor.F32), tensor.ShapeOf(2, 3, 512))
	require.NoError(t, err)
	values := make([]float32, 2*3*512)
	for i := range values {
		values[i] = float32(i%17) - 8
	}
	require.NoError(t, v.WriteFloat32s(values))

	q, err := c.Encode("q", v, tensor.FormatOf(tensor.Q6_K), into)
	require.NoError(t, err)
	require.Equal(t, v.Shape(), q.Shape())
	for i := int64(0); i < 512; i += 7 {
		x, err := q.Get(1, 2, i)
		require.NoError(t, err)
		require.InDelta(t, values[5*512+i], x, 0.3)
	}
	require.EqualValues(t, 1, rec.Total(trace.Requantize).Count)
	require.Equal(t, q.Bytes(), rec.Total(trace.Requantize).Bytes)
	events, _ := rec.Events()
	require.Equal(t, "F32 -> Q6_K", events[0].Detail)
	require.EqualValues(t, 3, events[0].Layer)

	// From one packed format into another, without a dense tensor between.
	_, err = c.Encode("again", q, tensor.FormatOf(tensor.Q4_K), into)
	require.NoError(t, err)

	values[1*3*512+2*512+5] = float32(math.Inf(1))
	require.NoError(t, v.WriteFloat32s(values))
	_, err = c.Encode("q", v, tensor.FormatOf(tensor.Q6_K), into)
	require.ErrorIs(t, err, ErrValue)
	var bad *ValueError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, []int64{1, 2, 5}, bad.Index)
	require.ErrorContains(t, err, "plane [1], row 2, column 5 is +Inf, which cannot be encoded in Q6_K")

	_, err = c.Encode("q", v, tensor.FormatOf(tensor.IQ1_S), into)
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "IQ1_S has no encoder")
	_, err = c.Encode("q", View{}, tensor.FormatOf(tensor.Q6_K), into)
	require.Error(t, err)
	require.ErrorIs(t, c.EncodeTo(v, View{}), ErrArgument)
	other, err := into.Alloc("other", q.Format(), tensor.ShapeOf(3, 512))
	require.NoError(t, err)
	err = c.EncodeTo(v, other)
	require.ErrorIs(t, err, ErrShape)
	require.ErrorContains(t, err, "shape does not fit ("+v.Shape().String()+" into [3 512])")
	require.True(t, Encodable(tensor.FormatOf(tensor.TQ1_0)))
	require.False(t, Encodable(tensor.FormatOf(tensor.IQ3_S)))
	require.EqualValues(t, 2, rec.Total(trace.Requantize).Count, "failures are no copies")
}
