package irpa

import (
	"fmt"
	"io"
	"slices"
)

// Plan says where everything in an archive will be.
type Plan struct {
	Head    []byte  // the bytes of the file before its storage: header, entry table, metadata, padding
	Entries []Entry // with the offsets of Data
	Size    int64   // bytes of the file, a multiple of 4096
}

// Layout plans an archive of entries, in their order; the Offset of Data is ignored. The same entries give the same plan.
// Errors are *Error that name the entry.
func Layout(entries []Entry) (*Plan, error) {
	p := &Plan{Entries: slices.Clone(entries)}
	names := map[string]bool{}
	table, metadata := int64(0), int64(0) // bytes
	align := int64(dataAlign)             // of the storage segment
	for i := range p.Entries {
		e := &p.Entries[i]
		if err := e.check(); err != nil {
			return nil, err
		}
		if names[e.Name] && e.Kind != Skip {
			return nil, e.fail("the name occurs twice")
		}
		names[e.Name] = names[e.Name] || e.Kind != Skip
		if e.Kind == Data && e.Alignment == 0 {
			e.Alignment = dataAlign
		}
		align = max(align, e.Alignment)
		table = up(table, entryAlign) + int64(sizes[e.Kind])
		metadata += int64(len(e.Name) + len(e.Metadata) + len(e.Path))
	}
	at := up(headerBytes, entryAlign)
	storage := up(at+table+metadata, align)
	end := storage
	for i := range p.Entries {
		if e := &p.Entries[i]; e.Kind == Data {
			e.Offset = up(end, e.Alignment)
			if e.Length > maxSize-e.Offset {
				return nil, e.fail("the archive would have more than 2⁶² bytes")
			}
			end = e.Offset + e.Length
		}
	}
	p.Size = up(end, fileAlign)
	p.Head = make([]byte, storage)
	copy(p.Head, magic)
	for i, n := range []int64{headerBytes, 0, 0, int64(len(entries)), at, table, at + table, metadata, storage, end - storage} {
		little.PutUint64(p.Head[8+8*i:], uint64(n))
	}
	p.entries(p.Head[at:][:table], p.Head[at+table:][:metadata], storage)
	return p, nil
}

// entries fills the table and the metadata.
func (p *Plan) entries(table, metadata []byte, storage int64) {
	used := 0 // of the metadata
	refer := func(into, what []byte) {
		if len(what) > 0 {
			little.PutUint64(into, uint64(used))
			little.PutUint64(into[8:], uint64(len(what)))
			used += copy(metadata[used:], what)
		}
	}
	at := int64(0)
	for i := range p.Entries {
		e := &p.Entries[i]
		at = up(at, entryAlign)
		b := table[at:][:sizes[e.Kind]]
		at += int64(len(b))
		little.PutUint64(b, uint64(len(b)))
		little.PutUint32(b[8:], uint32(e.Kind))
		little.PutUint64(b[12:], e.Flags)
		refer(b[20:], []byte(e.Name))
		refer(b[36:], e.Metadata)
		little.PutUint64(b[52:], uint64(e.Alignment))
		switch e.Kind {
		case Splat:
			little.PutUint64(b[60:], uint64(e.Length))
			copy(b[68:], e.Pattern)
			b[84] = byte(len(e.Pattern))
		case Data:
			little.PutUint64(b[60:], uint64(e.Offset-storage))
			little.PutUint64(b[68:], uint64(e.Length))
		case External:
			refer(b[60:], []byte(e.Path))
			little.PutUint64(b[76:], uint64(e.Offset))
			little.PutUint64(b[84:], uint64(e.Length))
		}
	}
}

func (e *Entry) fail(format string, args ...any) error {
	return &Error{Offset: -1, Entry: e.Name, Reason: fmt.Sprintf(format, args...), Err: ErrFormat}
}

