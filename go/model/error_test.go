package model

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/exec"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// onDisk opens the embedded model, with bytes behind the last tensor or not, from a file that the test may cut.
func onDisk(t *testing.T, o Options) (*Model, *os.File) {
	f, err := os.Create(filepath.Join(t.TempDir(), "model.gguf"))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	_, err = f.Write(embedded.Model())
	require.NoError(t, err)
	m, err := Open(context.Background(), f.Name(), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := m.Close(); !errors.Is(err, skeep.ErrClosed) {
			require.NoError(t, err)
		}
	})
	return m, f
}

// A model file that is cut under a session: the error names file, tensor, op and layer, for every weight of it.
func TestCutModelFile(t *testing.T) {
	m, f := onDisk(t, Options{})
	type weight struct {
		name       string
		begin, end int64
	}
	var last weight
	for _, d := range m.Resolution().Decisions {
		if v, ok := m.Weight(d.Name); ok && v.Domain() == tensor.Mapped && v.Position() >= last.begin {
			last = weight{d.Name, v.Position(), v.Position() + v.Bytes()}
		}
	}
	id, ok := tensor.ParseID(last.name)
	require.True(t, ok)
	require.EqualValues(t, len(embedded.Model()), last.end)
	s := session(t, m)
	_, err := s.Append(context.Background(), 1, 52)
	require.NoError(t, err)
	fails := func(is error, op string) (*exec.Error, *skeep.Error) {
		_, err := s.Append(context.Background(), 53)
		require.ErrorIs(t, err, is)
		require.Equal(t, 2, s.Position())
		var at *exec.Error
		require.ErrorAs(t, err, &at)
		if op != "" {
			require.Equal(t, op, at.Op)
		}
		var on *skeep.Error
		require.ErrorAs(t, err, &on)
		require.Equal(t, f.Name(), on.Storage)
		require.NotContains(t, err.Error(), "0x")
		return at, on
	}
	require.NoError(t, f.Truncate(last.end-1))
	at, on := fails(skeep.ErrChanged, "end")
	require.Equal(t, last.name, on.Tensor)
	require.EqualValues(t, id.Layer, at.Layer)
	require.NoError(t, f.Truncate(int64(os.Getpagesize())))
	at, on = fails(skeep.ErrFault, "")
	gone, ok := m.Weight(on.Tensor)
	require.True(t, ok, on.Tensor)
	require.Greater(t, gone.Position()+gone.Bytes(), int64(os.Getpagesize()))
	if id, _ := tensor.ParseID(on.Tensor); id.Layer >= 0 {
		require.EqualValues(t, id.Layer, at.Layer)
	}
	require.NotEmpty(t, at.Op)
}

// A file that was touched, and not cut, has no tensor to name.
func TestTouchedModelFile(t *testing.T) {
	m, f := onDisk(t, Options{})
	s := session(t, m)
	_, err := f.WriteAt([]byte("X"), 0)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(f.Name(), info.ModTime().Add(1e9), info.ModTime().Add(1e9)))
	_, err = s.Append(context.Background(), 1)
	require.ErrorIs(t, err, skeep.ErrChanged)
	require.ErrorContains(t, err, f.Name())
}

// What a family is not given, and a session that is used out of turn, are told by name through the model as well.
func TestAbsentWeightAndStepThatDidNotBegin(t *testing.T) {
	m := tiny(t, Options{})
	s := session(t, m)
	down := m.net.layers[1].down
	m.net.layers[1].down = View{}
	_, err := s.Append(context.Background(), 1)
	m.net.layers[1].down = down
	require.ErrorIs(t, err, skeep.ErrAbsent)
	var at *exec.Error
	require.ErrorAs(t, err, &at)
	require.Equal(t, "matmul_t", at.Op)
	require.Equal(t, 1, at.Layer)

	_, err = s.Append(context.Background(), 1) // the session goes on
	require.NoError(t, err)

	s.in.IDs, _ = s.in.IDs.Narrow(0, 0, 1)
	m.forward(s.eager, m.net, Inputs{IDs: s.in.IDs, Positions: s.in.Positions, K: s.kv.k, V: s.kv.v, Rows: 1})
	err = s.eager.Err()
	require.ErrorIs(t, err, exec.ErrNoStep)
	require.ErrorAs(t, err, &at)
	require.Equal(t, "embed", at.Op)
	_, err = s.Append(context.Background(), 1)
	require.NoError(t, err)
}

// A file system that refuses to map: the model runs from memory, and a note says why.
func TestModelRunsWhereMappingIsRefused(t *testing.T) {
	_, f := onDisk(t, Options{})
	for mode, noted := range map[LoadMode]bool{LoadMap: true, LoadPrewarm: true, LoadLocked: true, LoadRead: false} {
		s, err := load.Open(f.Name(), gguf.Options{})
		require.NoError(t, err)
		s.NotMapped = fmt.Errorf("load: the file system refuses to map it: %w", syscall.ENODEV)
		m, err := open(context.Background(), s, Options{Load: mode}, time.Now())
		require.NoError(t, err)
		require.NoError(t, s.File.Close())
		if noted {
			require.Equal(t, []string{"weights are read instead of mapped: the file system refuses to map it: no such device"}, m.Notes(), mode)
		} else {
			require.Empty(t, m.Notes())
		}
		_, err = session(t, m).Append(context.Background(), 1, 52)
		require.NoError(t, err)
		require.NoError(t, m.Close())
	}
}

// The end of a context wraps both what it is called and why it came.
func TestCancelTellsItsCause(t *testing.T) {
	why := errors.New("the window was closed")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	m, f := onDisk(t, Options{})
	s := session(t, m)
	_, appended := s.Append(ctx, 1)
	_, opened := Open(ctx, f.Name(), Options{})
	_, likelihoods := m.NegativeLogLikelihoods(ctx, []int32{1, 52})
	_, compared := Compare(ctx, m, m, []int32{1, 52})
	errs := map[string]error{"append": appended, "open": opened, "score": s.Score(ctx, []int32{1}, nil), "likelihoods": likelihoods, "compare": compared}
	for _, err := range s.Generate(ctx, []int32{1}, GenerateOptions{}) {
		errs["generate"] = err
	}
	for name, err := range errs {
		require.ErrorIs(t, err, context.Canceled, name)
		require.ErrorIs(t, err, why, name)
	}
}

// A mapping that the caller made and whose file is cut: an error, where the process would end.
func TestCutMappingOfTheCaller(t *testing.T) {
	_, f := onDisk(t, Options{})
	b, err := syscall.Mmap(int(f.Fd()), 0, len(embedded.Model()), syscall.PROT_READ, syscall.MAP_SHARED)
	require.NoError(t, err)
	m, err := OpenBytes(context.Background(), "pages", b, Options{})
	require.NoError(t, err)
	s := session(t, m)
	_, err = s.Append(context.Background(), 1)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(int64(os.Getpagesize())))
	_, err = s.Append(context.Background(), 52)
	require.ErrorIs(t, err, skeep.ErrFault)
	var on *skeep.Error
	require.ErrorAs(t, err, &on)
	require.Equal(t, "pages", on.Storage)
	w, ok := m.Weight(on.Tensor)
	require.True(t, ok, on.Tensor)
	_, err = w.Storage().ReadAt(make([]byte, 4), w.Bytes()-4)
	require.ErrorIs(t, err, skeep.ErrFault)
	_, err = OpenBytes(context.Background(), "pages", b, Options{})
	require.ErrorIs(t, err, skeep.ErrFault)
	require.NoError(t, s.Close())
	require.NoError(t, m.Close())
	require.NoError(t, syscall.Munmap(b))
}
