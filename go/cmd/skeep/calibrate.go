package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/machine"
	"github.com/skeep-project/skeep/go/tensor"
)

// calibration is what `kernels --calibrate` measures: products of one token, read in every way that a machine can.
type calibration struct {
	Machine core.Machine `json:"machine"` // in force
	ISA     string       `json:"isa"`
	Threads int          `json:"threads"`
	Read    readLimit    `json:"read"`
	Ways    []*way       `json:"ways"`
	Best    core.Machine `json:"best"`
	Advice  string       `json:"advice"`
}

// way is one way to read weights.
type way struct {
	Order  string    `json:"order"`
	ISA    string    `json:"isa"`
	Ahead  int       `json:"ahead,omitempty"`
	Panels int       `json:"panels,omitempty"`
	Rates  []float64 `json:"bytes_per_second"` // of each of calibrated
	Shares []float64 `json:"share_of_read_bandwidth"`
	order  tensor.Order
	taken  [][]float64 // samples of each encoding
}

// calibrated are the encodings that are measured: one for each kind of block.
var calibrated = []tensor.Encoding{tensor.Q4_0, tensor.Q4_K, tensor.Q6_K, tensor.Q8_0}

const (
	calibrationRows, calibrationColumns = 4096, 14336 // a matrix of Llama 3 8B
	calibrationRounds                   = 15
	calibrationGain                     = 1.03 // what is less is noise
)

// ways lists what there is to compare with an instruction set in use.
func ways(isa string) (all []*way, err error) {
	sets := map[string][]string{"avx2": {"avx2"}, "avx512": {"avx2", "avx512"}}[isa]
	if sets == nil {
		return nil, fmt.Errorf("nothing to calibrate: with the instruction set in use, %s, there is one way to read weights", isa)
	}
	for _, set := range sets {
		all = append(all, &way{Order: "as stored", ISA: set})
	}
	for _, set := range sets {
		for panels := 1; panels <= 2; panels++ {
			for _, ahead := range []int{0, 1024, 2048, 4096, 8192} {
				all = append(all, &way{Order: "feed", ISA: set, Ahead: ahead, Panels: panels, order: tensor.Feed})
			}
		}
	}
	return all, nil
}

// machine is m changed so that products of one token go this way.
func (w *way) machine(m core.Machine) core.Machine {
	if w.order == tensor.Feed {
		m.Ahead, m.Panels, m.Feed = w.Ahead, w.Panels, w.ISA
	} else {
		m.Stored = w.ISA
	}
	return m
}

// speed is the mean of the encodings, each counting the same.
func (w *way) speed() float64 {
	sum := 0.0
	for _, r := range w.Rates {
		sum += math.Log(r)
	}
	return math.Exp(sum / float64(len(w.Rates)))
}

// calibrate measures all ways in turns, beside the read bandwidth. show, unless nil, learns how far it is.
func calibrate(ctx context.Context, threads int, show func(done, total int64, what string)) (*calibration, error) {
	here := machine.Here()
	if threads == 0 {
		threads = min(here.Threads, core.MaxThreads)
	}
	c := &calibration{Machine: core.MachineInForce(), ISA: core.ISA(), Threads: threads}
	var err error
	if c.Ways, err = ways(c.ISA); err != nil {
		return nil, err
	}
	limit, err := newLimits(threads, here.Available)
	if err != nil {
		return nil, err
	}
	defer limit.close()
	operands, st := core.Allocate(calibrationColumns*4+calibrationRows*4, 0)
	if st.Code != core.OK {
		return nil, fmt.Errorf("memory for the operands: %s", st)
	}
	defer core.Close(operands, nil)
	defer core.SetMachine(c.Machine)
	var next uint64
	random := rand.New(rand.NewPCG(0, 0))
	for round := range calibrationRounds + 1 { // the first is not counted
		seconds, st := core.MeasureRead(limit.pool, limit.buffer)
		if st.Code != core.OK {
			return nil, fmt.Errorf("reading memory: %s", st)
		}
		limit.read = append(limit.read, float64(limit.bytes)/seconds)
		// In another order each time: what ran before, and where in the buffer, touches all alike.
		for _, k := range random.Perm(len(calibrated) * len(c.Ways)) {
			i, w := k%len(calibrated), c.Ways[k/len(calibrated)]
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			core.SetMachine(w.machine(c.Machine))
			rate, err := limit.product(calibrated[i], w.order, operands, &next)
			if err != nil {
				return nil, err
			}
			if w.taken == nil {
				w.taken = make([][]float64, len(calibrated))
			}
			if round > 0 {
				w.taken[i] = append(w.taken[i], rate)
			}
		}
		if show != nil {
			show(int64(round), calibrationRounds, "calibrating")
		}
	}
	huge, _ := core.HugeBytes(limit.buffer)
	c.Read = readLimit{median(limit.read), limit.bytes, huge, core.CacheBytes()}
	c.judge()
	return c, nil
}

