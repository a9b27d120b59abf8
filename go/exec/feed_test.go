package exec

import (
	"slices"
	"sync"
	"testing"

	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// inFeedOrder is a random weight, as stored and in feed order.
func inFeedOrder(t *testing.T, e tensor.Encoding, out, in int64) (stored, feed View) {
	t.Helper()
	c := eager(t, Options{})
	stored = encoded(t, c, f32s(t, "w", out, in), tensor.FormatOf(e))
	feed, err := skeep.Prepack(c.copier.Pool, "w in feed order", stored, tensor.Feed, skeep.Ambient())
	require.NoError(t, err)
	return stored, feed
}

// A table that is looked up and multiplied gives, from feed order, the rows and logits that it gives as stored; its last
// rows are behind the panels.
// Case C08.
func TestTiedTableInFeedOrder(t *testing.T) {
	for e, n := range map[tensor.Encoding]int64{tensor.Q8_0: 64, tensor.Q4_0: 64, tensor.Q4_K: 256, tensor.Q6_K: 256} {
		stored, feed := inFeedOrder(t, e, 100, n)
		ids := i32s(t, "ids", 99, 0, 15, 16, 95, 96, 47, 47)
		for _, exact := range []bool{false, true} {
			c := eager(t, Options{Exact: exact})
			var rows, logits [2][]float32
			for i, table := range []View{stored, feed} {
				x := c.Embed(table, ids, 1)
				y := c.Logits(x, table, 0)
				require.NoError(t, c.Err())
				rows[i], logits[i] = floats(t, x), floats(t, y)
			}
			require.Equal(t, rows[0], rows[1], "%v: looked up", e)
			require.Equal(t, logits[0], logits[1], "%v: multiplied, exact %v", e, exact)
			require.Zero(t, c.Copies())
			for i, id := range []int64{99, 0, 15} {
				want, err := stored.Get(id, n-1)
				require.NoError(t, err)
				require.EqualValues(t, want, rows[1][int64(i+1)*n-1])
			}
			require.NoError(t, c.End())
		}
	}
}

// Contexts that multiply by one weight at the same time, each with a pool of its own or all with one: the results are those of one
// thread. The race detector and the thread sanitizer watch.
// Case F03.
func TestProductsBesideOthersAreThoseOfOneThread(t *testing.T) {
	stored, feed := inFeedOrder(t, tensor.Q4_0, 40, 96)
	x := f32s(t, "x", 3, 96)
	alone, err := skeep.NewPool(1)
	require.NoError(t, err)
	defer alone.Close()
	c := eager(t, Options{Pool: alone})
	want := floats(t, c.MatMulT(x, stored))
	require.NoError(t, c.End())
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	shared, err := skeep.NewPool(3)
	require.NoError(t, err)
	defer shared.Close()
	for threads := 2; threads <= 8; threads++ {
		own, err := skeep.NewPool(threads)
		require.NoError(t, err)
		var done sync.WaitGroup
		for _, pool := range []*skeep.Pool{own, shared, shared} {
			done.Go(func() {
				c, err := NewEager(Options{Pool: pool, SlabBytes: 1 << 16})
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				got := make([]float32, len(want))
				for i := range rounds {
					w := [2]View{stored, feed}[i%2]
					if err = c.Begin(); err == nil {
						y := c.MatMulT(x, w)
						if err = c.End(); err == nil {
							err = y.CopyTo(got)
						}
					}
					if err != nil || !slices.Equal(got, want) {
						t.Errorf("%d threads, product %d: %v, %v", threads, i, err, got)
						return
					}
				}
			})
		}
		done.Wait()
		own.Close()
	}
}
