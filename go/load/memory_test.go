package load_test

import (
	"os"
	"testing"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// Case C27. Decoding to F32 takes the memory of the result and a little scratch: no intermediate copy, nothing on the Go heap.
func TestDecodingTakesNoMoreThanItsResult(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 430 MB")
	}
	const slack = 12 << 20
	s, err := load.Open(synth(t, 110e6, "q4_k_m"), gguf.Options{})
	require.NoError(t, err)
	defer s.File.Close()
	p, err := resolver.ProfileNamed("desktop", 0)
	require.NoError(t, err)
	r, err := resolver.Resolve(resolver.Request{Header: s.File, Profile: p, Platform: s.Platform(), Kernels: skeep.Kernels(),
		Overrides: []resolver.Override{{Pattern: "*", Form: "f32", Place: "offheap"}}})
	require.NoError(t, err)
	pool, err := skeep.NewPool(2)
	require.NoError(t, err)
	defer pool.Close()
	before := resident(t)
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skip("the peak cannot be reset: ", err)
	}
	scope := skeep.NewModelScope("m")
	_, err = load.Load(t.Context(), s, r, scope, load.Options{Pool: pool})
	require.NoError(t, err)
	after := resident(t)
	planned, largest := r.In(tensor.OffHeap), int64(0)
	for _, d := range r.Decisions {
		largest = max(largest, d.Form.Bytes)
	}
	require.Greater(t, planned, int64(400e6))
	require.Less(t, after.Anonymous-before.Anonymous, planned+slack)
	require.Less(t, after.Peak-before.Resident, planned+largest/7+slack, "file pages of one weight, a seventh of its F32, beside the results")
	require.Less(t, after.GoHeap-before.GoHeap, int64(slack))
	require.NoError(t, scope.Close())
}
