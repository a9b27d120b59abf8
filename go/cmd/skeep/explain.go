package main

import (
	"fmt"

	"github.com/skeep-project/skeep/go/model"
	"github.com/skeep-project/skeep/go/resolver"
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
	c := &cobra.Command{
		Use:   "explain [MODEL]",
		Short: "Show how and where every tensor would be kept in memory, and why",
		Long: `explain reads the header of a model and prints, for every tensor, the form it would be used in (as stored, in feed order or
decoded), where in memory it would be kept, and why. It reads no tensor data; if the file is too short for its tensors, a note says so.
The exit status is 1 when a strict profile refuses the model.`,
		Example: "  skeep explain model.gguf\n  skeep explain model.gguf --profile mobile_2gb\n  skeep explain model.gguf --why blk.0.attn_q.weight",
		Args:    cobra.MaximumNArgs(1),
	}
	format := outputFlag(c, "table")
	options := modelFlags(c)
	c.Flags().StringVar(&why, "why", "", "print the decision for this tensor only")
	c.RunE = func(c *cobra.Command, args []string) error {
		o, profile, err := options()
		if err != nil {
			return err
		}
		if _, err := claim(c, modelFile(args)); err != nil {
			return err
		}
		r, err := resolve(args, o)
		if err != nil {
			return refusal(err)
		}
		if r.Truncated != nil {
			fmt.Fprintln(c.ErrOrStderr(), "note:", r.Truncated)
		}
		rows := []decisionRow{}
		t := table{columns: []string{"tensor", "role", "encoding", "form", "placement", "size", "reason"}}
		for _, d := range r.Decisions {
			if why != "" && d.Name != why {
				continue
			}
			row := describeDecision(d)
			rows = append(rows, row)
			t.add(row.Tensor, row.Role, row.Encoding, row.Form, row.Placement, resolver.Size(row.Bytes), row.Reason)
		}
		if why != "" && len(rows) == 0 {
			return fmt.Errorf("no tensor %q", why)
		}
		if *format == "table" {
			over := ""
			if r.Profile.Budget > 0 && r.Total() > r.Profile.Budget {
				over = ": more than the budget, which this profile does not enforce"
			}
			fmt.Fprintf(c.ErrOrStderr(), "profile %s, budget %s, total %s%s\n", profile, resolver.Size(r.Profile.Budget), resolver.Size(r.Total()), over)
		}
		return write(c.OutOrStdout(), *format, t, map[string]any{"profile": r.Profile.Name, "budget": r.Profile.Budget, "decisions": rows, "total": r.Total()})
	}
	return c
}

func resolve(args []string, o model.Options) (*resolver.Resolution, error) {
	p, err := planned(args, o, nil)
	if err != nil {
		return nil, err
	}
	return p.Resolution, p.Refused
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