// check says why an entry cannot be written.
func (e *Entry) check() error {
	_, known := sizes[e.Kind]
	n := len(e.Pattern)
	switch {
	case !known:
		return e.fail("kind %d", e.Kind)
	case e.Length < 0:
		return e.fail("%d bytes", e.Length)
	case e.Alignment < 0 || e.Alignment > maxAlign || e.Alignment&(e.Alignment-1) != 0:
		return e.fail("alignment %d, want a power of two up to %d", e.Alignment, maxAlign)
	case e.Kind == Splat && (n == 0 || n > maxPattern || n&(n-1) != 0 || e.Length%int64(n) != 0):
		return e.fail("%d bytes of a pattern of %d, want a multiple of 1, 2, 4, 8 or 16", e.Length, n)
	case e.Kind == External && e.Offset < 0:
		return e.fail("offset %d", e.Offset)
	}
	return nil
}

// Writer writes an archive from its first byte to its last. It is not safe for concurrent use.
type Writer struct {
	w    io.Writer
	plan *Plan
	at   int64 // bytes written
	next int   // the entry after the one that is being written
	end  int64 // of the blob that is being written
	err  error // the first of a write
}

// NewWriter begins the archive of a plan on w: everything before the storage is written at once. The bytes of each entry of
// kind Data follow, in the order of the plan; then Close.
func NewWriter(w io.Writer, p *Plan) (*Writer, error) {
	switch {
	case w == nil:
		return nil, isNil("writer")
	case p == nil:
		return nil, isNil("plan")
	}
	a := &Writer{w: w, plan: p}
	a.write(p.Head)
	return a, a.err
}

// write passes bytes on and remembers the first error.
func (w *Writer) write(b []byte) int {
	if w.err != nil {
		return 0
	}
	n, err := w.w.Write(b)
	w.at += int64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	w.err = err
	return n
}

// pad writes zeros up to a byte of the file.
func (w *Writer) pad(to int64) {
	var zeros [fileAlign]byte
	for w.at < to && w.err == nil {
		w.write(zeros[:min(int64(len(zeros)), to-w.at)])
	}
}

func (w *Writer) payload(entry, format string, args ...any) error {
	return &Error{Offset: w.at, Entry: entry, Reason: fmt.Sprintf(format, args...), Err: ErrPayload}
}

// Begin begins the blob of the next entry of kind Data, whose name must be name. Write then takes its bytes, in any number of
// pieces.
func (w *Writer) Begin(name string) error {
	if err := w.finished(); err != nil {
		return err
	}
	for w.next < len(w.plan.Entries) && w.plan.Entries[w.next].Kind != Data {
		w.next++
	}
	if w.next == len(w.plan.Entries) || w.plan.Entries[w.next].Name != name {
		return w.payload(name, "it is not the next entry of the plan")
	}
	e := w.plan.Entries[w.next]
	w.next++
	w.pad(e.Offset)
	w.end = e.Offset + e.Length
	return w.err
}

// finished says what is missing of the blob that is being written.
func (w *Writer) finished() error {
	if w.err == nil && w.at < w.end {
		return w.payload(w.plan.Entries[w.next-1].Name, "%d bytes are missing", w.end-w.at)
	}
	return w.err
}

// Write writes bytes of the blob that was begun. More of them than the plan has for it are an error, and none is written.
func (w *Writer) Write(b []byte) (int, error) {
	if w.err == nil && int64(len(b)) > w.end-w.at {
		return 0, w.payload("", "%d bytes more than planned", int64(len(b))-max(0, w.end-w.at))
	}
	n := w.write(b)
	return n, w.err
}

// Close completes the archive. A blob that is missing is an error. It does not close what was written to.
func (w *Writer) Close() error {
	if err := w.finished(); err != nil {
		return err
	}
	for _, e := range w.plan.Entries[w.next:] {
		if e.Kind == Data && e.Length > 0 {
			return w.payload(e.Name, "its %d bytes are missing", e.Length)
		}
	}
	w.pad(w.plan.Size)
	return w.err
}
