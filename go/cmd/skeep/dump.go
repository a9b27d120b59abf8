package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/spf13/cobra"
)

func dumpCommand() *cobra.Command {
	var span, format string
	c := &cobra.Command{
		Use:     "dump MODEL TENSOR",
		Short:   "Print the decoded values of a tensor",
		Long:    "dump prints the decoded values of one tensor, row by row: as text with one value per line, as raw little-endian float32,\nor as a NumPy file.",
		Example: "  skeep dump model.gguf output_norm.weight --range 0:8\n  skeep dump model.gguf blk.0.attn_q.weight -o npy > q.npy",
		Args:    cobra.ExactArgs(2),
	}
	c.Flags().StringVar(&span, "range", "", "only elements A to B-1, written A:B and counted over the whole tensor; A or B may be left out")
	c.Flags().StringVarP(&format, "output", "o", "text", "output format: text, raw or npy")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if format != "text" && format != "raw" && format != "npy" {
			return fmt.Errorf("output format %q, want text, raw or npy", format)
		}
		if _, _, err := parseRange(span, math.MaxInt64); err != nil {
			return err
		}
		if _, err := claim(c, modelFile(args)); err != nil {
			return err
		}
		f, err := gguf.Open(args[0], gguf.Options{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out := bufio.NewWriterSize(c.OutOrStdout(), 1<<16)
		if err := dump(c.Context(), out, f, args[1], span, format); err != nil {
			return err
		}
		return out.Flush()
	}
	return c
}

// dumpBytes bounds how much of a tensor is in memory at a time, unless a row is longer.
const dumpBytes = 1 << 20

func dump(ctx context.Context, w io.Writer, f *gguf.File, name, span, format string) error {
	payload, err := f.Payload(name)
	if err != nil {
		return err
	}
	t, _ := f.Tensor(name)
	elements, err := t.Shape.Elements()
	if err != nil {
		return err
	}
	from, to, err := parseRange(span, elements)
	if err != nil {
		return err
	}
	if format == "npy" {
		shape := t.Shape
		if span != "" {
			shape = tensor.ShapeOf(to - from)
		}
		if err := writeNumpyHeader(w, shape); err != nil {
			return err
		}
	}
	if from == to {
		return nil
	}
	n := int64(1) // elements of a row
	if t.Shape.Rank > 0 {
		n = t.Shape.Dims[t.Shape.Rank-1]
	}
	rowBytes := payload.Size() / (elements / n)
	rows := max(1, min(dumpBytes/rowBytes, elements/n))
	chunk, err := skeep.Allocate(name, rows*rowBytes)
	if err != nil {
		return err
	}
	defer chunk.Close()
	values := make([]float32, rows*n)
	format32 := tensor.FormatOf(t.Encoding)
	for row := from / n; row*n < to; row += rows {
		if err := ended.Err(ctx); err != nil {
			return err
		}
		count := min(rows, elements/n-row)
		section := io.NewSectionReader(payload, row*rowBytes, count*rowBytes)
		if _, err := io.Copy(io.NewOffsetWriter(chunk, 0), section); err != nil {
			return err
		}
		v, err := chunk.View(name, 0, format32, tensor.ShapeOf(count, n))
		if err != nil {
			return err
		}
		first, last := max(from-row*n, 0), min(to-row*n, count*n)
		if format == "text" && format32.DType.Integer() {
			for i := first; i < last; i++ {
				x, err := v.GetInt(i/n, i%n)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintln(w, x); err != nil {
					return err
				}
			}
			continue
		}
		if err := v.CopyTo(values[:count*n]); err != nil {
			return err
		}
		if err := writeValues(w, format, values[first:last]); err != nil {
			return err
		}
	}
	return nil
}

func writeValues(w io.Writer, format string, values []float32) error {
	if format != "text" {
		return binary.Write(w, binary.LittleEndian, values)
	}
	var line []byte
	for _, x := range values {
		line = append(strconv.AppendFloat(line[:0], float64(x), 'g', -1, 32), '\n')
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// parseRange reads A:B within n elements, math.MaxInt64 when their number is not known.
func parseRange(span string, n int64) (from, to int64, err error) {
	if span == "" {
		return 0, n, nil
	}
	a, b, ok := strings.Cut(span, ":")
	from, to = 0, n
	if ok && a != "" {
		from, err = strconv.ParseInt(a, 10, 64)
	}
	if ok && b != "" && err == nil {
		to, err = strconv.ParseInt(b, 10, 64)
	}
	if !ok || err != nil || from < 0 || from > to || to > n {
		want := "A:B with 0 ≤ A ≤ B"
		if n < math.MaxInt64 {
			want += fmt.Sprintf(" ≤ %d", n)
		}
		return 0, 0, fmt.Errorf("--range %q, want %s", span, want)
	}
	return from, to, nil
}

// writeNumpyHeader writes the header of the NumPy format, version 1.0, for little-endian float32.
func writeNumpyHeader(w io.Writer, shape tensor.Shape) error {
	var dims strings.Builder
	for _, d := range shape.Dims[:shape.Rank] {
		fmt.Fprintf(&dims, "%d, ", d)
	}
	text := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", strings.TrimSuffix(dims.String(), " "))
	const prefix = 10 // magic, version, length
	pad := 63 - (prefix+len(text))%64
	text += strings.Repeat(" ", pad) + "\n"
	_, err := fmt.Fprintf(w, "\x93NUMPY\x01\x00%c%c%s", len(text)&255, len(text)>>8, text)
	return err
}
