package exec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// An operand of an op: its name in the documentation of Context, and what fits there.
type operandCase struct {
	name     string
	format   tensor.Format
	dims     []int64
	optional bool
	written  bool
}

// opCases are all ops of Context that compute, each with all of its operands.
var opCases = func() []struct {
	op       string
	operands []operandCase
	call     func(c Context, v map[string]View)
} {
	i32 := tensor.Dense(tensor.I32)
	q4 := tensor.FormatOf(tensor.Q4_0)
	in := func(name string, dims ...int64) operandCase { return operandCase{name: name, format: f32, dims: dims} }
	packed := func(name string, dims ...int64) operandCase {
		return operandCase{name: name, format: q4, dims: dims}
	}
	ids := func(name string) operandCase { return operandCase{name: name, format: i32, dims: []int64{2}} }
	optional := func(o operandCase) operandCase { o.optional = true; return o }
	cache := func(name string, written bool) operandCase {
		return operandCase{name: name, format: f32, dims: []int64{2, 2, 32, 8}, written: written}
	}
	rope := tensor.RopeParams{Dims: 8, Base: 1e4, Scale: 1, AttnFactor: 1}
	type c = []operandCase
	return []struct {
		op       string
		operands []operandCase
		call     func(c Context, v map[string]View)
	}{
		{"embed", c{in("table", 4, 8), ids("ids")}, func(c Context, v map[string]View) { c.Embed(v["table"], v["ids"], 1) }},
		{"norm", c{in("x", 2, 8), optional(in("before", 2, 8)), in("w", 8), optional(in("after", 2, 8))},
			func(c Context, v map[string]View) { c.Norm(v["x"], v["before"], v["w"], v["after"], 1) }},
		{"project", c{in("x", 2, 32), optional(in("w[0]", 4, 32)), optional(packed("w[1]", 3, 32)), optional(in("w[2]", 5, 32)), optional(in("bias[0]", 4)),
			optional(in("bias[1]", 3)), optional(in("bias[2]", 5))},
			func(c Context, v map[string]View) {
				c.Project(v["x"], [3]View{v["w[0]"], v["w[1]"], v["w[2]"]}, [3]View{v["bias[0]"], v["bias[1]"], v["bias[2]"]})
			}},
		{"matmul_t", c{in("x", 2, 32), packed("w", 4, 32)}, func(c Context, v map[string]View) { c.MatMulT(v["x"], v["w"]) }},
		{"logits", c{in("x", 2, 32), in("w", 4, 32)}, func(c Context, v map[string]View) { c.Logits(v["x"], v["w"], 30) }},
		{"rope", c{in("x", 2, 2, 8), ids("positions"), optional(in("factors", 4))},
			func(c Context, v map[string]View) { c.Rope(v["x"], v["positions"], v["factors"], rope) }},
		{"kv_store", c{in("k", 2, 2, 8), in("v", 2, 2, 8), ids("positions"), optional(ids("sequences")), cache("k_cache", true), cache("v_cache", true)},
			func(c Context, v map[string]View) {
				c.KVStore(v["k"], v["v"], v["positions"], v["sequences"], v["k_cache"], v["v_cache"])
			}},
		{"attend", c{in("q", 2, 4, 8), cache("k_cache", false), cache("v_cache", false), ids("positions"), optional(ids("sequences"))},
			func(c Context, v map[string]View) {
				c.Attend(v["q"], v["k_cache"], v["v_cache"], v["positions"], v["sequences"], tensor.AttendParams{Scale: 1})
			}},
		{"glu", c{in("gate", 2, 8), in("up", 2, 8)}, func(c Context, v map[string]View) { c.GLU(v["gate"], v["up"], tensor.GLUSiLU) }},
		{"add", c{in("a", 2, 8), in("b", 2, 8)}, func(c Context, v map[string]View) { c.Add(v["a"], v["b"]) }},
		{"mul", c{in("a", 2, 8), in("b", 2, 8)}, func(c Context, v map[string]View) { c.Mul(v["a"], v["b"]) }},
		{"softmax", c{in("x", 2, 8)}, func(c Context, v map[string]View) { c.Softmax(v["x"], 1) }},
	}
}()

