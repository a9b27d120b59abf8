package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/model"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/tokenizer"
	"github.com/spf13/cobra"
)

// metadatum is one metadata value in JSON: scalars and texts have a value, arrays a length.
type metadatum struct {
	Type   string `json:"type"`
	Value  any    `json:"value,omitempty"`
	Length *int   `json:"length,omitempty"`
}

type tensorRow struct {
	Name   name    `json:"name"`
	Type   string  `json:"type"`
	Shape  []int64 `json:"shape"`
	Offset int64   `json:"offset"`
	Bytes  int64   `json:"bytes"`
	Part   int     `json:"part,omitempty"`
	Alias  name    `json:"alias_of,omitempty"`
}

// findingRow is something that --check found. Row, block and count are absent for data that cannot be read.
type findingRow struct {
	Tensor name   `json:"tensor"`
	What   string `json:"what"`
	Row    *int64 `json:"row,omitempty"`
	Block  *int64 `json:"block,omitempty"`
	Count  int64  `json:"count,omitempty"`
}

// endRow is a token that ends generation, and the metadata key that says so, or "text".
type endRow struct {
	ID   int32  `json:"id"`
	Text string `json:"text"`
	Why  string `json:"why"`
}

type inspection struct {
	Version   int                  `json:"version"`
	ByteOrder string               `json:"byte_order"`
	Alignment int64                `json:"alignment"`
	Parts     int                  `json:"parts"`
	Metadata  map[string]metadatum `json:"metadata"`
	Tensors   []tensorRow          `json:"tensors"`
	Tokenizer string               `json:"tokenizer,omitempty"` // the effective one, or why there is none
	Ends      []endRow             `json:"end_tokens,omitempty"`
	Notes     []string             `json:"notes,omitempty"`
	Findings  *[]findingRow        `json:"findings,omitempty"` // with --check
}

func inspectCommand() *cobra.Command {
	var metadataOnly, check bool
	var glob string
	c := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show the header, metadata and tensors of a GGUF file",
		Long: `inspect prints what the header of a GGUF file says. For a model split over several files, name any one of them.
Shapes are written rows first (the reverse of the order in the file); offsets count from the start of the tensor data.
--check also reads the tensor data and reports NaN and infinite values, blocks that consist of zero bytes, and missing
data. The exit status is then 1 if anything was found.`,
		Example: "  skeep inspect model.gguf\n  skeep inspect model.gguf --tensors 'blk.0.*' -o json\n  skeep inspect model.gguf --check",
		Args:    cobra.ExactArgs(1),
	}
	format := outputFlag(c, "table")
	c.Flags().BoolVar(&metadataOnly, "metadata", false, "print only the metadata")
	c.Flags().StringVar(&glob, "tensors", "", "print only tensors whose name matches this pattern, such as 'blk.0.*'")
	c.Flags().BoolVar(&check, "check", false, "read the tensor data and report data that looks damaged")
	c.RunE = func(c *cobra.Command, args []string) error {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Errorf("--tensors %q: %w", glob, err)
		}
		if _, err := claim(c, modelFile(args)); err != nil {
			return err
		}
		f, err := gguf.Open(args[0], gguf.Options{HeaderOnly: true})
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Truncated(); err != nil {
			fmt.Fprintln(c.ErrOrStderr(), "note:", err)
		}
		if glob != "" && !slices.ContainsFunc(f.Tensors(), func(t arch.TensorInfo) bool { ok, _ := path.Match(glob, t.Name); return ok }) {
			return fmt.Errorf("--tensors %q: no tensor of the model has a matching name", glob)
		}
		var findings *[]findingRow
		if check {
			if findings, err = payloadFindings(c.Context(), f, glob); err != nil {
				return err
			}
		}
		if err := writeInspection(c.OutOrStdout(), c.ErrOrStderr(), *format, f, glob, metadataOnly, findings); err != nil || !check || len(*findings) == 0 {
			return err
		}
		return verdict{fmt.Errorf("inspect: %d finding(s) in the payload, the first: %s", len(*findings), (*findings)[0].What)}
	}
	return c
}

// payloadFindings reads the tensors that match. Data that are not there are a finding; the error is ctx's.
func payloadFindings(ctx context.Context, f *gguf.File, glob string) (*[]findingRow, error) {
	rows := []findingRow{}
	for _, t := range f.Tensors() {
		if ok, _ := path.Match(glob, t.Name); glob != "" && !ok {
			continue
		}
		found, err := f.Check(ctx, t.Name)
		if err := ended.Err(ctx); err != nil {
			return nil, err
		}
		if err != nil {
			rows = append(rows, findingRow{Tensor: name(t.Name), What: err.Error()})
		}
		for _, x := range found {
			rows = append(rows, findingRow{Tensor: name(x.Tensor), What: x.String(), Row: &x.Row, Block: &x.Block, Count: x.Count})
		}
	}
	return &rows, nil
}

