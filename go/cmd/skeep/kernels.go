package main

import (
	"fmt"

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
	c := &cobra.Command{
		Use:     "kernels",
		Short:   "List the kernels: which are used on this machine, and why others are not",
		Long:    "kernels lists all compute kernels. The kernels for one operation are listed best first. To try slower\nones, limit the instruction set: SKEEP_ISA=portable|avx2|avx512|neon.",
		Example: "  skeep kernels\n  SKEEP_ISA=portable skeep kernels -o json",
		Args:    cobra.NoArgs,
	}
	format := outputFlag(c, "table")
	c.RunE = func(c *cobra.Command, _ []string) error {
		rows := kernelRows(core.Kernels(), core.ISA())
		t := table{columns: []string{"op", "encoding", "activation", "order", "isa", "selected", "reason"}}
		for _, r := range rows {
			selected := "-"
			if r.Selected {
				selected = "yes"
			}
			t.add(r.Op, r.Encoding, r.Activation, r.Order, r.ISA, selected, r.Reason)
		}
		return write(c.OutOrStdout(), *format, t, map[string]any{"isa": core.ISA(), "kernels": rows})
	}
	return c
}

// kernelRows says of each row whether a selection would take it on this machine.
func kernelRows(kernels tensor.Kernels, isa string) []kernelRow {
	rows := []kernelRow{}
	for _, k := range kernels {
		r := kernelRow{Op: k.Op.String(), Encoding: k.Encoding.String(), Order: k.Order.String(), ISA: k.ISA, Name: k.Name}
		if k.Op == tensor.OpMatMulT {
			r.Activation = k.Activation.String()
		}
		switch taken, found := kernels.Find(k.Op, k.Encoding, k.Activation, k.Order); {
		case !k.Runnable:
			r.Reason = fmt.Sprintf("needs %s, but %s is in use", k.ISA, isa)
		case found && taken.Name != k.Name:
			r.Reason = taken.ISA + " is better"
		default:
			r.Selected, r.Reason = true, "the best kernel that this machine can run"
		}
		rows = append(rows, r)
	}
	return rows
}
