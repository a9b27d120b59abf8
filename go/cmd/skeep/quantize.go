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
	Tensor name   `json:"tensor"`
	From   string `json:"from"`
	To     string `json:"to"`
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason"`
	Note   string `json:"note"`
}

// typeFlags adds the flags that choose the encodings of a new file, as quantize and synth have them.
func typeFlags(c *cobra.Command, typ *string, pure *bool) {
	c.Flags().StringVar(typ, "type", *typ, "format, or a mix of formats (upper or lower case): "+strings.Join(quant.Types(), ", "))
	c.Flags().BoolVar(pure, "pure", false, "use this format for every tensor that can be packed, instead of a mix")
	_ = c.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(quant.Types(), cobra.ShellCompDirectiveNoFileComp))
}

func quantizeCommand() *cobra.Command {
	var o quant.Options
	var dry bool
	c := &cobra.Command{
		Use:   "quantize IN OUT --type T",
		Short: "Convert a model file to another format, usually one of fewer bits",
		Long: `quantize prints which format each tensor gets, and why, and then writes the file OUT. It needs memory for a few rows only, and
the result does not depend on the number of threads. OUT is replaced only when the new file is complete: if anything
fails, an existing file of that name stays unchanged. A value that its new format cannot represent is an error.`,
		Example: `  skeep quantize model-f16.gguf model-q4.gguf --type Q4_K_M
  skeep quantize model-f16.gguf --type Q4_K_M --dry-run     only list the formats`,
		Args: cobra.RangeArgs(1, 2),
	}
	format := outputFlag(c, "table")
	typeFlags(c, &o.Type, &o.Pure)
	_ = c.MarkFlagRequired("type")
	c.Flags().IntVar(&o.Threads, "threads", 0, "number of threads (default: the performance cores that this process may use)")
	c.Flags().BoolVar(&dry, "dry-run", false, "only print which format each tensor would get")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		switch {
		case !dry && len(args) == 1:
			return errors.New("OUT is missing, want quantize IN OUT")
		case !dry && c.Flags().Changed("output"):
			return errors.New("-o is allowed only with --dry-run")
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
		in, err := gguf.Open(args[0], gguf.Options{})
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
		rows = append(rows, encodingRow{name(d.Name), d.From.String(), d.To.String(), d.Bytes, d.Reason, d.Note})
		from, to = from+in.Tensors()[i].Bytes, to+d.Bytes
		t.add(d.Name, d.From, d.To, resolver.Size(d.Bytes), joinNotes(d))
	}
	return write(c.OutOrStdout(), format, t, map[string]any{"type": typ, "decisions": rows, "from_bytes": from, "to_bytes": to})
}
