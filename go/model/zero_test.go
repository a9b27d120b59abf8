package model

import (
	"context"
	"errors"
	"io"
	"math"
	"reflect"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/exec"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/tokenizer"
	"github.com/skeep-project/skeep/go/trace"
)

// Every method of the zero values of exported types, with zero arguments, answers.
func TestZeroValuesDoNotPanic(t *testing.T) {
	text := reflect.TypeFor[context.Context]()
	failure := reflect.TypeFor[error]()
	leaks := make(chan skeep.Leak, 1000)
	skeep.OnLeak(func(l skeep.Leak) { leaks <- l })
	defer skeep.OnLeak(nil)
	for _, zero := range []any{
		new(skeep.Storage), new(skeep.View), new(skeep.ForwardScope), new(skeep.ModelScope), new(skeep.Mark), new(skeep.Copier), new(skeep.Pool), new(skeep.Step),
		new(exec.Eager), new(gguf.Writer), new(tokenizer.Decoder), new(Model), new(Session), new(Divergence), new(tokenizer.Tokenizer), new(gguf.File), new(load.Weights),
		new(resolver.Resolution), new(trace.Recorder), new(tensor.Layout), new(tensor.Shape), new(tensor.Format), new(tensor.Order),
	} {
		v := reflect.ValueOf(zero)
		for i := range v.NumMethod() {
			m := v.Type().Method(i)
			if m.Name == "OnDrop" { // takes a function that will be called
				continue
			}
			t.Run(v.Type().Elem().String()+"."+m.Name, func(t *testing.T) {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("%v\n%s", p, debug.Stack())
					}
				}()
				fresh := reflect.New(v.Type().Elem())
				defer closeAny(fresh) // a zero ModelScope can be allocated in
				in := []reflect.Value{fresh}
				for a := 1; a < m.Type.NumIn(); a++ {
					switch at := m.Type.In(a); {
					case m.Type.IsVariadic() && a == m.Type.NumIn()-1:
					case at == reflect.TypeFor[io.Writer]():
						in = append(in, reflect.ValueOf(io.Discard))
					case at == text:
						in = append(in, reflect.ValueOf(t.Context()))
					default:
						in = append(in, reflect.Zero(at))
					}
				}
				for _, out := range m.Func.Call(in) {
					defer closeAny(out)
					switch {
					case out.Type() == failure && !out.IsNil():
						require.NotEmpty(t, out.Interface().(error).Error())
					case out.Kind() == reflect.Func && out.Type().CanSeq2() && !out.IsNil():
						for range out.Seq2() {
						}
					case out.Kind() == reflect.Func && out.Type().CanSeq() && !out.IsNil():
						for range out.Seq() {
						}
					}
				}
			})
		}
	}
	for range 3 { // cleanups run some time after a collection
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	for len(leaks) > 0 {
		leak := <-leaks
		t.Errorf("%d bytes of %q were not closed, made at\n%s", leak.Bytes, leak.Storage, leak.Created)
	}
	require.ErrorIs(t, new(skeep.Storage).Close(), skeep.ErrClosed)
	require.ErrorIs(t, new(skeep.Storage).CloseContext(t.Context()), skeep.ErrClosed)
	require.Empty(t, new(tokenizer.Tokenizer).Encode("a", tokenizer.EncodeOptions{BOS: true}))
	_, err := new(Session).Append(t.Context(), 1)
	require.ErrorIs(t, err, skeep.ErrClosed)
	_, err = new(Model).NewSession()
	require.ErrorIs(t, err, skeep.ErrArgument)
}

// closeAny closes what a method was called on or has returned, where that can be closed.
func closeAny(v reflect.Value) {
	if !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		return
	}
	switch c := v.Interface().(type) {
	case skeep.View:
		if s := c.Storage(); s != nil {
			_ = s.Close()
		}
	case io.Closer:
		_ = c.Close()
	case interface{ Close() }:
		c.Close()
	}
}

// What a model without weights is asked for in Prepare.
func TestPreparedModelSaysThatItHasNoWeights(t *testing.T) {
	stop := errors.New("stop")
	_, err := OpenBytes(t.Context(), "embedded", embedded.Model(), Options{Prepare: func(m *Model) error {
		require.Zero(t, m.TokenBytes())
		_, err := m.NewSession()
		for _, err2 := range m.Generate(t.Context(), "1+1=", GenerateOptions{}) {
			require.ErrorContains(t, err2, "not loaded")
		}
		require.ErrorIs(t, err, skeep.ErrArgument)
		require.ErrorContains(t, err, "not loaded")
		_, err = m.NegativeLogLikelihoods(t.Context(), []int32{1, 2})
		require.ErrorContains(t, err, "not loaded")
		_, err = Compare(t.Context(), m, m, []int32{1})
		require.ErrorContains(t, err, "not loaded")
		return stop
	}})
	require.ErrorIs(t, err, stop)
}

func TestPrepareThatCloses(t *testing.T) {
	_, err := OpenBytes(t.Context(), "embedded", embedded.Model(), Options{Prepare: func(m *Model) error { return m.Close() }})
	require.ErrorIs(t, err, skeep.ErrClosed)
	require.EqualError(t, err, `skeep: open: storage "embedded": closed (Prepare has closed the model)`)
}

func TestArgumentsAreNamed(t *testing.T) {
	m := tiny(t, Options{})
	nothing := math.Inf(-1)
	require.Equal(t, nothing, LogSumExp(nil))
	require.Equal(t, nothing, LogSumExp([]float32{float32(nothing), float32(nothing)}))
	_, err := Compare(t.Context(), m, m, nil)
	require.ErrorIs(t, err, ErrOption)
	require.ErrorContains(t, err, "no tokens")
	s := session(t, m)
	for _, err := range s.Generate(t.Context(), []int32{1}, GenerateOptions{MaxTokens: -3}) {
		require.ErrorIs(t, err, ErrOption)
		require.ErrorContains(t, err, "MaxTokens is -3")
	}
	require.Zero(t, s.Position())
	require.NoError(t, s.Close())
	_, err = s.Append(t.Context(), 1)
	require.ErrorIs(t, err, skeep.ErrClosed)
	require.ErrorContains(t, err, `"session"`)
}