// tokenizer says how text would be split, or why it cannot be, what ends generation, and what is to be remarked.
func (r *inspection) tokenizer(f *gguf.File) {
	var t *tokenizer.Tokenizer
	if _, ok := f.Value("tokenizer.ggml.model"); ok {
		var err error
		if t, err = tokenizer.New(f, tokenizer.Options{}); err != nil {
			r.Tokenizer = strings.TrimPrefix(err.Error(), "tokenizer: ")
		}
	}
	r.Notes = model.MetadataNotes(f, t)
	if t == nil {
		return
	}
	if r.Tokenizer = t.Model(); t.Pre() != "" {
		r.Tokenizer += ", pre " + t.Pre()
	}
	for _, e := range t.Ends() {
		r.Ends = append(r.Ends, endRow{e.ID, strings.ToValidUTF8(t.Text(e.ID), "\uFFFD"), e.Why})
	}
}

func writeInspection(w, notes io.Writer, format string, f *gguf.File, glob string, metadataOnly bool, findings *[]findingRow) error {
	parts := f.Parts()
	r := inspection{Version: f.Version(), ByteOrder: "little", Alignment: parts[0].Alignment, Parts: len(parts),
		Metadata: map[string]metadatum{}, Tensors: []tensorRow{},
		Findings: findings}
	r.tokenizer(f)
	for _, note := range r.Notes {
		fmt.Fprintln(notes, "note:", note)
	}
	if f.ByteOrder().String() == "BigEndian" {
		r.ByteOrder = "big"
	}
	meta := table{columns: []string{"key", "type", "value"}}
	if glob == "" || metadataOnly {
		for key := range f.Keys() {
			v, _ := f.Value(key)
			m, text := describe(v)
			r.Metadata[shown.Distinct(key)] = m
			meta.add(key, m.Type, text)
		}
	}
	list := table{columns: []string{"tensor", "type", "shape", "offset", "bytes", "size"}}
	if !metadataOnly {
		for _, t := range f.Tensors() {
			if ok, _ := path.Match(glob, t.Name); glob != "" && !ok {
				continue
			}
			row := tensorRow{Name: name(t.Name), Type: t.TypeName(), Shape: slices.Clone(t.Shape.Dims[:t.Shape.Rank]), Offset: t.Offset, Bytes: t.Bytes, Part: t.File, Alias: name(t.AliasOf)}
			if row.Shape == nil {
				row.Shape = []int64{}
			}
			r.Tensors = append(r.Tensors, row)
			size := "unknown"
			if t.Bytes >= 0 {
				size = resolver.Size(t.Bytes)
			}
			list.add(t.Name, row.Type, t.Shape, t.Offset, t.Bytes, size)
		}
	}
	if format == "json" {
		return write(w, format, list, r)
	}
	if format == "table" {
		fmt.Fprintf(w, "GGUF version %d, %s-endian, alignment %d, %d file(s), %d tensors\n", r.Version, r.ByteOrder, r.Alignment, r.Parts, len(f.Tensors()))
		if r.Tokenizer != "" {
			fmt.Fprintln(w, "tokenizer:", shown.Name(r.Tokenizer))
		}
		for i, e := range r.Ends {
			fmt.Fprintf(w, "%s%d %q, by %s", map[bool]string{true: "ends generation: ", false: "; "}[i == 0], e.ID, e.Text, e.Why)
		}
		if len(r.Ends) > 0 {
			fmt.Fprintln(w)
		}
		if findings != nil {
			fmt.Fprintf(w, "payload: %d finding(s)\n", len(*findings))
			for _, x := range *findings {
				fmt.Fprintf(w, "  %s\n", shown.Name(x.What))
			}
		}
		fmt.Fprintln(w)
	}
	if len(meta.rows) > 0 {
		if err := write(w, format, meta, nil); err != nil || metadataOnly {
			return err
		}
		fmt.Fprintln(w)
	}
	return write(w, format, list, nil)
}

// describe writes a metadata value for JSON and, shortened, for people.
func describe(v arch.Value) (metadatum, string) {
	m := metadatum{Type: v.Kind().String()}
	if a, ok := v.Array(); ok {
		n := a.Len()
		m.Type, m.Length = a.Elem().String()+"[]", &n
		var items []string
		for i := range min(n, 6) {
			_, s := describe(a.At(i))
			items = append(items, s)
		}
		if n > len(items) {
			items = append(items, fmt.Sprintf("… %d in all", n))
		}
		return m, "[" + strings.Join(items, ", ") + "]"
	}
	switch v.Kind() {
	case arch.String:
		s, _ := v.Text()
		m.Value = strings.ToValidUTF8(s, "\uFFFD")
		return m, clip(fmt.Sprintf("%q", s), 100)
	case arch.Bool:
		m.Value, _ = v.Bool()
	case arch.Float32, arch.Float64:
		x, _ := v.Float()
		bits := 64
		if v.Kind() == arch.Float32 {
			bits = 32
		}
		short := strconv.FormatFloat(x, 'g', -1, bits)
		if m.Value = json.Number(short); math.IsNaN(x) || math.IsInf(x, 0) { // JSON has no such numbers
			m.Value = short
		}
	case arch.Uint64:
		m.Value, _ = v.Uint()
	default:
		m.Value, _ = v.Int()
	}
	return m, fmt.Sprint(m.Value)
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
