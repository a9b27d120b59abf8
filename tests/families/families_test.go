// Package families compares every family of models with other implementations, on tiny models that make.py has made.
package families

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/model"
	"github.com/skeep-project/skeep/go/quant"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/tensor"
)

// tolerance is the largest difference of logits, relative to the largest logit; a feature that is left out must make ten
// times as much.
const tolerance = 2e-4

// index is index.json.
type index struct {
	Prompt   []int32
	Versions map[string]string
	Fixtures map[string]fixture
}

type fixture struct {
	Context     int
	By          []string // whose logits are stored
	Why         string   // which program is right, where they disagree
	Differences map[string]float64
	Off         map[string]off
}

// off is how a feature is switched off in a file.
type off struct {
	Set   map[string]any // metadata, without the architecture's prefix
	Ones  []string       // patterns of tensors that become 1
	Zeros []string       // patterns of tensors that become 0
}

func read(t *testing.T) (x index) {
	b, err := os.ReadFile("index.json")
	require.NoError(t, err)
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	require.NoError(t, d.Decode(&x))
	require.Len(t, x.Prompt, 48)
	return x
}

// logits are those of every position, in exact mode or with 8-bit activations. Steps are shorter than the prompt, so that
// caches of windows go round.
func logits(t *testing.T, file []byte, positions int, exact bool, prompt []int32, overrides ...resolver.Override) (all []float32) {
	m, err := model.OpenBytes(context.Background(), "fixture", file, model.Options{Exact: exact, Threads: 1, Context: positions, Chunk: 7, Overrides: overrides})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	s, err := m.NewSession()
	require.NoError(t, err)
	require.NoError(t, s.Score(context.Background(), prompt, func(_ int, row []float32) error {
		all = append(all, row...)
		return nil
	}))
	return all
}

func stored(t *testing.T, name, by string) []float32 {
	b, err := os.ReadFile(fmt.Sprintf("%s.%s.f32", name, by))
	require.NoError(t, err)
	all := make([]float32, len(b)/4)
	require.NoError(t, binary.Read(bytes.NewReader(b), binary.LittleEndian, all))
	return all
}

// distance is the largest difference, relative to the largest number of want.
func distance(t *testing.T, got, want []float32) (d float64) {
	require.Len(t, got, len(want))
	largest := 0.0
	for i := range want {
		d = max(d, math.Abs(float64(got[i])-float64(want[i])))
		largest = max(largest, math.Abs(float64(want[i])))
	}
	require.Greater(t, largest, 1.0)
	return d / largest
}

// TestEveryFamilyAgreesWithOtherPrograms: exact logits of each fixture are those of other programs, each feature of it
// matters, and a step allocates nothing. No family is listed that has no fixture.
func TestEveryFamilyAgreesWithOtherPrograms(t *testing.T) {
	x := read(t)
	untested := map[string]bool{}
	for _, name := range arch.Architectures() {
		untested[name] = true
	}
	for name, f := range x.Fixtures {
		t.Run(name, func(t *testing.T) {
			file, err := os.ReadFile(name + ".gguf")
			require.NoError(t, err)
			require.LessOrEqual(t, len(file), 400<<10)
			delete(untested, architecture(t, file))
			got := logits(t, file, f.Context, true, x.Prompt)
			require.NotEmpty(t, f.By)
			for _, by := range f.By {
				d := distance(t, got, stored(t, name, by))
				t.Logf("%s: %.1e of the largest logit", by, d)
				require.LessOrEqual(t, d, tolerance, by)
			}
			require.NotEmpty(t, f.Off)
			for feature, o := range f.Off {
				d := distance(t, logits(t, changed(t, file, o), f.Context, true, x.Prompt), got)
				require.GreaterOrEqual(t, d, 10*tolerance, "without %s", feature)
			}
		})
	}
	require.Empty(t, untested, "architectures without a fixture")
}

