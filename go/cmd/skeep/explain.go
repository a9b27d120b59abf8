package main

import (
	"fmt"
	"regexp"

	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/spf13/cobra"
)

type decisionRow struct {
	Tensor    name   `json:"tensor"`
	Role      string `json:"role"`
	Encoding  string `json:"encoding"`
	Form      string `json:"form"`
	Placement string `json:"placement"`
	Bytes     int64  `json:"bytes"`
	Reason    string `json:"reason"`
}

func explainCommand() *cobra.Command {
	var why string
	var all bool
	c := &cobra.Command{
		Use:   "explain [MODEL]",
		Short: "Show how and where every tensor would be kept in memory, and why",
		Long: `explain reads the header of a model and prints, for every tensor, the form it would be used in (as stored, in feed order or
decoded), where in memory it would be kept, and why, for models of any architecture. It reads no tensor data; if the file is too short for its tensors,
a note says so. When a strict profile refuses the model, everything is printed as well, and the exit status is 1.`,
		Example: "  skeep explain model.gguf\n  skeep explain model.gguf --profile mobile_2gb\n  skeep explain model.gguf --why blk.0.attn_q.weight",
		Args:    cobra.MaximumNArgs(1),
	}
	format := outputFlag(c, "table")
	options := modelFlags(c)
	c.Flags().BoolVar(&all, "all", false, "print a line for every tensor; else tensors of several layers that are alike share a line")
	c.Flags().StringVar(&why, "why", "", "print the decision for this tensor only")
	c.RunE = func(c *cobra.Command, args []string) error {
		o, profile, err := options()
		if err != nil {
			return err
		}
		if _, err := claim(c, modelFile(args)); err != nil {
			return err
		}
		p, err := planned(args, o, nil)
		if err != nil {
			return err
		}
		r := p.Resolution
		if r.Truncated != nil {
			fmt.Fprintln(c.ErrOrStderr(), "note:", r.Truncated)
		}
		rows := []decisionRow{}
		for _, d := range r.Decisions {
			if why == "" || d.Name == why {
				rows = append(rows, describeDecision(d))
			}
		}
		if why != "" && len(rows) == 0 {
			return fmt.Errorf("no tensor %q", why)
		}
		result := describePlan("", profile, p, nil)
		t := table{columns: []string{"tensor", "role", "encoding", "form", "placement", "size", "reason"}}
		shownRows := rows
		if !all && *format == "table" {
			shownRows = grouped(rows)
		}
		for _, row := range shownRows {
			t.add(row.Tensor, row.Role, row.Encoding, row.Form, row.Placement, resolver.Size(row.Bytes), row.Reason)
		}
		if *format == "table" {
			notes := c.ErrOrStderr()
			fmt.Fprintf(notes, "profile %s, budget %s, total %s: mapped %s, off-heap %s, heap %s\n", profile, resolver.Size(r.Profile.Budget), resolver.Size(r.Total()),
				resolver.Size(r.In(tensor.Mapped)), resolver.Size(r.In(tensor.OffHeap)), resolver.Size(r.In(tensor.Heap)))
			fmt.Fprintf(notes, "verdict %s: %s\n", result.Verdict, planShort(result))
			for _, note := range result.Notes {
				fmt.Fprintln(notes, "note:", note)
			}
		}
		if err := write(c.OutOrStdout(), *format, t, map[string]any{"profile": r.Profile.Name, "budget": r.Profile.Budget, "decisions": rows, "total": r.Total(),
			"verdict": result.Verdict, "margin": result.Margin, "missing": result.Missing, "reason": result.Reason, "notes": append([]string{}, result.Notes...)}); err != nil {
			return err
		}
		if p.Refused != nil {
			return verdict{p.Refused}
		}
		return nil
	}
	return c
}

var layerOf = regexp.MustCompile(`^blk\.\d+\.`)

// grouped makes one row of those that differ by layer and bytes alone.
func grouped(rows []decisionRow) (out []decisionRow) {
	at, count := map[decisionRow]int{}, map[int]int{}
	for _, row := range rows {
		key := row
		key.Tensor, key.Bytes = name(layerOf.ReplaceAllString(string(row.Tensor), "blk.*.")), 0
		i, known := at[key]
		if !known {
			i = len(out)
			at[key] = i
			out = append(out, row)
		} else {
			out[i].Bytes += row.Bytes
			out[i].Tensor = key.Tensor
		}
		count[i]++
	}
	for i := range out {
		if count[i] > 1 {
			out[i].Tensor = name(fmt.Sprintf("%s (%d)", out[i].Tensor, count[i]))
		}
	}
	return out
}

// describeDecision writes a decision as people and scripts read it.
func describeDecision(d resolver.Decision) decisionRow {
	row := decisionRow{Tensor: name(d.Name), Role: d.Role, Placement: d.Spec.Domain.String(), Bytes: d.Form.Bytes, Reason: d.Reason}
	if d.IsWeight {
		row.Encoding, row.Form = d.Stored.String(), d.Form.String()
	}
	if d.Form.Action == resolver.Skip {
		row.Placement = "-"
	}
	return row
}
