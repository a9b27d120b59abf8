package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/quant"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/spf13/cobra"
)

type encodingRow struct {
	Tensor string `json:"tensor"`
	From   string `json:"from"`
	To     string `json:"to"`
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason"`
	Note   string `json:"note"`
}

// typeFlags adds the flags that choose the encodings of a new file, as quantize and synth have them.
func typeFlags(c *cobra.Command, typ *string, pure *bool) {
	c.Flags().StringVar(typ, "type", *typ, "a mix or a format, in any case: "+strings.Join(quant.Types(), ", "))
	c.Flags().BoolVar(pure, "pure", false, "that format for every tensor that may be packed")
	_ = c.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(quant.Types(), cobra.ShellCompDirectiveNoFileComp))
}

func quantizeCommand() *cobra.Command {
	var o quant.Options
	var dry bool
	c := &cobra.Command{
		Use:   "quantize IN OUT --type T",
		Short: "Encode a model file anew, in fewer bits",
		Long: `quantize says what becomes of the tensors, and why, then writes OUT: a few rows at a time, on all threads, with the
same bytes whatever their number. OUT appears when it is complete; until then, and when anything fails, an older
file of that name stays as it is. A tensor with an element that its format cannot hold is an error.`,
		Example: `  skeep quantize model-f16.gguf model-q4.gguf --type Q4_K_M
  skeep quantize model-f16.gguf --type Q4_K_M --dry-run     what would become of each tensor`,
		Args: cobra.RangeArgs(1, 2),
	}
	format := outputFlag(c)
	typeFlags(c, &o.Type, &o.Pure)
	_ = c.MarkFlagRequired("type")
	c.Flags().IntVar(&o.Threads, "threads", 0, "threads that encode (default: physical performance cores within affinity and quota)")
	c.Flags().BoolVar(&dry, "dry-run", false, "print what would become of each tensor, write nothing")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		switch {
		case !dry && len(args) == 1:
			return errors.New("no OUT, want quantize IN OUT")
		case !dry && c.Flags().Changed("output"):
			return errors.New("-o is how --dry-run prints")
		}
		if err := o.Check(); err != nil {
			return err
		}
		var out []named
		if !dry {
			out = []named{{what: "OUT", path: args[1], model: true}}
		}
		if _, err := claim(c, []named{{what: "IN", path: args[0]}}, out...); err != nil {
			return err
		}
		in, err := gguf.Open(args[0])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, in.Close()) }()
		decisions, err := quant.Choose(in, o.Type, o.Pure)
		if err != nil {
			return err
		}
		if dry {
			return writeEncodings(c, *format, o.Type, in, decisions)
		}
		kinds := map[string]int{}
		for _, d := range decisions {
			line := fmt.Sprintf("%s -> %s: %s", d.From, d.To, joinNotes(d))
			kinds[line]++
		}
		for _, line := range slices.Sorted(maps.Keys(kinds)) {
			fmt.Fprintf(c.ErrOrStderr(), "%4d x %s\n", kinds[line], line)
		}
		return writeModel(c, args[1], &o.Progress, func() (*quant.Report, error) { return quant.File(c.Context(), in, args[1], o) })
	}
	return c
}

func joinNotes(d quant.Decision) string { return strings.TrimSuffix(d.Reason+"; "+d.Note, "; ") }

// writeEncodings prints what would become of each tensor.
func writeEncodings(c *cobra.Command, format, typ string, in *gguf.File, decisions []quant.Decision) error {
	rows, from, to := []encodingRow{}, int64(0), int64(0)
	t := table{columns: []string{"tensor", "from", "to", "size", "reason"}}
	for i, d := range decisions {
		rows = append(rows, encodingRow{d.Name, d.From.String(), d.To.String(), d.Bytes, d.Reason, d.Note})
		from, to = from+in.Tensors()[i].Bytes, to+d.Bytes
		t.add(d.Name, d.From, d.To, resolver.Size(d.Bytes), joinNotes(d))
	}
	return write(c.OutOrStdout(), format, t, map[string]any{"type": typ, "decisions": rows, "from_bytes": from, "to_bytes": to})
}
