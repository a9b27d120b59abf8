package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/quant"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// table is rows for people; its JSON twin is an object of its own. Cells are of one line, and none acts on a terminal.
type table struct {
	columns []string
	rows    [][]string
}

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = shown.Name(fmt.Sprint(c))
	}
	t.rows = append(t.rows, row)
}

// number is a float64 that is a string in JSON, which has no other way to write them, when it is infinite or NaN.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if x := float64(n); math.IsInf(x, 0) || math.IsNaN(x) {
		return json.Marshal(strconv.FormatFloat(x, 'g', -1, 64))
	}
	return json.Marshal(float64(n))
}

// name is what a file calls something. Two of them are two in JSON too, which knows no bytes that are no UTF-8.
type name string

// MarshalText implements encoding.TextMarshaler.
func (n name) MarshalText() ([]byte, error) { return []byte(shown.Distinct(string(n))), nil }

var outputFormats = []string{"table", "json", "csv", "md"}

// outputFlag adds -o to a command that prints a table, with the format that it usually has.
func outputFlag(c *cobra.Command, usual string) *string {
	format := new(string)
	c.Flags().StringVarP(format, "output", "o", usual, "output format: "+strings.Join(outputFormats, ", "))
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
		e := json.NewEncoder(shownJSON{w})
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
		for i, row := range t.rows {
			t.rows[i] = slices.Clone(row)
			for k, cell := range row {
				t.rows[i][k] = strings.ReplaceAll(cell, "|", `\|`)
			}
		}
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

// shownJSON writes JSON in which no text acts on a terminal. Each Write is whole runes.
type shownJSON struct{ to io.Writer }

func (o shownJSON) Write(b []byte) (int, error) {
	if _, err := io.WriteString(o.to, shown.JSON(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// checkedWriter remembers that something could not be written, which those who print tables do not look at. A write that
// nobody takes ends with ctx.
type checkedWriter struct {
	ctx context.Context
	to  io.Writer
	err error
}

// patience is how long a write may take after its context has ended: what is ready is still written.
const patience = 200 * time.Millisecond

func (o *checkedWriter) Write(b []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(o.ctx))
	stop := context.AfterFunc(o.ctx, func() { time.AfterFunc(patience, func() { cancel(ended.Err(o.ctx)) }) })
	defer stop()
	b = bytes.Clone(b) // the caller's may change when a write is given up
	n, err := await(ctx, func() (int, error) { return o.to.Write(b) })
	o.err = err
	return n, err
}

// shownWriter writes notes and messages, which may hold what files call themselves. Each Write is whole runes.
type shownWriter struct{ to io.Writer }

func (o shownWriter) Write(b []byte) (int, error) {
	if _, err := io.WriteString(o.to, shown.Text(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// progress shows how far some work is on a line that it writes again and again, once the work has taken longer than
// after; wipe removes the line. Where nobody looks, show is nil.
func progress(after time.Duration) (show func(done, total int64, what string), wipe func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil, func() {}
	}
	return progressOn(os.Stderr, after)
}

func progressOn(to io.Writer, after time.Duration) (show func(done, total int64, what string), wipe func()) {
	const clear = "\r\x1b[K"
	next, shown := time.Now().Add(after), false
	return func(done, total int64, what string) {
			if now := time.Now(); !now.Before(next) {
				next, shown = now.Add(100*time.Millisecond), true
				fmt.Fprintf(to, "%s%3d %% %s", clear, 100*done/max(1, total), what)
			}
		}, func() {
			if shown {
				fmt.Fprint(to, clear)
			}
		}
}

// writeModel runs what writes a model at path, says how far it is where somebody looks, and what came of it.
func writeModel(c *cobra.Command, path string, told *func(quant.Progress), work func() (*quant.Report, error)) error {
	show, wipe := progress(0)
	if show != nil {
		*told = func(p quant.Progress) { show(p.Done, p.Total, shown.Name(p.Tensor)) }
	}
	start := time.Now()
	r, err := work()
	wipe()
	if err != nil {
		return err
	}
	elements := int64(0)
	for _, d := range r.Decisions {
		n, _ := d.Shape.Elements() // of a file that was written
		elements += n
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s: %d tensors, %d parameters, %s, %.2f bits each, in %.1f s\n", shown.Name(path), len(r.Decisions), elements,
		resolver.Size(r.To), 8*float64(r.To)/float64(max(1, elements)), time.Since(start).Seconds())
	return nil
}
