package irpa

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/skeep-project/skeep/go/internal/shown"
)

// Archive is an archive that was read. It is safe for concurrent use, except Close.
type Archive struct {
	name    string
	r       io.ReaderAt
	size    int64
	file    *os.File // nil unless Open made it
	entries []Entry
	index   map[string]int
}

// maxTables bounds the bytes of all entry tables and metadata segments of a file, which are read into memory.
const maxTables = 256 << 20

// Open reads the tables of the archive at path, which must be a regular file, and keeps the file open; the caller must
// Close the archive. Errors are *Error or wrap those of the operating system.
func Open(path string) (*Archive, error) {
	st, err := os.Stat(path) // before it is opened: opening a pipe would wait for its writer
	if err != nil {
		return nil, fmt.Errorf("irpa: %w", shown.Error(err))
	}
	if !st.Mode().IsRegular() {
		return nil, &Error{File: path, Offset: -1, Reason: "not a regular file", Err: ErrUnsupported}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("irpa: %w", shown.Error(err))
	}
	if st, err = f.Stat(); err != nil {
		return nil, errors.Join(fmt.Errorf("irpa: %w", shown.Error(err)), f.Close())
	}
	a, err := Read(f, st.Size(), path)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	a.file = f
	return a, nil
}

// Read reads the tables of an archive of size bytes from r, which stays the caller's and serves the blobs. name is for
// messages. Errors are *Error.
func Read(r io.ReaderAt, size int64, name string) (*Archive, error) {
	if r == nil {
		return nil, isNil("reader")
	}
	a := &Archive{name: name, r: r, size: size, index: map[string]int{}}
	budget := int64(maxTables)
	for base := int64(0); ; {
		next, err := a.header(base, &budget)
		if err != nil || next == 0 {
			return a, err
		}
		base += next
	}
}

// Name is the path that was opened, or the name given to Read.
func (a *Archive) Name() string { return a.name }

// Size is the bytes of the file.
func (a *Archive) Size() int64 { return a.size }

// OSFile is the open file, for mapping; nil if Open did not open it. It belongs to the archive and is valid until Close.
func (a *Archive) OSFile() *os.File { return a.file }

// Entries lists the entries in the order of the file, without those of Skip. The slice is the caller's; what it refers to
// is not to be modified.
func (a *Archive) Entries() []Entry { return slices.Clone(a.entries) }

// Entry finds an entry by its name.
func (a *Archive) Entry(name string) (Entry, bool) {
	i, ok := a.index[name]
	if !ok {
		return Entry{}, false
	}
	return a.entries[i], true
}

// Bytes reads the value of an entry of the archive. The kinds Data and Splat can be read; another one is an *Error that wraps
// ErrUnsupported. The reader is valid until Close, and safe for concurrent use of ReadAt.
func (a *Archive) Bytes(e Entry) (*io.SectionReader, error) {
	switch {
	case e.Kind == Data && e.Offset >= 0 && e.Length >= 0 && e.Offset <= a.size && e.Length <= a.size-e.Offset:
		return io.NewSectionReader(a.r, e.Offset, e.Length), nil
	case e.Kind == Splat && len(e.Pattern) > 0:
		return io.NewSectionReader(splat{e.Pattern}, 0, e.Length), nil
	case e.Kind == External:
		return nil, a.fail(ErrUnsupported, -1, e.Name, "its bytes are in another file, %s", shown.Quoted(e.Path, 128))
	}
	return nil, a.fail(ErrUnsupported, -1, e.Name, "kind %d with %d bytes at %d cannot be read", e.Kind, e.Length, e.Offset)
}

// Close closes the file that Open opened.
func (a *Archive) Close() error {
	if a.file == nil {
		return nil
	}
	err := a.file.Close()
	a.file = nil
	return err
}

func (a *Archive) fail(kind error, offset int64, entry, format string, args ...any) error {
	return &Error{File: a.name, Offset: offset, Entry: entry, Reason: fmt.Sprintf(format, args...), Err: kind}
}

// read is n bytes of the file.
func (a *Archive) read(what string, at, n int64) ([]byte, error) {
	if at < 0 || n < 0 || at > a.size || n > a.size-at {
		return nil, a.fail(ErrTruncated, at, "", "%s needs %d bytes, the file has %d", what, n, a.size)
	}
	b := make([]byte, n)
	if got, err := a.r.ReadAt(b, at); int64(got) < n {
		if err == io.EOF || err == nil {
			return nil, a.fail(ErrTruncated, at+int64(got), "", "%s ends early", what)
		}
		return nil, a.fail(err, at, "", "%s: %v", what, err)
	}
	return b, nil
}

// segment is a part of an archive, by where it is in the file.
type segment struct{ at, bytes int64 }

// within is where a range of a segment is in the file.
func (s segment) within(offset, bytes uint64) (at int64, ok bool) {
	if bytes == 0 {
		return s.at, true
	}
	if offset > uint64(s.bytes) || bytes > uint64(s.bytes)-offset {
		return 0, false
	}
	return s.at + int64(offset), true
}

