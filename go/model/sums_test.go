package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/quant"
	"github.com/skeep-project/skeep/go/tokenizer"
)

// sums is how a model answers the sums that training never saw: all with numbers of 1-2 digits, and 500 where one
// has 3.
type sums struct {
	right, asked [2]int // 1-2 digits, 3 digits
	copies       int64
}

// share is per cent.
func (s sums) share(digits int) float64 {
	return 100 * float64(s.right[digits]) / float64(s.asked[digits])
}

func (s sums) all() float64 {
	return 100 * float64(s.right[0]+s.right[1]) / float64(s.asked[0]+s.asked[1])
}

func unseenSums(t *testing.T, m *Model) (r sums) {
	s := session(t, m)
	ask := func(a, b, digits int) {
		require.NoError(t, s.Rewind(0))
		var text strings.Builder
		prompt := m.Tokenizer().Encode(fmt.Sprintf("%d+%d=", a, b), tokenizer.EncodeOptions{BOS: true})
		for token, err := range s.Generate(context.Background(), prompt, GenerateOptions{MaxTokens: 6}) {
			require.NoError(t, err)
			text.WriteString(token.Text)
		}
		r.asked[digits]++
		if text.String() == fmt.Sprint(a+b) {
			r.right[digits]++
		}
	}
	for i := range 100 * 100 {
		if a, b := i/100, i%100; embedded.HeldOut(a, b) {
			ask(a, b, 0)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for r.asked[1] < 500 {
		if a, b := random.IntN(1000), random.IntN(1000); max(a, b) >= 100 && embedded.HeldOut(a, b) {
			ask(a, b, 1)
		}
	}
	r.copies = s.Copies()
	return r
}

// TestSumsThatTrainingNeverSaw is the embedded model's own bar.
func TestSumsThatTrainingNeverSaw(t *testing.T) {
	r := unseenSums(t, tiny(t, Options{}))
	t.Logf("%.1f %% of all %d unseen sums of 1-2 digits, %.1f %% of %d with 3", r.share(0), r.asked[0], r.share(1), r.asked[1])
	require.Greater(t, r.asked[0], 500)
	require.GreaterOrEqual(t, r.share(0), 99.0)
	require.GreaterOrEqual(t, r.share(1), 90.0)
}

// TestAccuracyOfEveryType encodes the embedded model in every type that can be made, and asks again. No type may
// lose more than its bits allow, and every one runs on kernels of its own.
func TestAccuracyOfEveryType(t *testing.T) {
	if testing.Short() || underRace {
		t.Skip("38,000 sums; run without -short and -race")
	}
	in, err := gguf.Open(filepath.Join("..", "embedded", "skeep-tiny.gguf"), gguf.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	f16 := unseenSums(t, tiny(t, Options{}))
	for _, typ := range quant.Types() {
		path := filepath.Join(t.TempDir(), typ+".gguf")
		report, err := quant.File(context.Background(), in, path, quant.Options{Type: typ})
		require.NoError(t, err)
		m, err := Open(context.Background(), path, Options{})
		require.NoError(t, err)
		r := unseenSums(t, m)
		require.NoError(t, m.Close())
		elements := int64(0)
		for _, d := range report.Decisions {
			n, err := d.Shape.Elements()
			require.NoError(t, err)
			elements += n
		}
		bits := 8 * float64(report.To) / float64(elements)
		t.Logf("%-9s %5.2f bits: %5.1f %% (%+5.1f), 1-2 digits %5.1f %%, 3 digits %5.1f %%", typ, bits, r.all(), r.all()-f16.all(),
			r.share(0), r.share(1))
		for _, bar := range []struct{ bits, loss float64 }{{8, 1}, {5, 1.5}, {4, 4}} {
			if bits >= bar.bits {
				require.LessOrEqual(t, f16.all()-r.all(), bar.loss, typ)
				break
			}
		}
		require.Zero(t, r.copies, "%s: operands decoded for want of a kernel", typ)
	}
}