// view makes an operand in a storage of its own.
func (o operandCase) view(t *testing.T, storage string) (View, *skeep.Storage) {
	s, err := skeep.Allocate(storage, 1<<15)
	require.NoError(t, err)
	_, err = s.WriteAt(o.bytes(), 0)
	require.NoError(t, err)
	v, err := s.View(o.name, 0, o.format, tensor.ShapeOf(o.dims...))
	require.NoError(t, err)
	return v, s
}

// bytes are numbers that an op takes: 0, 1 for indices, ones for divisors, zeros elsewhere.
func (o operandCase) bytes() []byte {
	b := make([]byte, 8)
	if o.format.DType == tensor.I32 {
		binary.LittleEndian.PutUint32(b[4:], 1)
	}
	if o.name == "factors" {
		b = bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, int(o.dims[0]))
	}
	return b
}

// mapped makes an operand at the second page of a file, which it ends 100 bytes before.
func (o operandCase) mapped(t *testing.T) (View, *os.File) {
	page := int64(os.Getpagesize())
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	_, err = f.WriteAt(o.bytes(), page)
	require.NoError(t, err)
	l, err := tensor.LayoutOf(o.format, tensor.ShapeOf(o.dims...), tensor.Order{})
	require.NoError(t, err)
	n, err := l.Bytes(o.format)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(page+n+100))
	s, err := skeep.MapFile(f.Name())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	v, err := s.View(o.name, page, o.format, tensor.ShapeOf(o.dims...))
	require.NoError(t, err)
	return v, f
}

// forEachOperand calls do with each operand of each op, and with the operands that fit.
func forEachOperand(t *testing.T, do func(t *testing.T, op string, o operandCase, v map[string]View, call func(c Context, v map[string]View))) {
	for _, c := range opCases {
		for _, o := range c.operands {
			t.Run(c.op+"/"+o.name, func(t *testing.T) {
				v := map[string]View{}
				for _, o := range c.operands {
					v[o.name], _ = o.view(t, "fine")
				}
				do(t, c.op, o, v, c.call)
			})
		}
	}
}

// requireError checks that an error says which op failed in which layer, on which tensor of which storage.
func requireError(t *testing.T, err, is error, op string, layer int, tensor, storage string) {
	t.Helper()
	require.ErrorIs(t, err, is)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, op, e.Op)
	require.Equal(t, layer, e.Layer)
	var s *skeep.Error
	require.ErrorAs(t, err, &s)
	require.Equal(t, storage, s.Storage)
	require.Equal(t, tensor, s.Tensor)
	require.NotContains(t, err.Error(), "0x")
	require.NotContains(t, err.Error(), "storage 1")
}

func TestAbsentOperands(t *testing.T) {
	forEachOperand(t, func(t *testing.T, op string, o operandCase, v map[string]View, call func(c Context, v map[string]View)) {
		e := eager(t, Options{})
		e.Layer(7)
		v[o.name] = View{}
		call(e, v)
		if o.optional {
			require.NoError(t, e.End())
			return
		}
		err := e.End()
		require.ErrorIs(t, err, skeep.ErrAbsent)
		require.ErrorIs(t, err, skeep.ErrArgument)
		var at *Error
		require.ErrorAs(t, err, &at)
		require.Equal(t, op, at.Op)
		require.Equal(t, 7, at.Layer)
		var operand *OperandError
		require.ErrorAs(t, err, &operand)
		require.Equal(t, o.name, operand.Name)
	})
	for op, call := range map[string]func(c Context){
		"project":   func(c Context) { c.Project(f32s(t, "x", 2, 8), [3]View{}, [3]View{}) },
		"split":     func(c Context) { c.Split(View{}, 0, 1) },
		"merge":     func(c Context) { c.Merge(View{}, 0) },
		"narrow":    func(c Context) { c.Narrow(View{}, 0, 0, 1) },
		"transpose": func(c Context) { c.Transpose(View{}, 0, 1) },
	} {
		e := eager(t, Options{})
		call(e)
		require.ErrorIs(t, e.Err(), skeep.ErrAbsent, op)
		require.ErrorContains(t, e.Err(), op)
		require.Error(t, e.End())
	}
}