// TestEveryFamilyKeepsItsBestTokenInQ8 compares the most probable tokens of 8-bit weights and activations.
func TestEveryFamilyKeepsItsBestTokenInQ8(t *testing.T) {
	x := read(t)
	for name, f := range x.Fixtures {
		t.Run(name, func(t *testing.T) {
			in, err := gguf.Open(name+".gguf", gguf.Options{})
			require.NoError(t, err)
			defer in.Close()
			out := filepath.Join(t.TempDir(), "q8.gguf")
			_, err = quant.File(context.Background(), in, out, quant.Options{Type: "Q8_0", Threads: 1})
			require.NoError(t, err)
			file, err := os.ReadFile(out)
			require.NoError(t, err)
			want := stored(t, name, f.By[0])
			got := logits(t, file, f.Context, false, x.Prompt, resolver.Override{Pattern: "*", Form: "stored"})
			require.Equal(t, got, logits(t, file, f.Context, false, x.Prompt, resolver.Override{Pattern: "*", Form: "feed"})) // fused weights, too
			vocab, same := len(want)/len(x.Prompt), 0
			for i := range x.Prompt {
				if best(want[i*vocab:][:vocab]) == best(got[i*vocab:][:vocab]) {
					same++
				}
			}
			require.GreaterOrEqual(t, float64(same)/float64(len(x.Prompt)), 0.95, "%d of %d", same, len(x.Prompt))
		})
	}
}

// TestStepsOfEveryFamilyDoNotAllocate counts.
func TestStepsOfEveryFamilyDoNotAllocate(t *testing.T) {
	for name, f := range read(t).Fixtures {
		m, err := model.Open(context.Background(), name+".gguf", model.Options{Threads: 1, Context: f.Context})
		require.NoError(t, err)
		s, err := m.NewSession()
		require.NoError(t, err)
		id := []int32{5}
		step := func() {
			_, err = s.Append(context.Background(), id...)
			require.NoError(t, err)
		}
		step()
		require.Zero(t, testing.AllocsPerRun(20, step), name)
		require.NoError(t, m.Close())
	}
}

func best(row []float32) int { return slices.Index(row, slices.Max(row)) }

func open(t *testing.T, file []byte) *gguf.File {
	in, err := gguf.Read(bytes.NewReader(file), int64(len(file)), gguf.Options{})
	require.NoError(t, err)
	return in
}

func architecture(t *testing.T, file []byte) string {
	v, ok := open(t, file).Value("general.architecture")
	require.True(t, ok)
	name, _ := v.Text()
	return name
}

// changed is the file with a feature switched off. Every pattern matches something.
func changed(t *testing.T, file []byte, o off) []byte {
	in := open(t, file)
	h := gguf.HeaderOf(in)
	for key, value := range o.Set {
		h.Set(architecture(t, file)+"."+key, valueOf(t, value))
	}
	var out bytes.Buffer
	w, err := gguf.NewWriter(&out, h)
	require.NoError(t, err)
	matched := map[string]bool{}
	for _, x := range in.Tensors() {
		to, err := w.Tensor(x.Name)
		require.NoError(t, err)
		constant := -1
		for i, patterns := range [][]string{o.Zeros, o.Ones} {
			for _, p := range patterns {
				if ok, _ := path.Match(p, x.Name); ok {
					constant, matched[p] = i, true
				}
			}
		}
		if constant < 0 {
			require.NoError(t, in.ReadTensor(x.Name, to))
			continue
		}
		require.Equal(t, tensor.EncF32, x.Encoding, x.Name)
		n, err := x.Shape.Elements()
		require.NoError(t, err)
		require.NoError(t, binary.Write(to, binary.LittleEndian, slices.Repeat([]float32{float32(constant)}, int(n))))
	}
	require.NoError(t, w.Close())
	require.Len(t, matched, len(o.Zeros)+len(o.Ones))
	return out.Bytes()
}

// valueOf is a number, float when it is written so, or a text.
func valueOf(t *testing.T, v any) arch.Value {
	switch v := v.(type) {
	case string:
		return gguf.TextOf(v)
	case json.Number:
		x, err := v.Float64()
		require.NoError(t, err)
		if strings.ContainsAny(v.String(), ".e") {
			return gguf.NumberOf(float32(x))
		}
		return gguf.NumberOf(uint32(x))
	}
	require.Failf(t, "no value", "%v", v)
	return nil
}
