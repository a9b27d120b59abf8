package pack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"runtime"
	"sync"

	"github.com/skeep-project/skeep/go/export/irpa"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// packer streams a model into a pack:
//
//	read and digest the model  ──>  re-order pieces, side by side  ──>  digest and write, in order
//	          one goroutine                   some goroutines                  one goroutine
//
// A piece is some whole panels of rows: they have the same place within a matrix in both orders. There are a few pieces, which
// are used again and again, so memory is bounded whatever the model is.
type packer struct {
	options *Options
	file    *gguf.File
	parts   []*os.File
	list    []Tensor
	plan    *irpa.Plan
	total   int64

	free, work, written chan *piece
	stop                context.CancelCauseFunc
}

const (
	pieceBytes = 2 << 20
	maxPieces  = 8
	maxMemory  = 40 << 20 // of all pieces together, unless a single one takes more
)

// piece is some rows of a weight.
type piece struct {
	room     [2][]byte // as stored, re-ordered; borrowed by
	storage  [2]*skeep.Storage
	tensor   int // in the list
	from, to skeep.View
	bytes    int64
	ready    chan error
}

// run writes the pack and fills in the digests of the record.
func (p *packer) run(whole context.Context, out io.Writer, r *record) error {
	ctx, stop := context.WithCancelCause(whole)
	p.stop = stop
	defer p.stop(nil)
	threads := p.options.Threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	size := int64(0) // of the largest piece
	for _, t := range p.list {
		rows, bytes, _ := pieceOf(t)
		size = max(size, rows*bytes)
	}
	n := int(min(int64(min(threads+2, maxPieces)), max(1, maxMemory/(2*size))))
	p.free, p.work, p.written = make(chan *piece, n), make(chan *piece, n), make(chan *piece, n)
	for range n {
		a := &piece{ready: make(chan error, 1)}
		for i := range a.storage {
			a.room[i] = make([]byte, size)
			var err error
			if a.storage[i], err = skeep.Borrow("pack", a.room[i]); err != nil {
				return err
			}
			defer a.storage[i].Close() // borrowed: nothing can be lost
		}
		p.free <- a
	}
	pools := make([]*skeep.Pool, min(threads, n)) // of one thread each: what is parallel here are the pieces
	for i := range pools {
		var err error
		if pools[i], err = skeep.NewPool(1); err != nil {
			return err
		}
		defer pools[i].Close()
	}
	var all sync.WaitGroup
	for _, pool := range pools {
		all.Go(func() {
			for a := range p.work {
				a.ready <- skeep.Copier{Pool: pool, Layer: -1}.PrepackTo(a.from, a.to)
			}
		})
	}
	all.Go(func() {
		if err := p.write(out, r); err != nil {
			p.stop(err)
		}
	})
	if err := p.read(ctx, r); err != nil {
		p.stop(err)
	}
	close(p.work)
	close(p.written)
	all.Wait()
	if err := ended.Err(whole); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// pieceOf is how many rows a piece of a weight has at most, the bytes of a row, and the rows of one matrix.
func pieceOf(t Tensor) (rows, bytes, matrix int64) {
	matrix = t.Shape.Dims[t.Shape.Rank-2]
	elements, _ := t.Shape.Elements() // checked with the header
	bytes = t.Bytes / (elements / t.Shape.Dims[t.Shape.Rank-1])
	panel := max(1, int64(t.Order.Panel))
	return min(matrix, max(panel, pieceBytes/bytes/panel*panel)), bytes, matrix
}

// read reads the model part by part, and fills in the digests of the parts.
func (p *packer) read(ctx context.Context, r *record) error {
	progress := Progress{Packing: true, Total: p.total}
	buffer := make([]byte, large)
	done := func(n int64) {
		progress.Done += n
		p.options.report(progress)
	}
	for i, part := range p.parts {
		sum, read := sha256.New(), int64(0)
		for k, t := range p.list {
			e, err := p.file.Extent(t.Name)
			if err == nil && e.Part != i {
				continue
			}
			if err == nil && e.Offset > read { // what is between the weights
				err = readInto(ctx, sum, part, read, e.Offset, buffer, done)
				read = e.Offset
			}
			if err == nil {
				err = p.weight(ctx, k, part, e.Offset, func(b []byte, at int64) {
					if skip := read - at; skip < int64(len(b)) {
						sum.Write(b[max(0, skip):]) // a weight that lies before what was read last was read before
						done(int64(len(b)) - max(0, skip))
						read = at + int64(len(b))
					}
				})
			}
			if err != nil {
				return err
			}
		}
		if err := readInto(ctx, sum, part, read, r.Source[i].Size, buffer, done); err != nil {
			return err
		}
		r.Source[i].Digest = hex.EncodeToString(sum.Sum(nil))
	}
	return nil
}

// weight reads a weight piece by piece and hands the pieces on.
func (p *packer) weight(ctx context.Context, k int, part *os.File, offset int64, seen func(b []byte, at int64)) error {
	t := p.list[k]
	most, rowBytes, matrix := pieceOf(t)
	columns, f := t.Shape.Dims[t.Shape.Rank-1], tensor.FormatOf(t.Encoding)
	for plane := int64(0); plane < t.Bytes; plane += matrix * rowBytes {
		for row := int64(0); row < matrix; row += most {
			var a *piece
			select {
			case a = <-p.free:
			case <-ctx.Done():
				return ended.Err(ctx)
			}
			shape := tensor.ShapeOf(min(most, matrix-row), columns)
			at := offset + plane + row*rowBytes
			a.tensor, a.bytes = k, shape.Dims[0]*rowBytes
			if err := readFull(part, a.room[0][:a.bytes], at); err != nil {
				return err
			}
			seen(a.room[0][:a.bytes], at)
			l, err := tensor.LayoutOf(f, shape, t.Order)
			if err == nil {
				a.from, err = a.storage[0].View("", 0, f, shape)
			}
			if err == nil {
				a.to, err = a.storage[1].ViewLayout("", 0, f, l)
			}
			if err != nil {
				return fmt.Errorf("tensor %q: %w", t.Name, err)
			}
			p.work <- a
			p.written <- a
		}
	}
	return nil
}

// write writes what comes out of the pieces, in their order, and the record at the end, which it completes.
func (p *packer) write(out io.Writer, r *record) error {
	w, err := irpa.NewWriter(out, p.plan)
	var sum hash.Hash
	current := -1
	finish := func() {
		if current >= 0 {
			r.Blobs[current] = hex.EncodeToString(sum.Sum(nil))
		}
	}
	for a := range p.written {
		err = errors.Join(err, <-a.ready)
		if err == nil && a.tensor != current {
			finish()
			current, sum = a.tensor, sha256.New()
			err = w.Begin(p.list[current].Name)
		}
		if err == nil {
			sum.Write(a.room[1][:a.bytes])
			_, err = w.Write(a.room[1][:a.bytes])
		}
		if err != nil {
			p.stop(err) // and go on taking pieces, until the reader has seen it
		}
		p.free <- a
	}
	if err != nil || current+1 < len(p.list) {
		return err
	}
	finish()
	digests := make([]string, len(r.Source))
	for i, s := range r.Source {
		digests[i] = s.Digest
	}
	r.Key = keyOf(digests)
	text, err := r.text()
	if err == nil {
		err = w.Begin(entryName)
	}
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	return err
}
