package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecorderKeepsTheLatestAndExactTotals(t *testing.T) {
	r := NewRecorder(3)
	for i := range 5 {
		r.Emit(Event{Kind: Materialize, Bytes: int64(i), Elapsed: time.Millisecond, Layer: -1})
	}
	events, dropped := r.Events()
	require.EqualValues(t, 2, dropped)
	require.Equal(t, []int64{2, 3, 4}, []int64{events[0].Bytes, events[1].Bytes, events[2].Bytes})
	require.Equal(t, Total{Count: 5, Bytes: 10, Elapsed: 5 * time.Millisecond}, r.Total(Materialize))
	require.Zero(t, r.Total(Prepack))
}

func TestNilRecorder(t *testing.T) {
	var r *Recorder
	r.Emit(Event{})
	require.False(t, r.Enabled())
	require.Zero(t, r.Total(Op))
	events, dropped := r.Events()
	require.Empty(t, events)
	require.Zero(t, dropped)
}

func TestEmitDoesNotAllocate(t *testing.T) {
	r := NewRecorder(16)
	e := Event{Kind: Op, Name: "norm", Start: time.Now(), Elapsed: 1}
	require.Zero(t, testing.AllocsPerRun(100, func() { r.Emit(e) }))
}

func TestPerfetto(t *testing.T) {
	r := NewRecorder(8)
	start := time.Now()
	r.Emit(Event{Kind: Load, Name: "open", Layer: -1, Start: start, Elapsed: 3 * time.Microsecond})
	r.Emit(Event{Kind: Op, Name: "project", Kernel: "skeep_matmul_t_q4_0_avx2", Layer: 2, Bytes: 18, Start: start.Add(time.Millisecond), Elapsed: time.Microsecond})
	r.Emit(Event{Kind: Close, Name: "model", Layer: -1})
	var buf bytes.Buffer
	require.NoError(t, r.WritePerfetto(&buf))
	var got struct {
		TraceEvents []struct {
			Name, Ph string
			Ts, Dur  float64
			Args     map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(buf.Bytes(), &got))
	require.Len(t, got.TraceEvents, int(kinds)+3)
	op := got.TraceEvents[int(kinds)+1]
	require.Equal(t, "X", op.Ph)
	require.Equal(t, 1000.0, op.Ts)
	require.Equal(t, 1.0, op.Dur)
	require.Equal(t, map[string]any{"kernel": "skeep_matmul_t_q4_0_avx2", "bytes": 18.0, "layer": 2.0}, op.Args)
	require.Equal(t, "i", got.TraceEvents[int(kinds)+2].Ph)
}

func TestProbe(t *testing.T) {
	p, err := Probe()
	require.NoError(t, err)
	require.Positive(t, p.GoHeap)
	require.Equal(t, p.Resident, p.Anonymous+p.File+p.Shared)
	require.GreaterOrEqual(t, p.Peak, p.Resident)
}

func TestProbeTellsHugePages(t *testing.T) {
	proc := fstest.MapFS{"status": {Data: []byte("VmHWM: 9 kB\nVmRSS: 9 kB\nRssAnon: 9 kB\nRssFile: 0 kB\nRssShmem: 0 kB\n")}}
	p, err := probe(proc)
	require.NoError(t, err)
	require.Zero(t, p.Huge)
	proc["smaps_rollup"] = &fstest.MapFile{Data: []byte("00400000-7fff0000 ---p 00000000 00:00 0 [rollup]\nRss: 9 kB\nAnonHugePages:      4096 kB\nShmemPmdMapped: 1 kB\n")}
	p, err = probe(proc)
	require.NoError(t, err)
	require.EqualValues(t, 4<<20, p.Huge)
}

func TestProbeNamesWhatIsMissing(t *testing.T) {
	_, err := probe(fstest.MapFS{})
	require.ErrorContains(t, err, "status")
	_, err = probe(fstest.MapFS{"status": {Data: []byte("VmRSS:\t 12 kB\n")}})
	require.ErrorContains(t, err, "1 of 5")
	_, err = probe(fstest.MapFS{"status": {Data: []byte("VmRSS:\t x kB\n")}})
	require.ErrorContains(t, err, "VmRSS")
}

// A trace says when what it shows had failed, and nothing when it had not.
func TestFail(t *testing.T) {
	for _, failed := range []error{nil, errors.New("no more")} {
		r := NewRecorder(1)
		r.Fail(failed)
		var buf bytes.Buffer
		require.NoError(t, r.WritePerfetto(&buf))
		var got struct{ OtherData map[string]any }
		require.NoError(t, json.Unmarshal(buf.Bytes(), &got))
		if failed == nil {
			require.NotContains(t, got.OtherData, "failed")
		} else {
			require.Equal(t, "no more", got.OtherData["failed"])
		}
	}
	(*Recorder)(nil).Fail(errors.New("nobody listens"))
}