// product multiplies one token by the next matrix of the buffer, and returns the bytes of weights per second.
func (l *limits) product(e tensor.Encoding, o tensor.Order, operands core.Storage, next *uint64) (float64, error) {
	format := tensor.FormatOf(e)
	elements, bytes := format.Block()
	row := uint64(calibrationColumns / elements * bytes)
	rows := min(calibrationRows, int64(l.bytes/row))
	if rows == 0 {
		return 0, fmt.Errorf("%d bytes of memory are no row of a matrix", l.bytes)
	}
	if *next+uint64(rows)*row > l.bytes {
		*next = 0
	}
	w, st := core.ViewOf(l.buffer, *next, e, tensor.ShapeOf(rows, calibrationColumns))
	if st.Code != core.OK {
		return 0, fmt.Errorf("a matrix of %s: %s", e, st)
	}
	*next += (uint64(rows)*row + 63) / 64 * 64
	var err error
	if w.Layout, err = tensor.LayoutOf(format, tensor.ShapeOf(rows, calibrationColumns), o); err != nil {
		return 0, err
	}
	x, st := core.ViewOf(operands, 0, tensor.A8, tensor.ShapeOf(1, calibrationColumns))
	if st.Code != core.OK {
		return 0, fmt.Errorf("activations: %s", st)
	}
	y, st := core.ViewOf(operands, calibrationColumns*4, tensor.EncF32, tensor.ShapeOf(1, rows))
	if st.Code != core.OK {
		return 0, fmt.Errorf("the result: %s", st)
	}
	start := time.Now()
	if st := core.MatMulT(l.pool, nil, &x, &w, &y); st.Code != core.OK {
		return 0, fmt.Errorf("a product with %s: %s", e, st)
	}
	return float64(uint64(rows)*row) / time.Since(start).Seconds(), nil
}

// judge takes medians and says what to set.
func (c *calibration) judge() {
	best, now := map[string]*way{}, map[string]*way{}
	for _, w := range c.Ways {
		w.Rates, w.Shares = nil, nil
		for _, samples := range w.taken {
			rate := median(samples)
			w.Rates, w.Shares = append(w.Rates, rate), append(w.Shares, rate/c.Read.BytesPerSecond)
		}
		if w.machine(c.Machine) == c.Machine {
			now[w.Order] = w
		}
		if b := best[w.Order]; b == nil || w.speed() > b.speed() {
			best[w.Order] = w
		}
	}
	c.Best = c.Machine
	for order, w := range best {
		if now[order] == nil || w.speed() > calibrationGain*now[order].speed() { // nil: what is in force is not among the ways
			c.Best = w.machine(c.Best)
		}
	}
	if c.Best == c.Machine {
		c.Advice = fmt.Sprintf("nothing to set: no way is more than %.0f %% faster than what is in force", 100*(calibrationGain-1))
		return
	}
	c.Advice = "set SKEEP_MACHINE=" + c.Best.String()
}

// table is for people, or with plain numbers for programs.
func (c *calibration) table(format string) table {
	t := table{columns: []string{"order", "isa", "ahead", "panels"}}
	if format == "csv" {
		t.columns = append(t.columns, "encoding", "bytes_per_second", "share_of_read_bandwidth")
		for _, w := range c.Ways {
			for i, e := range calibrated {
				t.add(w.Order, w.ISA, w.Ahead, w.Panels, e, w.Rates[i], w.Shares[i])
			}
		}
		return t
	}
	for _, e := range calibrated {
		t.columns = append(t.columns, e.String()+" GB/s (share)")
	}
	t.columns = append(t.columns, "")
	for _, w := range c.Ways {
		cells := []any{w.Order, w.ISA, "-", "-"}
		if w.order == tensor.Feed {
			cells = []any{w.Order, w.ISA, w.Ahead, w.Panels}
		}
		for i := range calibrated {
			cells = append(cells, fmt.Sprintf("%.1f (%.0f %%)", w.Rates[i]/1e9, 100*w.Shares[i]))
		}
		mark := ""
		switch {
		case w.machine(c.Machine) == c.Machine:
			mark = "in force"
		case w.machine(c.Best) == c.Best:
			mark = "best"
		}
		t.add(append(cells, mark)...)
	}
	return t
}
