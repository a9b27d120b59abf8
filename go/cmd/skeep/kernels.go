package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/spf13/cobra"
)

type kernelRow struct {
	Op         string `json:"op"`
	Encoding   string `json:"encoding"`
	Activation string `json:"activation,omitempty"`
	Order      string `json:"order"`
	ISA        string `json:"isa"`
	Name       string `json:"name"`
	Selected   bool   `json:"selected"`
	Reason     string `json:"reason"`
}

func kernelsCommand() *cobra.Command {
	var calibrating bool
	var threads int
	c := &cobra.Command{
		Use:   "kernels",
		Short: "List the kernels: which are used on this machine, and why others are not",
		Long: `kernels lists all compute kernels. The kernels for one operation are listed best first. To try slower ones, limit the instruction
set: SKEEP_ISA=portable|avx2|avx512|neon.

How products of few tokens read weights depends on the processor: how many bytes ahead they prefetch weights in feed order, how many of
their panels they read side by side, and which instruction set they use for one token. kernels prints what is in force.
--calibrate measures, in some seconds, one token in all of these ways, in turns, over memory of four times the largest cache (at most
half of what is available), prints medians with their share of the read bandwidth, and says what to set:
SKEEP_MACHINE=ahead=BYTES,panels=1|2,feed=avx2|avx512,stored=avx2|avx512, any of these words. No setting changes a result.`,
		Example: "  skeep kernels\n  SKEEP_ISA=portable skeep kernels -o json\n  skeep kernels --calibrate\n  SKEEP_MACHINE=ahead=0,panels=1 skeep bench model.gguf",
		Args:    cobra.NoArgs,
	}
	format := outputFlag(c, "table")
	c.Flags().BoolVar(&calibrating, "calibrate", false, "measure in which way products of one token are fastest on this machine")
	c.Flags().IntVarP(&threads, "threads", "t", 0, "with --calibrate: number of compute threads (default: the performance cores that this process may use)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		notes := c.ErrOrStderr()
		here := core.MachineInForce()
		describeMachine(notes, here)
		if calibrating {
			if threads < 0 || threads > core.MaxThreads {
				return fmt.Errorf("--threads %d, want 1 to %d", threads, core.MaxThreads)
			}
			show, wipe := progress(time.Second)
			r, err := calibrate(c.Context(), threads, show)
			wipe()
			if err != nil {
				return fmt.Errorf("calibrate: %w", err)
			}
			describeRead(notes, r.Read)
			if err := write(c.OutOrStdout(), *format, r.table(*format), r); err != nil {
				return err
			}
			fmt.Fprintln(notes, r.Advice)
			return nil
		}
		if c.Flags().Changed("threads") {
			return errors.New("--threads is for --calibrate")
		}
		rows := kernelRows(core.Kernels(), core.ISA(), core.RowOfOneToken)
		t := table{columns: []string{"op", "encoding", "activation", "order", "isa", "selected", "reason"}}
		for _, r := range rows {
			selected := "-"
			if r.Selected {
				selected = "yes"
			}
			t.add(r.Op, r.Encoding, r.Activation, r.Order, r.ISA, selected, r.Reason)
		}
		return write(c.OutOrStdout(), *format, t, map[string]any{"isa": core.ISA(), "machine": here, "kernels": rows})
	}
	return c
}

// describeMachine says how products of few tokens read weights.
func describeMachine(w io.Writer, m core.Machine) {
	fmt.Fprintf(w, "processor family %s: prefetch %d bytes ahead, panels at once %d, for one token %s in feed order and %s as stored\n",
		m.Processor, m.Ahead, m.Panels, m.Feed, m.Stored)
}

// kernelRows says of each row whether a selection would take it on this machine. one is core.RowOfOneToken.
func kernelRows(kernels tensor.Kernels, isa string, one func(row int) int) []kernelRow {
	forOne := map[string]bool{} // rows that a product takes for one token alone
	rows := []kernelRow{}
	for i, k := range kernels {
		r := kernelRow{Op: k.Op.String(), Encoding: k.Encoding.String(), Order: k.Order.String(), ISA: k.ISA, Name: k.Name}
		if k.Op == tensor.OpMatMulT {
			r.Activation = k.Activation.String()
		}
		taken, found := kernels.Find(k.Op, k.Encoding, k.Activation, k.Order)
		switch {
		case !k.Runnable:
			r.Reason = fmt.Sprintf("needs %s, but %s is in use", k.ISA, isa)
		case forOne[k.Name]:
			r.Selected, r.Reason = true, "for one token; for more, "+taken.ISA+" is better"
		case found && taken.Name != k.Name:
			r.Reason = taken.ISA + " is better"
		case one(i) != i:
			other := kernels[one(i)]
			forOne[other.Name] = true
			r.Selected, r.Reason = true, "for more than one token; for one, "+other.ISA+" is better"
		default:
			r.Selected, r.Reason = true, "the best kernel that this machine can run"
		}
		rows = append(rows, r)
	}
	return rows
}
