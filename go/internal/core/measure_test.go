package core_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/stretchr/testify/require"
)

func TestMeasuringReadsAStorageOfAnySizeAndLeavesItOpen(t *testing.T) {
	for _, bytes := range []uint64{1, 63, 4 << 20, 9<<20 + 5} {
		for _, threads := range []int{1, 3} {
			p := newPool(t, threads)
			s, st := core.Allocate(bytes, 0)
			require.Equal(t, core.OK, st.Code)
			require.Equal(t, core.OK, core.MeasureTouch(p, s).Code)
			seconds, st := core.MeasureRead(p, s)
			require.Equal(t, core.OK, st.Code)
			require.Positive(t, seconds)
			huge, st := core.HugeBytes(s)
			require.Equal(t, core.OK, st.Code)
			require.LessOrEqual(t, huge, bytes)
			require.Equal(t, core.OK, core.TryClose(s).Code) // no pin is left
			_, st = core.MeasureRead(p, s)
			require.Equal(t, core.ErrClosed, st.Code)
		}
	}
}

// The system's own list of mappings, read in another way.
func TestHugeBytesAreThoseOfTheMapping(t *testing.T) {
	const bytes = 32 << 20
	s, st := core.Allocate(bytes, 0)
	require.Equal(t, core.OK, st.Code)
	defer core.Close(s, nil)
	require.Equal(t, core.OK, core.MeasureTouch(newPool(t, 1), s).Code)
	got, st := core.HugeBytes(s)
	require.Equal(t, core.OK, st.Code)
	info, _ := core.InfoOf(s)
	maps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(maps), fmt.Sprintf("%08x-%08x ", info.Address, info.Address+bytes))
	if !found {
		t.Skip("the system has joined the memory with its neighbour")
	}
	_, after, _ = strings.Cut(after, "AnonHugePages:")
	require.Equal(t, strings.Fields(after)[0], fmt.Sprint(got>>10))
}

func TestMeasuringCountsMultiplicationsWhereTheInstructionSetHasSome(t *testing.T) {
	p := newPool(t, 2)
	operations, seconds, st := core.MeasureMultiply(p)
	require.Equal(t, core.OK, st.Code)
	switch core.ISA() {
	case "avx2", "avx512":
		require.Positive(t, operations)
		require.Positive(t, seconds)
	default:
		require.Zero(t, operations)
	}
}

func TestMeasuringNeedsAPool(t *testing.T) {
	s, st := core.Allocate(64, 0)
	require.Equal(t, core.OK, st.Code)
	defer core.Close(s, nil)
	_, st = core.MeasureRead(nil, s)
	require.Equal(t, core.NoPool, st)
	_, _, st = core.MeasureMultiply(nil)
	require.Equal(t, core.NoPool, st)
	require.Equal(t, core.NoPool, core.MeasureTouch(nil, s))
}

func TestABufferForMeasuringIsLargerThanCachesAndFitsMemory(t *testing.T) {
	require.GreaterOrEqual(t, core.MeasureBytes(1<<50), max(64<<20, 4*core.CacheBytes()))
	require.Equal(t, uint64(1<<20), core.MeasureBytes(2<<20))
}
