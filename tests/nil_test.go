package tests

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/export/irpa"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/load/pack"
	"github.com/skeep-project/skeep/go/model"
	"github.com/skeep-project/skeep/go/quant"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/tokenizer"
	"github.com/skeep-project/skeep/go/trace"
	"github.com/stretchr/testify/require"
)

// asked finds parameters that may be nil: contexts, functions, interfaces and pointers.
var asked = regexp.MustCompile(`context\.Context|\bfunc\(|\bio\.\w+|\bfs\.FS|\barch\.(Header|Value)\b|[ (.]Header\b|\bScope\b|\.\.\.Option\b|[ (]\*\w`)

// TestNilArguments gives nil for each context, function, interface and pointer that a public function takes: an error that wraps
// ErrArgument, and nothing is left behind, no thread, storage or file.
func TestNilArguments(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tiny.gguf")
	require.NoError(t, os.WriteFile(file, embedded.Model(), 0o600))
	ctx, out := t.Context(), filepath.Join(dir, "out.gguf")
	f, err := gguf.Open(file, gguf.Options{})
	require.NoError(t, err)
	defer f.Close()
	m, err := model.Open(ctx, file, model.Options{Threads: 1})
	require.NoError(t, err)
	defer m.Close()
	s, err := m.NewSession()
	require.NoError(t, err)
	defer s.Close()
	source, err := load.Open(file, gguf.Options{})
	require.NoError(t, err)
	defer source.File.Close()
	scope := skeep.NewModelScope("test")
	defer scope.Close()
	pool, err := skeep.NewPool(1)
	require.NoError(t, err)
	defer pool.Close()
	v, err := skeep.Ambient().Alloc("v", tensor.Dense(tensor.F32), tensor.ShapeOf(2))
	require.NoError(t, err)
	storage, err := skeep.Allocate("closed with nil", 64)
	require.NoError(t, err)
	defer storage.Close()
	w, err := gguf.NewWriter(&bytes.Buffer{}, gguf.HeaderOf(f))
	require.NoError(t, err)
	var (
		none      context.Context
		noHeader  arch.Header
		shape     = quant.Shape{Layers: 1, Width: 32, Heads: 1, KVHeads: 1, FF: 32, Vocab: 259, Context: 32}
		format    = v.Format()
		first     = f.Tensors()[0].Name
		generated = func(seq iter.Seq2[model.Token, error]) (err error) {
			for _, err = range seq {
			}
			return err
		}
	)
	calls := map[string]func() error{
		"arch: func Describe(Header) (*Model, error)":                          func() error { _, err := arch.Describe(noHeader); return err },
		"arch: func Measure(Header) (*Sizes, error)":                           func() error { _, err := arch.Measure(noHeader); return err },
		"arch: func Override(Header, map[string]string) (Header, error)":       func() error { _, err := arch.Override(noHeader, nil); return err },
		"gguf: func (*File) Check(context.Context, string) ([]Finding, error)": func() error { _, err := f.Check(none, first); return err },
		"gguf: func (*File) ReadTensor(string, io.Writer) error":               func() error { return f.ReadTensor(first, nil) },
		"gguf: func (*Writer) CopyFrom(context.Context, *File) error":          func() error { return w.CopyFrom(none, f) },
		"gguf: func Merge(context.Context, *File, string) error":               func() error { return gguf.Merge(none, f, out) },
		"gguf: func NewWriter(io.Writer, Header) (*Writer, error)":             func() error { _, err := gguf.NewWriter(nil, gguf.HeaderOf(f)); return err },
		"gguf: func OpenFS(fs.FS, string, Options) (*File, error)":             func() error { _, err := gguf.OpenFS(nil, "x", gguf.Options{}); return err },
		"gguf: func Read(io.ReaderAt, int64, Options) (*File, error)":          func() error { _, err := gguf.Read(nil, 100, gguf.Options{}); return err },
		"gguf: func Split(context.Context, *File, string, PartLimits) ([]string, error)": func() error {
			_, err := gguf.Split(none, f, out, gguf.PartLimits{})
			return err
		},
		"gguf: func WriteFile(string, Header, func(w *Writer) error) error": func() error { return gguf.WriteFile(out, gguf.HeaderOf(f), nil) },
		"gguf: func WriteSplit(string, Header, PartLimits, func(w *Writer) error) ([]string, error)": func() error {
			_, err := gguf.WriteSplit(out, gguf.HeaderOf(f), gguf.PartLimits{}, nil)
			return err
		},
		"irpa: func NewWriter(io.Writer, *Plan) (*Writer, error)":                   func() error { _, err := irpa.NewWriter(nil, &irpa.Plan{}); return err },
		"irpa: NewWriter without a plan":                                            func() error { _, err := irpa.NewWriter(&bytes.Buffer{}, nil); return err },
		"irpa: func Read(io.ReaderAt, int64, string) (*Archive, error)":             func() error { _, err := irpa.Read(nil, 100, "x"); return err },
		"pack: func Find(context.Context, *gguf.File, Options) (*Pack, error)":      func() error { _, err := pack.Find(none, f, pack.Options{}); return err },
		"pack: Find without a file":                                                 func() error { _, err := pack.Find(ctx, nil, pack.Options{}); return err },
		"pack: func Make(context.Context, *gguf.File, Options) (*Result, error)":    func() error { _, err := pack.Make(none, f, pack.Options{}); return err },
		"pack: Make without a file":                                                 func() error { _, err := pack.Make(ctx, nil, pack.Options{}); return err },
		"pack: func Verify(context.Context, string, func(done, total int64)) error": func() error { return pack.Verify(none, file, nil) },
		"pack: func Wanted(*gguf.File) ([]Tensor, error)":                           func() error { _, err := pack.Wanted(nil); return err },
		"load: func Load(context.Context, Source, *resolver.Resolution, *skeep.ModelScope, Options) (*Weights, error)": func() error {
			_, err := load.Load(none, source, m.Resolution(), scope, load.Options{})
			return err
		},
		"load: Load of a zero Source": func() error {
			_, err := load.Load(ctx, load.Source{}, m.Resolution(), scope, load.Options{})
			return err
		},
		"load: Load without a resolution": func() error { _, err := load.Load(ctx, source, nil, scope, load.Options{}); return err },
		"load: Load without a scope":      func() error { _, err := load.Load(ctx, source, m.Resolution(), nil, load.Options{}); return err },
		"gguf: CopyFrom without a file":   func() error { return w.CopyFrom(ctx, nil) },
		"gguf: Merge without a file":      func() error { return gguf.Merge(ctx, nil, out) },
		"gguf: Split without a file":      func() error { _, err := gguf.Split(ctx, nil, out, gguf.PartLimits{}); return err },
		"model: Compare of one model":     func() error { _, err := model.Compare(ctx, m, nil, []int32{1, 2}); return err },
		"model: Compare with one model":   func() error { _, err := model.Compare(ctx, nil, m, []int32{1, 2}); return err },
		"quant: File without an input":    func() error { _, err := quant.File(ctx, nil, out, quant.Options{Type: "Q4_0"}); return err },
		"model: func (*Model) Generate(context.Context, string, GenerateOptions) iter.Seq2[Token, error]": func() error {
			return generated(m.Generate(none, "1", model.GenerateOptions{}))
		},
		"model: func (*Model) NegativeLogLikelihoods(context.Context, []int32) ([]float64, error)": func() error {
			_, err := m.NegativeLogLikelihoods(none, []int32{1, 2})
			return err
		},
		"model: func (*Session) Append(context.Context, ...int32) ([]float32, error)": func() error { _, err := s.Append(none, 1); return err },
		"model: func (*Session) Generate(context.Context, []int32, GenerateOptions) iter.Seq2[Token, error]": func() error {
			return generated(s.Generate(none, []int32{1}, model.GenerateOptions{}))
		},
		"model: func (*Session) Score(context.Context, []int32, func(i int, logits []float32) error) error": func() error {
			return s.Score(none, []int32{1}, nil)
		},
		"model: func Compare(context.Context, *Model, *Model, []int32) (Divergence, error)": func() error {
			_, err := model.Compare(none, m, m, []int32{1})
			return err
		},
		"model: func Open(context.Context, string, Options) (*Model, error)": func() error {
			_, err := model.Open(none, file, model.Options{})
			return err
		},
		"model: func OpenBytes(context.Context, string, []byte, Options) (*Model, error)": func() error {
			_, err := model.OpenBytes(none, "tiny", embedded.Model(), model.Options{})
			return err
		},
		"quant: func Choose(arch.Header, string, bool) ([]Decision, error)": func() error {
			_, err := quant.Choose(noHeader, "Q4_0", false)
			return err
		},
		"quant: func File(context.Context, *gguf.File, string, Options) (*Report, error)": func() error {
			_, err := quant.File(none, f, out, quant.Options{Type: "Q4_0"})
			return err
		},
		"quant: func Synth(context.Context, string, SynthOptions) (*Report, error)": func() error {
			_, err := quant.Synth(none, out, quant.SynthOptions{Shape: shape, Type: "F16"})
			return err
		},
		"resolver: func (*Resolution) Explain(io.Writer) error":                              func() error { return m.Resolution().Explain(nil) },
		"resolver: func ReadProfile(io.Reader, int64) (Profile, error)":                      func() error { _, err := resolver.ReadProfile(nil, 1); return err },
		"resolver: func MakePlan(arch.Header, PlanOptions) (*Plan, error)":                   func() error { _, err := resolver.MakePlan(nil, resolver.PlanOptions{}); return err },
		"resolver: func Resolve(Request) (*Resolution, error)":                               func() error { _, err := resolver.Resolve(resolver.Request{}); return err },
		"skeep: func (*Storage) CloseContext(context.Context) error":                         func() error { return storage.CloseContext(none) },
		"skeep: func (Copier) Encode(string, View, tensor.Format, Scope) (View, error)":      func() error { _, err := skeep.Copier{Pool: pool}.Encode("x", v, format, nil); return err },
		"skeep: func (Copier) Materialize(string, View, tensor.Format, Scope) (View, error)": func() error { _, err := skeep.Copier{Pool: pool}.Materialize("x", v, format, nil); return err },
		"skeep: func (Copier) Prepack(string, View, tensor.Order, Scope) (View, error)":      func() error { _, err := skeep.Copier{Pool: pool}.Prepack("x", v, tensor.Order{}, nil); return err },
		"skeep: func Materialize(*Pool, string, View, tensor.Format, Scope) (View, error)":   func() error { _, err := skeep.Materialize(pool, "x", v, format, nil); return err },
		"skeep: func Prepack(*Pool, string, View, tensor.Order, Scope) (View, error)":        func() error { _, err := skeep.Prepack(pool, "x", v, tensor.Order{}, nil); return err },
		"skeep: func Retain(*Pool, string, View, Scope) (View, error)":                       func() error { _, err := skeep.Retain(pool, "x", v, nil); return err },
		"skeep: func Map(string, *os.File, int64, int64, ...Option) (*Storage, error)":       func() error { _, err := skeep.Map("x", nil, 0, 1); return err },
		"skeep: func WriteProfile(io.Writer) error":                                          func() error { return skeep.WriteProfile(nil) },
		"tokenizer: func New(arch.Header, Options) (*Tokenizer, error)":                      func() error { _, err := tokenizer.New(noHeader, tokenizer.Options{}); return err },
		"trace: func (*Recorder) WritePerfetto(io.Writer) error":                             func() error { return trace.NewRecorder(1).WritePerfetto(nil) },
	}
	harmless := map[string]func(){ // what nil means nothing to
		"arch: func UnknownKeys(Header) []string":                               func() { require.Empty(t, arch.UnknownKeys(noHeader)) },
		"gguf: func HeaderOf(*File) Header":                                     func() { require.Empty(t, gguf.HeaderOf(nil)) },
		"load: Platform of a zero Source":                                       func() { require.Equal(t, "the source has no file", load.Source{}.Platform().CannotWhy) },
		"gguf: func (*Header) Set(string, arch.Value)":                          func() { require.ErrorIs(t, noValue(out), gguf.ErrFormat) },
		"model: func MetadataNotes(arch.Header, *tokenizer.Tokenizer) []string": func() { require.Empty(t, model.MetadataNotes(noHeader, nil)) },
		"skeep: func Allocate(string, int64, ...Option) (*Storage, error)":      func() { closed(t)(skeep.Allocate("x", 1, nil)) },
		"skeep: func Ambient(...Option) Scope":                                  func() { skeep.Ambient(nil) },
		"skeep: func Borrow(string, []byte, ...Option) (*Storage, error)":       func() { closed(t)(skeep.Borrow("x", make([]byte, 1), nil)) },
		"skeep: func In(*ModelScope) Option":                                    func() { closed(t)(skeep.Allocate("x", 1, skeep.In(nil))) },
		"skeep: func WithTrace(*trace.Recorder) Option":                         func() { closed(t)(skeep.Allocate("x", 1, skeep.WithTrace(nil))) },
		"skeep: func (*ForwardScope) Reset(*Step) error": func() {
			s, err := skeep.NewForwardScope("x", 1)
			require.NoError(t, err)
			require.NoError(t, s.Reset(nil))
			require.NoError(t, s.Close())
		},
		"skeep: func (*Storage) CloseIn(*Step) error": func() {
			s, err := skeep.Allocate("x", 1)
			require.NoError(t, err)
			require.NoError(t, s.CloseIn(nil))
		},
		"skeep: func (Mark) Release(*Step) error": func() {
			s, err := skeep.NewForwardScope("x", 1)
			require.NoError(t, err)
			mark, err := s.Mark()
			require.NoError(t, err)
			require.NoError(t, mark.Release(nil))
			require.NoError(t, s.Close())
		},
		"skeep: func MapFile(string, ...Option) (*Storage, error)": func() { closed(t)(skeep.MapFile(file, nil)) },
		"skeep: func NewForwardScope(string, int64, ...Option) (*ForwardScope, error)": func() {
			s, err := skeep.NewForwardScope("x", 1, nil)
			require.NoError(t, err)
			require.NoError(t, s.Close())
		},
		"model: func Plan(string, Options, func(*arch.Header, *resolver.PlanOptions)) (*resolver.Plan, error)": func() {
			_, err := model.Plan(filepath.Join(dir, "none"), model.Options{}, nil)
			require.Error(t, err)
		},
		"model: func PlanBytes(string, []byte, Options, func(*arch.Header, *resolver.PlanOptions)) (*resolver.Plan, error)": func() {
			_, err := model.PlanBytes("x", nil, model.Options{}, nil)
			require.Error(t, err)
		},
		"skeep: func NewModelScope(string, ...Option) *ModelScope": func() { require.NoError(t, skeep.NewModelScope("x", nil).Close()) },
		"skeep: func OnLeak(func(Leak))":                           func() { skeep.OnLeak(nil) },
		"tokenizer: func UnknownKeys(arch.Header) []string":        func() { require.Empty(t, tokenizer.UnknownKeys(noHeader)) },
	}
	for name, call := range harmless {
		require.NotPanics(t, call, name)
	}
	const panics = "gguf: func ArraysOf(...arch.Value) arch.Value" // as it says
	api, err := os.ReadFile("api.txt")
	require.NoError(t, err)
	for line := range strings.SplitSeq(string(api), "\n") {
		_, signature, isFunc := strings.Cut(line, ": func ")
		if isFunc && calls[line] == nil && harmless[line] == nil && line != panics && asked.MatchString(parameters(signature)) {
			t.Error("what does it answer to nil? ", line)
		}
	}
	before, storages := entries(t, dir), skeep.Stats().Storages
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			var err error
			require.NotPanics(t, func() { err = call() })
			require.Error(t, err)
			require.True(t, errors.Is(err, skeep.ErrArgument), "%v", err)
			require.Contains(t, err.Error(), "is nil")
			require.NotContains(t, err.Error(), "\n")
			require.Equal(t, before, entries(t, dir))
			require.Equal(t, storages, skeep.Stats().Storages)
		})
	}
}

func closed(t *testing.T) func(*skeep.Storage, error) {
	return func(s *skeep.Storage, err error) {
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
}

// noValue writes a header with a nil value.
func noValue(path string) error {
	var h gguf.Header
	h.Set("x", nil)
	return gguf.WriteFile(path, h, func(*gguf.Writer) error { return nil })
}

// parameters is the parameter list of a signature: without receiver and results.
func parameters(signature string) string {
	if strings.HasPrefix(signature, "(") {
		_, signature, _ = strings.Cut(signature, ") ")
	}
	depth := 0
	start := strings.IndexByte(signature, '(')
	for i := max(start, 0); i < len(signature); i++ {
		switch signature[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return signature[start : i+1]
			}
		}
	}
	return ""
}

func entries(t *testing.T, dir string) (names []string) {
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}
