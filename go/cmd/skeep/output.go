package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/spf13/cobra"
)

// table is rows for people; its JSON twin is an object of its own.
type table struct {
	columns []string
	rows    [][]string
}

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

var outputFormats = []string{"table", "json", "csv", "md"}

// outputFlag adds -o to a command that prints a table.
func outputFlag(c *cobra.Command) *string {
	format := new(string)
	c.Flags().StringVarP(format, "output", "o", "table", "output format: "+strings.Join(outputFormats, ", "))
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputFormats, cobra.ShellCompDirectiveNoFileComp))
	check := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if !slices.Contains(outputFormats, *format) {
			return fmt.Errorf("output format %q, want %s", *format, strings.Join(outputFormats, ", "))
		}
		if check != nil {
			return check(c, args)
		}
		return nil
	}
	return format
}

// write prints object as JSON, or t in another format.
func write(w io.Writer, format string, t table, object any) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(object)
	case "csv":
		c := csv.NewWriter(w)
		if err := c.Write(t.columns); err != nil {
			return err
		}
		return c.WriteAll(t.rows)
	}
	options := []tablewriter.Option{
		tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithHeaderAlignment(tw.AlignLeft),
		tablewriter.WithRowAlignment(tw.AlignLeft), tablewriter.WithRowAutoWrap(tw.WrapNone),
	}
	if format == "md" {
		options = append(options, tablewriter.WithRenderer(renderer.NewMarkdown()))
	} else {
		options = append(options, tablewriter.WithRendition(tw.Rendition{Borders: tw.BorderNone, Settings: tw.Settings{
			Separators: tw.Separators{BetweenColumns: tw.Off, BetweenRows: tw.Off, ShowHeader: tw.Off},
			Lines:      tw.Lines{ShowHeaderLine: tw.Off, ShowTop: tw.Off, ShowBottom: tw.Off},
		}}))
	}
	out := tablewriter.NewTable(w, options...)
	out.Header(t.columns)
	if err := out.Bulk(t.rows); err != nil {
		return err
	}
	return out.Render()
}
