package skeep

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// readers are all ways by which the bytes of a view come out, each for a view whose last element is the file's last.
func readers(t *testing.T) map[string]func(v View) error {
	pool := newPool(t)
	c := Copier{Pool: pool, Layer: -1}
	last := func(v View) []int64 {
		s := v.Shape()
		for a := range s.Dims[:s.Rank] {
			s.Dims[a]--
		}
		return s.Dims[:s.Rank]
	}
	floats := func(v View) []float32 { n, _ := v.Shape().Elements(); return make([]float32, n) }
	into := func(_ View, err error) error { return err }
	return map[string]func(v View) error{
		"View.Get":        func(v View) error { _, err := v.Get(last(v)...); return err },
		"View.GetInt":     func(v View) error { _, err := v.GetInt(last(v)...); return err },
		"View.CopyTo":     func(v View) error { return v.CopyTo(floats(v)) },
		"View.CopyInt32s": func(v View) error { return v.CopyInt32s(make([]int32, len(floats(v)))) },
		"Storage.ReadAt":  func(v View) error { _, err := v.Storage().ReadAt(make([]byte, 4), v.Bytes()-4); return err },
		"Storage.Verify":  func(v View) error { return v.Storage().Verify() },
		"Copier.Materialize": func(v View) error {
			return into(c.Materialize("copy", v, tensor.Dense(tensor.F32), Ambient()))
		},
		"Copier.Prepack": func(v View) error { return into(c.Prepack("copy", v, tensor.Order{}, Ambient())) },
		"Copier.PrepackTo": func(v View) error {
			y, err := Ambient().Alloc("copy", v.Format(), v.Shape())
			require.NoError(t, err)
			return c.PrepackTo(v, y)
		},
		"Copier.Encode": func(v View) error { return into(c.Encode("copy", v, tensor.FormatOf(tensor.Q8_0), Ambient())) },
		"Copier.EncodeTo": func(v View) error {
			y, err := Ambient().Alloc("copy", tensor.FormatOf(tensor.Q8_0), v.Shape())
			require.NoError(t, err)
			return c.EncodeTo(v, y)
		},
		"Materialize": func(v View) error {
			return into(Materialize(pool, "copy", v, tensor.Dense(tensor.F32), Ambient()))
		},
		"Prepack": func(v View) error { return into(Prepack(pool, "copy", v, tensor.Order{}, Ambient())) },
		"Retain":  func(v View) error { return into(Retain(pool, "copy", v, Ambient())) },
		"a step": func(v View) error {
			step, err := NewStep(0)
			require.NoError(t, err)
			defer step.Close()
			require.NoError(t, step.Begin())
			y, err := Ambient().Alloc("copy", tensor.FormatOf(tensor.Q8_0), v.Shape())
			require.NoError(t, err)
			err = Copier{Pool: pool, Step: step, Layer: -1}.EncodeTo(v, y)
			if st := step.inside().End(); err == nil {
				err = v.wrap("materialize", st)
			}
			return err
		},
	}
}

// readNothing are the exported methods that touch no byte of a view.
var readNothing = []string{
	"View.Bytes", "View.Domain", "View.Format", "View.IsZero", "View.Layout", "View.Live", "View.MarkWritten", "View.Merge", "View.Name",
	"View.Narrow", "View.Position", "View.Shape", "View.Slice", "View.Split", "View.Squeeze", "View.Step", "View.Storage", "View.String", "View.Transpose",
	"View.Unsqueeze", "View.Value", "View.Writes", "View.WithValue", "View.WriteFloat32s", "View.WriteInt32s",
	"Storage.Advise", "Storage.Alias", "Storage.Close", "Storage.CloseContext", "Storage.CloseIn", "Storage.Closed", "Storage.Domain",
	"Storage.ID", "Storage.Lock", "Storage.Name", "Storage.Resident", "Storage.Size", "Storage.Spec", "Storage.Tensor",
	"Storage.TryClose", "Storage.View", "Storage.ViewLayout", "Storage.Writable", "Storage.WriteAt",
}

