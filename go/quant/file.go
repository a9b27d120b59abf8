// Package quant converts whole model files to other encodings, and makes model files with random weights. Tensors are
// streamed, so only a few rows are in memory at a time. The result does not depend on the number of threads.
package quant

import (
	"context"
	"errors"
	"fmt"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// The sentinel errors of this package. Errors of packages gguf and skeep are returned as well.
var (
	ErrUnsupported       = errors.New("not supported")
	ErrArgument    error = skeep.ErrArgument
)

// Error says which tensor could not be written and which element is the cause.
type Error struct {
	Tensor string
	Row    int64 // counted over all outer axes; -1 if the error does not concern an element
	Column int64
	Reason string
	Err    error // ErrUnsupported, ErrArgument (and gguf.ErrInUse), or an error of package skeep such as ErrValue
}

func (e *Error) Error() string {
	s := "quant: "
	if e.Tensor != "" {
		s += fmt.Sprintf("tensor %q: ", e.Tensor)
	}
	if e.Row >= 0 {
		s += fmt.Sprintf("row %d, column %d: ", e.Row, e.Column)
	}
	return s + e.Reason
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Options configure a conversion.
type Options struct {
	Type     string          // a mix such as "Q4_K_M", or a format
	Pure     bool            // use this format for every tensor that may be packed
	Threads  int             // 0: one per processor that the process may use; ignored with Pool
	Pool     *skeep.Pool     // the caller's; nil: one for the call
	Trace    *trace.Recorder // events of kind Requantize; may be nil
	Progress func(Progress)  // called from one goroutine, before each piece and at the end; may be nil
}

// Check returns an error, a *TypeError or *Error, if the options are invalid for every file.
func (o Options) Check() error {
	if _, err := encodableType(o.Type); err != nil {
		return err
	}
	if o.Pool == nil && (o.Threads < 0 || o.Threads > maxThreads) {
		return &Error{Row: -1, Column: -1, Reason: fmt.Sprintf("%d threads, want 0 to %d", o.Threads, maxThreads), Err: ErrArgument}
	}
	return nil
}

// Progress says how much of a file has been written.
type Progress struct {
	Tensor      string // the tensor that is being written, or ""
	Done, Total int64  // bytes of the result's payload
}

// Report summarizes a conversion.
type Report struct {
	Decisions []Decision
	FileType  uint32 // general.file_type of the result
	From, To  int64  // bytes of payload
}

// File converts in, a file or split set in any encodings, to the single file out. The file appears under its name when
// it is complete. An existing file is replaced unless it is a part of in, or this process has it open or mapped
// (gguf.ErrInUse). Metadata are copied, except for general.file_type and general.quantization_version. Canceling ctx
// ends it; if it fails, it leaves no file behind. Errors are *TypeError, *Error (with tensor, row and column if an
// element does not fit its format) or those of package gguf.
func File(ctx context.Context, in *gguf.File, out string, o Options) (*Report, error) {
	if ctx == nil || in == nil {
		return nil, needed(map[bool]string{true: "context", false: "input"}[ctx == nil])
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	m, err := encodableType(o.Type)
	if err != nil {
		return nil, err
	}
	decisions, err := m.choose(in, o.Pure)
	if err != nil {
		return nil, err
	}
	if in.Holds(out) {
		return nil, &Error{Row: -1, Column: -1, Reason: fmt.Sprintf("%s is the input itself", out), Err: errors.Join(ErrArgument, gguf.ErrInUse)}
	}
	r := &Report{Decisions: decisions, FileType: m.fileType}
	h := gguf.HeaderOf(in)
	describe(&h, m)
	for i, d := range decisions {
		h.Tensors[i].Encoding = d.To
		r.From += in.Tensors()[i].Bytes
		r.To += d.Bytes
	}
	pool := o.Pool
	if pool == nil {
		if pool, err = skeep.NewPool(o.Threads); err != nil {
			return nil, err
		}
		defer pool.Close()
	}
	e := encoder{in: in, options: o, copier: skeep.Copier{Pool: pool, Trace: o.Trace, Layer: -1}, progress: Progress{Total: r.To}}
	err = gguf.WriteFile(out, h, func(w *gguf.Writer) error {
		for i, d := range decisions {
			if err := e.tensor(ctx, w, in.Tensors()[i], d); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	e.report("")
	return r, nil
}

// needed is the error for something that is nil.
func needed(what string) error {
	return &Error{Row: -1, Column: -1, Reason: "the " + what + " is nil", Err: ErrArgument}
}

// describe sets the keys that say how a file is encoded.
func describe(h *gguf.Header, m mix) {
	const version = 2 // of the layouts of blocks: theirs since 2023
	h.Set("general.file_type", gguf.NumberOf(m.fileType))
	h.Set("general.quantization_version", gguf.NumberOf(uint32(version)))
}

const maxThreads = 1024

// pieceElements is how many elements are encoded at a time, unless a row is longer: enough to occupy many
// threads, few enough that a piece stays small.
const pieceElements = 1 << 20

// encoder writes tensors. Its buffers are those of the largest piece so far.
type encoder struct {
	in       *gguf.File
	options  Options
	copier   skeep.Copier
	progress Progress
	from, to []byte
}

func (e *encoder) report(tensor string) {
	e.progress.Tensor = tensor
	if e.options.Progress != nil {
		e.options.Progress(e.progress)
	}
}

// tensor writes one tensor, a piece of some rows after the other.
func (e *encoder) tensor(ctx context.Context, w *gguf.Writer, t arch.TensorInfo, d Decision) error {
	out, err := w.Tensor(t.Name)
	if err != nil {
		return err
	}
	payload, err := e.in.Payload(t.Name)
	if err != nil || t.Bytes == 0 {
		return err
	}
	columns := int64(1)
	if t.Shape.Rank > 0 {
		columns = t.Shape.Dims[t.Shape.Rank-1]
	}
	elements, err := t.Shape.Elements()
	if err != nil {
		return err
	}
	rows := elements / columns
	if d.From == d.To {
		rows, columns = t.Bytes, 1 // bytes are copied, also of a row that is long
	}
	maxRows := min(max(1, pieceElements/columns), rows)
	fromRow, toRow := t.Bytes/rows, d.Bytes/rows
	e.from, e.to = room(e.from, maxRows*fromRow), room(e.to, maxRows*toRow)
	for row := int64(0); row < rows; row += maxRows {
		if err := ended.Err(ctx); err != nil {
			return err
		}
		e.report(t.Name)
		n := min(maxRows, rows-row)
		from, to := e.from[:n*fromRow], e.to[:n*toRow]
		if _, err := payload.ReadAt(from, row*fromRow); err != nil {
			return err
		}
		if d.From == d.To {
			to = from
		} else if err := e.encode(t, d, from, to, tensor.ShapeOf(n, columns), row); err != nil {
			return err
		}
		if _, err := out.Write(to); err != nil {
			return err
		}
		e.progress.Done += int64(len(to))
	}
	return nil
}

// encode encodes rows of a tensor, of which the first is row number `row`.
func (e *encoder) encode(t arch.TensorInfo, d Decision, from, to []byte, shape tensor.Shape, row int64) error {
	view := func(b []byte, enc tensor.Encoding, opts ...skeep.Option) (skeep.View, *skeep.Storage, error) {
		s, err := skeep.Borrow(t.Name, b, opts...)
		if err != nil {
			return skeep.View{}, nil, err
		}
		v, err := s.View(t.Name, 0, tensor.FormatOf(enc), shape)
		return v, s, err
	}
	x, source, err := view(from, d.From, skeep.ReadOnly())
	if err != nil {
		return err
	}
	defer source.Close() // borrowed: nothing can be lost
	y, target, err := view(to, d.To)
	if err != nil {
		return err
	}
	defer target.Close()
	err = e.copier.EncodeTo(x, y)
	var bad *skeep.ValueError
	if errors.As(err, &bad) {
		return &Error{Tensor: t.Name, Row: row + bad.Index[0], Column: bad.Index[1],
			Reason: fmt.Sprintf("%g, which cannot be encoded in %s", bad.Value, d.To), Err: err}
	}
	return err
}

// room is a buffer of n bytes.
func room(b []byte, n int64) []byte {
	if int64(cap(b)) < n {
		return make([]byte, n)
	}
	return b[:n]
}