func TestStaleOperandsNameTheOpThatWasCalled(t *testing.T) {
	forEachOperand(t, func(t *testing.T, op string, o operandCase, v map[string]View, call func(c Context, v map[string]View)) {
		for _, exact := range []bool{false, true} {
			e := eager(t, Options{Exact: exact})
			e.Layer(3)
			var gone *skeep.Storage
			v[o.name], gone = o.view(t, "gone")
			require.NoError(t, gone.Close())
			call(e, v)
			requireError(t, e.End(), skeep.ErrClosed, op, 3, o.name, "gone")
		}
	})
}

func TestOpsOutsideOfAStep(t *testing.T) {
	forEachOperand(t, func(t *testing.T, op string, _ operandCase, v map[string]View, call func(c Context, v map[string]View)) {
		pool, err := skeep.NewPool(1)
		require.NoError(t, err)
		defer pool.Close()
		e, err := NewEager(Options{Pool: pool, SlabBytes: 1 << 20})
		require.NoError(t, err)
		check := func() {
			call(e, v)
			require.ErrorIs(t, e.Err(), ErrNoStep)
			require.ErrorIs(t, e.Err(), skeep.ErrArgument)
			var at *Error
			require.ErrorAs(t, e.Err(), &at)
			require.Equal(t, op, at.Op)
			require.ErrorIs(t, e.End(), ErrNoStep)
		}
		check()
		require.NoError(t, e.Begin())
		call(e, v)
		require.NoError(t, e.End())
		check()
		require.NoError(t, e.Begin())
		require.NoError(t, e.End())
		require.NoError(t, e.Close())
		check()
	})
}

// What an error says is one line, says nothing twice, and names the shapes when they do not fit.
func TestErrorSentences(t *testing.T) {
	e := eager(t, Options{SlabBytes: 1 << 20})
	for how, spoil := range map[string]func(t *testing.T, o operandCase) View{
		"absent": func(*testing.T, operandCase) View { return View{} },
		"shape": func(t *testing.T, o operandCase) View {
			o.dims = slices.Clone(o.dims)
			o.dims[len(o.dims)-1] += 32
			v, _ := o.view(t, "wrong")
			return v
		},
		"format": func(t *testing.T, o operandCase) View {
			o.format = tensor.Dense(tensor.I16)
			v, _ := o.view(t, "wrong")
			return v
		},
		"closed": func(t *testing.T, o operandCase) View {
			v, s := o.view(t, "wrong")
			require.NoError(t, s.Close())
			return v
		},
	} {
		forEachOperand(t, func(t *testing.T, op string, o operandCase, v map[string]View, call func(Context, map[string]View)) {
			v[o.name] = spoil(t, o)
			require.NoError(t, e.Begin())
			call(e, v)
			err := e.End()
			if err == nil {
				return // optional, or read in any format
			}
			text := err.Error()
			require.NotContains(t, text, "\n")
			parts := strings.Split(text, ": ")
			require.Equal(t, parts, slices.Compact(slices.Clone(parts)), text)
			require.NotContains(t, parts[1:], "skeep")
			if errors.Is(err, skeep.ErrShape) {
				require.Contains(t, text, o.name+" "+v[o.name].Shape().String(), how)
				require.Contains(t, text, "operand ", how)
			}
		})
	}
}

// A file that is cut under an operand: by whole pages the op tells, within the last page the end of the step.
func TestCutFilesAreNamed(t *testing.T) {
	forEachOperand(t, func(t *testing.T, op string, o operandCase, v map[string]View, call func(c Context, v map[string]View)) {
		if o.written {
			return // mapped bytes are read-only
		}
		e := eager(t, Options{})
		var f *os.File
		v[o.name], f = o.mapped(t)
		e.Layer(5)
		call(e, v)
		require.NoError(t, e.End())
		require.NoError(t, f.Truncate(int64(os.Getpagesize()+1))) // all but one byte are zeros now
		require.NoError(t, e.Begin())
		call(e, v)
		requireError(t, e.End(), skeep.ErrChanged, "end", -1, "", f.Name())
		require.NoError(t, f.Truncate(0))
		require.NoError(t, e.Begin())
		e.Layer(5)
		call(e, v)
		requireError(t, e.End(), skeep.ErrFault, op, 5, o.name, f.Name())
	})
}