// header reads the archive whose header is at base; next is how far behind it the next one is, 0 when there is none.
func (a *Archive) header(base int64, budget *int64) (next int64, err error) {
	h, err := a.read("the header", base, headerBytes)
	if err != nil {
		return 0, err
	}
	word := func(at int) uint64 { return little.Uint64(h[at:]) }
	major, minor := little.Uint16(h[4:]), little.Uint16(h[6:])
	switch {
	case string(h[:4]) != magic:
		return 0, a.fail(ErrFormat, base, "", "it begins with %q, want %q", h[:4], magic)
	case major != 0 || minor != 0:
		return 0, a.fail(ErrUnsupported, base+4, "", "version %d.%d, want 0.0", major, minor)
	case word(8) != headerBytes:
		return 0, a.fail(ErrFormat, base+8, "", "a header of %d bytes, want %d", word(8), headerBytes)
	}
	link := word(16)
	if link%entryAlign != 0 || link > uint64(a.size-base) {
		return 0, a.fail(ErrTruncated, base+16, "", "the next header is %d bytes on, past the end or not at a multiple of %d", link, entryAlign)
	}
	var parts [3]segment
	for i, name := range []string{"entry table", "metadata", "storage"} {
		offset, bytes := word(40+16*i), word(48+16*i)
		if offset > uint64(a.size-base) || bytes > uint64(a.size-base)-offset {
			return 0, a.fail(ErrTruncated, base+int64(40+16*i), "", "%s of %d bytes at %d, the file has %d bytes", name, bytes, offset, a.size-base)
		}
		parts[i] = segment{base + int64(offset), int64(bytes)}
	}
	if *budget -= parts[0].bytes + parts[1].bytes; *budget < 0 {
		return 0, a.fail(ErrLimit, base, "", "tables of more than %d bytes", maxTables)
	}
	table, err := a.read("the entry table", parts[0].at, parts[0].bytes)
	if err != nil {
		return 0, err
	}
	metadata, err := a.read("the metadata", parts[1].at, parts[1].bytes)
	if err != nil {
		return 0, err
	}
	return int64(link), a.table(word(32), parts, table, metadata)
}

// table reads the entries of one archive. Names and metadata share the bytes of their segment.
func (a *Archive) table(count uint64, parts [3]segment, table, metadata []byte) error {
	text := string(metadata)
	at := 0
	for i := range count {
		where := parts[0].at + int64(at)
		if len(table)-min(at, len(table)) < entryBytes {
			return a.fail(ErrTruncated, where, "", "entry %d of %d lies past the end of its table", i, count)
		}
		b := table[at:]
		word := func(at int) uint64 { return little.Uint64(b[at:]) }
		e := Entry{Kind: Kind(little.Uint32(b[8:])), Flags: word(12)}
		bytes, known := sizes[e.Kind]
		switch {
		case !known:
			return a.fail(ErrUnsupported, where+8, "", "entry %d is of kind %d", i, e.Kind)
		case word(0) < uint64(bytes) || word(0) > uint64(len(b)):
			return a.fail(ErrFormat, where, "", "entry %d has %d bytes, want at least %d and at most the %d that are left", i, word(0), bytes, len(b))
		}
		at += int(up(int64(word(0)), entryAlign))
		if e.Kind == Skip {
			continue
		}
		inMetadata := func(what string, offset int) (from, to int64, err error) {
			start, n := word(offset), word(offset+8)
			p, ok := (segment{0, int64(len(text))}).within(start, n)
			if !ok {
				return 0, 0, a.fail(ErrTruncated, where+int64(offset), e.Name, "%s of entry %d: %d bytes at %d of %d", what, i, n, start, len(text))
			}
			return p, p + int64(n), nil
		}
		from, to, err := inMetadata("name", 20)
		if err != nil {
			return err
		}
		e.Name = text[from:to]
		if from, to, err = inMetadata("metadata", 36); err != nil {
			return err
		}
		if from < to {
			e.Metadata = metadata[from:to:to]
		}
		if e.Alignment = int64(word(52)); e.Alignment < 0 || e.Alignment&(e.Alignment-1) != 0 {
			return a.fail(ErrFormat, where+52, e.Name, "alignment %d is no power of two", word(52))
		}
		switch e.Kind {
		case Splat:
			n := int(b[84])
			if n == 0 || n > maxPattern || n&(n-1) != 0 || word(60) > math.MaxInt64 || word(60)%uint64(n) != 0 {
				return a.fail(ErrFormat, where+60, e.Name, "%d bytes of a pattern of %d", word(60), n)
			}
			e.Length, e.Pattern = int64(word(60)), slices.Clone(b[68:68+n])
		case Data:
			var ok bool
			if e.Offset, ok = parts[2].within(word(60), word(68)); !ok {
				return a.fail(ErrTruncated, where+60, e.Name, "%d bytes at %d of %d bytes of storage", word(68), word(60), parts[2].bytes)
			}
			e.Length = int64(word(68))
		case External:
			if from, to, err = inMetadata("path", 60); err != nil {
				return err
			}
			if e.Path = text[from:to]; word(76) > math.MaxInt64 || word(84) > math.MaxInt64-word(76) {
				return a.fail(ErrFormat, where+76, e.Name, "%d bytes at %d", word(84), word(76))
			}
			e.Offset, e.Length = int64(word(76)), int64(word(84))
		}
		if _, twice := a.index[e.Name]; twice {
			return a.fail(ErrFormat, where, e.Name, "the name occurs twice")
		}
		a.index[e.Name] = len(a.entries)
		a.entries = append(a.entries, e)
	}
	return nil
}