// A stale view names what was called, by whatever way.
func TestStaleViewsNameTheOp(t *testing.T) {
	pool := newPool(t)
	s, err := Allocate("gone", 4*64)
	require.NoError(t, err)
	v, err := s.View("stale", 0, tensor.Dense(tensor.F32), tensor.ShapeOf(2, 32))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	first := func(_ any, err error) error { return err }
	for op, errs := range map[string][]error{
		"get":         {first(v.Get(0, 0)), first(v.GetInt(0, 0))},
		"copy":        {v.CopyTo(make([]float32, 64))},
		"write":       {v.WriteFloat32s(make([]float32, 64)), first(s.WriteAt(make([]byte, 1), 0))},
		"read":        {first(s.ReadAt(make([]byte, 1), 0))},
		"view":        {first(s.View("stale", 0, v.Format(), v.Shape())), first(s.View("", 0, v.Format(), v.Shape()))},
		"alias":       {first(s.Alias("stale", 0, 4))},
		"materialize": {first(Materialize(pool, "copy", v, v.Format(), Ambient()))},
		"retain":      {first(Retain(pool, "copy", v, Ambient()))},
		"prepack":     {first(Prepack(pool, "copy", v, tensor.Order{}, Ambient()))},
		"encode":      {first(Copier{Pool: pool}.Encode("copy", v, tensor.FormatOf(tensor.Q8_0), Ambient()))},
		"verify":      {s.Verify()},
	} {
		for _, err := range errs {
			var e *Error
			require.ErrorAs(t, err, &e, op)
			require.Equal(t, op, e.Op)
			require.ErrorIs(t, err, ErrClosed, op)
			require.Equal(t, "gone", e.Storage, op)
		}
	}
	_, err = View{}.Get()
	require.ErrorIs(t, err, ErrAbsent)
	require.ErrorIs(t, err, ErrArgument)
}

// Every reader of a mapped file that was cut tells it, naming file and tensor: also within the last page, where zeros
// would be read without a fault. A method that is in neither list fails the test.
func TestEveryReaderTellsACutFile(t *testing.T) {
	read := readers(t)
	for _, of := range []any{&View{}, &Storage{}, &Copier{}} {
		methods := reflect.TypeOf(of)
		for i := range methods.NumMethod() {
			name := methods.Elem().Name() + "." + methods.Method(i).Name
			if read[name] == nil {
				require.Contains(t, readNothing, name, "does it read bytes?")
			}
		}
	}
	page := os.Getpagesize()
	q8, _ := tensor.Q8_0.Info()
	for _, name := range slices.Sorted(maps.Keys(read)) {
		told := 0
		for _, e := range []tensor.Encoding{tensor.EncF32, tensor.EncI32, tensor.Q8_0} {
			f, shape := tensor.FormatOf(e), tensor.ShapeOf(8, 160)
			bytes := 4 * 8 * 160
			if e == tensor.Q8_0 {
				shape = tensor.ShapeOf(48, 160)
				bytes = 48 * 160 / 32 * q8.BlockBytes
			}
			file := file(t, 3*page+100)
			_, err := file.WriteAt(slices.Repeat([]byte{0x3c}, 3*page+100), 0) // numbers near 1 in each format
			require.NoError(t, err)
			s, err := MapFile(file.Name())
			require.NoError(t, err)
			whole, err := s.View("t", int64(3*page+100-bytes), f, shape)
			require.NoError(t, err)
			if err := read[name](whole); err != nil { // not for this format
				require.NotErrorIs(t, err, ErrChanged)
				require.NoError(t, s.Close())
				continue
			}
			require.NoError(t, file.Truncate(int64(3*page+50)))
			requireError(t, read[name](whole), ErrChanged, file.Name(), "t")
			if name != "Storage.Verify" {
				require.NoError(t, file.Truncate(int64(page)))
				requireError(t, read[name](whole), ErrFault, file.Name(), "t")
			}
			require.NoError(t, s.Close())
			told++
		}
		require.NotZero(t, told, name)
	}
}
