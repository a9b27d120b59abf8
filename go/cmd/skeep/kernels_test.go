package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

func TestKernelsSaysWhichSetIsForOneToken(t *testing.T) {
	rows := kernelRows(tensor.Kernels{
		{Op: tensor.OpMatMulT, Encoding: tensor.Q4_0, Activation: tensor.A8, ISA: "avx512", Runnable: true, Name: "a"},
		{Op: tensor.OpMatMulT, Encoding: tensor.Q4_0, Activation: tensor.A8, ISA: "avx2", Runnable: true, Name: "b"},
		{Op: tensor.OpMatMulT, Encoding: tensor.Q4_0, Activation: tensor.A8, ISA: "portable", Runnable: true, Name: "c"},
		{Op: tensor.OpMatMulT, Encoding: tensor.Q8_0, Activation: tensor.A8, ISA: "avx512", Runnable: true, Name: "d"},
		{Op: tensor.OpMatMulT, Encoding: tensor.Q8_0, Activation: tensor.A8, ISA: "avx2", Runnable: true, Name: "e"},
		{Op: tensor.OpMatMulT, Encoding: tensor.Q8_0, Activation: tensor.A8, ISA: "neon", Name: "f"},
	}, "avx512", func(row int) int { return []int{1, 1, 1, 3, 3, 3}[row] })
	var got []string
	for _, r := range rows {
		got = append(got, map[bool]string{true: "+", false: "-"}[r.Selected]+r.Reason)
	}
	require.Equal(t, []string{"+for more than one token; for one, avx2 is better", "+for one token; for more, avx512 is better", "-avx512 is better",
		"+the best kernel that this machine can run", "-avx512 is better", "-needs neon, but avx512 is in use"}, got)
}

// The setting is read, printed, and refused when it has other words.
func TestKernelsSaysWhatMachineIsInForce(t *testing.T) {
	w := newWorkshop(t)
	with := func(words string) func(*exec.Cmd) {
		return func(c *exec.Cmd) { c.Env = append(os.Environ(), "SKEEP_MACHINE="+words) }
	}
	var got struct{ Machine core.Machine }
	code, stdout, stderr := w.run([]string{"kernels", "-o", "json"}, with("ahead=64,panels=2"))
	require.Zero(t, code, stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.Equal(t, 64, got.Machine.Ahead)
	require.Equal(t, 2, got.Machine.Panels)
	require.Equal(t, core.MachineInForce().Processor, got.Machine.Processor)
	require.Contains(t, stderr, "processor family "+got.Machine.Processor+": prefetch 64 bytes ahead, panels at once 2, ")
	for _, command := range []string{"kernels", "explain"} {
		code, stdout, stderr = w.run([]string{command}, with("panels=3"))
		require.Equal(t, 2, code)
		require.Empty(t, stdout)
		require.Regexp(t, `^skeep: SKEEP_MACHINE=panels=3, want .*panels=1\|2.*\n$`, stderr)
	}
	code, _, stderr = w.run([]string{"kernels", "-t", "2"})
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--calibrate")
}

// A machine on which AVX2 with two panels and 1 KiB ahead is the fastest for weights in feed order, and the rest equal.
func TestCalibrationAdvises(t *testing.T) {
	measured := func(fast func(*way) float64) *calibration {
		c := &calibration{Machine: core.Machine{Processor: "unknown", Panels: 1, Feed: "avx512", Stored: "avx512"}, Read: readLimit{BytesPerSecond: 10}}
		var err error
		c.Ways, err = ways("avx512")
		require.NoError(t, err)
		for _, w := range c.Ways {
			for range calibrated {
				w.taken = append(w.taken, []float64{1, fast(w), 9})
			}
		}
		c.judge()
		return c
	}
	c := measured(func(w *way) float64 {
		if w.Order == "feed" && w.ISA == "avx2" && w.Ahead == 1024 && w.Panels == 2 {
			return 6
		}
		return 5
	})
	require.Equal(t, "set SKEEP_MACHINE=ahead=1024,panels=2,feed=avx2,stored=avx512", c.Advice)
	require.True(t, core.MachineWords(c.Best.String()))
	require.Equal(t, []float64{0.5, 0.5, 0.5, 0.5}, c.Ways[0].Shares)
	marks := map[string]int{}
	for _, row := range c.table("table").rows {
		marks[row[len(row)-1]]++
	}
	require.Equal(t, map[string]int{"in force": 2, "best": 1, "": len(c.Ways) - 3}, marks)
	require.Len(t, c.table("csv").rows, 4*len(c.Ways))

	c = measured(func(w *way) float64 {
		if w.Order == "as stored" && w.ISA == "avx2" {
			return 8
		}
		return 5
	})
	require.Equal(t, "set SKEEP_MACHINE=ahead=0,panels=1,feed=avx512,stored=avx2", c.Advice)
	require.Contains(t, measured(func(w *way) float64 { return 5 + float64(w.Ahead)/1e5 }).Advice, "nothing to set")
	_, err := ways("portable")
	require.Error(t, err)
	only, err := ways("avx2")
	require.NoError(t, err)
	require.Len(t, only, 11)
}

// One round of measuring, for its operands.
func TestCalibrationMeasuresEveryWay(t *testing.T) {
	limit, err := newLimits(2, 160<<20)
	require.NoError(t, err)
	defer limit.close()
	operands, st := core.Allocate(calibrationColumns*4+calibrationRows*4, 0)
	require.Equal(t, core.OK, st.Code)
	defer core.Close(operands, nil)
	var next uint64
	for _, e := range calibrated {
		for _, o := range []tensor.Order{{}, tensor.Feed} {
			rate, err := limit.product(e, o, operands, &next)
			require.NoError(t, err)
			require.Positive(t, rate)
			require.LessOrEqual(t, next, limit.bytes+63)
		}
	}
	limit.bytes = 1 << 10 // of memory that is nearly full
	_, err = limit.product(tensor.Q8_0, tensor.Feed, operands, &next)
	require.Error(t, err)
}
