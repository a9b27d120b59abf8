// Package gguf reads and writes GGUF model files: versions 1 to 3 (written are 2 and 3), either byte order,
// split sets. It reads headers without their payload, in few reads and with few allocations, and it trusts
// no byte of them: every malformed file is an *Error that names the field or tensor, in bounded time and
// memory. It writes from front to back, and files appear under their names when they are complete.
//
// Where readers of the format disagree, this one decides:
//   - general.alignment is a power of two from 1 to 1 MiB, of any integer kind; absent means 32.
//   - an offset is a multiple of the alignment. Tensors may stand in any order and with holes between
//     them; two may share bytes only with the same range and type, and then one is an alias.
//   - an extent may be zero; such a tensor has no bytes. At most 4 dimensions; none is a scalar.
//   - every row is a whole number of blocks.
//   - keys, names and texts are bytes, kept as they are. Names are of any length but not empty, and
//     neither a key nor a tensor occurs twice, in a split set neither.
//   - a tensor of a type that is unknown, or whose layout is retired, is listed with Bytes = -1;
//     reading it is an error.
//   - a boolean is a byte of 0 or 1.
package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"slices"

	"github.com/skeep-project/skeep/go/arch"
)

// File is the header of a GGUF file or of a whole split set, and access to its payload. It implements
// arch.Header. Values and texts that it hands out stay valid after Close and keep the header's bytes
// reachable. Safe for concurrent use, but for Close.
type File struct {
	name      string
	parts     []Part
	version   uint32
	order     binary.ByteOrder
	keys      []string
	values    map[string]*value
	tensors   []arch.TensorInfo
	index     map[string]int
	truncated error
}

var _ arch.Header = (*File)(nil)

// Part is one file of a split set; a file that is no split set has one.
type Part struct {
	Path       string // "" when it was read without a name
	Size       int64  // bytes of the file
	Alignment  int64
	DataOffset int64 // byte that the tensor data begins at; arch.TensorInfo.Offset counts from there

	r      io.ReaderAt
	closer io.Closer // nil when r is the caller's
	opened fs.FileInfo
}

// Verify returns an *Error that wraps ErrChanged when the file is no longer as long, or as old, as when its header was
// read. Of what Read was given nothing can be told: nil. Payload asks after every read.
func (p Part) Verify() error {
	file, ok := p.closer.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return nil
	}
	now, err := file.Stat()
	if err != nil {
		return &Error{File: p.Path, Offset: -1, Reason: err.Error(), Err: err}
	}
	if now.Size() == p.opened.Size() && now.ModTime().Equal(p.opened.ModTime()) {
		return nil
	}
	return &Error{File: p.Path, Offset: -1, Reason: fmt.Sprintf("changed since its header was read: %d bytes then, %d now", p.opened.Size(), now.Size()), Err: ErrChanged}
}

// OSFile is the part's open file, for mapping; nil when it was not opened by Open. It belongs to the
// File and is valid until Close.
func (p Part) OSFile() *os.File {
	f, _ := p.closer.(*os.File)
	return f
}

// Options say how a file is read. The zero Options are the usual ones.
type Options struct {
	// Name is what File.Name returns, and for Read what messages call the file. Otherwise Open takes the path and Read
	// has none.
	Name string
	// MaxHeader is how many bytes a header may have, 2³²-1 at most; 0 is 64 MiB. Reading takes up to twice as much memory.
	MaxHeader int64
	// HeaderOnly accepts a file that is shorter than its header says: File.Truncated then tells. Reading a tensor that is
	// not there remains an error.
	HeaderOnly bool
	// SinglePart reads one part of a split set on its own, instead of the set.
	SinglePart bool
}

// maxHeader is the limit in force.
func (o *Options) maxHeader() int64 {
	if o.MaxHeader == 0 {
		return defaultMaxHeader
	}
	return min(max(o.MaxHeader, 0), math.MaxUint32)
}

// Read reads the header of the file of size bytes that r holds. The File reads payload from r, which
// stays the caller's. A part of a split set is an error without Options.SinglePart, for its siblings are out of
// reach. Errors are *Error.
func Read(r io.ReaderAt, size int64, o Options) (*File, error) {
	src := source{r: r, size: size}
	p, err := parse(src.r, src.size, o.Name, o.maxHeader(), o.HeaderOnly)
	if err != nil {
		return nil, err
	}
	s, err := splitOf(p, o.Name)
	if err != nil {
		return nil, err
	}
	if s.count > 1 && !o.SinglePart {
		return nil, &Error{File: o.Name, Offset: -1, Field: keySplitCount, Err: ErrSplit,
			Reason: fmt.Sprintf("part %d of %d of a split set: open the set by its path", s.no+1, s.count)}
	}
	return newFile(o.Name, []*parsed{p}, []source{src})
}

// Open reads the header of the file at path, and of all its siblings when it is one part of a split set
// named NAME-00001-of-00003.gguf. The result holds the files open: Close it. Errors are *Error, or wrap
// the operating system's.
func Open(path string, o Options) (*File, error) { return open(openOS, path, o) }

// OpenFS is Open within a file system, whose files must be io.ReaderAts, as those of embed.FS, os.DirFS
// and fstest.MapFS are.
func OpenFS(fsys fs.FS, name string, o Options) (*File, error) {
	return open(func(name string) (source, error) { return openFS(fsys, name) }, name, o)
}

// source is an open file.
type source struct {
	path   string
	r      io.ReaderAt
	size   int64
	closer io.Closer
	opened fs.FileInfo
}

func openOS(path string) (source, error) {
	// Asked before it is opened: opening a pipe would wait for its writer.
	if st, err := os.Stat(path); err != nil {
		return source{}, fmt.Errorf("gguf: %w", err)
	} else if !st.Mode().IsRegular() {
		return source{}, irregular(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return source{}, fmt.Errorf("gguf: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		return source{}, errors.Join(fmt.Errorf("gguf: %w", err), f.Close())
	}
	return source{path: path, r: f, size: st.Size(), closer: f, opened: st}, nil
}

func openFS(fsys fs.FS, name string) (source, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return source{}, fmt.Errorf("gguf: %w", err)
	}
	st, err := f.Stat()
	r, ok := f.(io.ReaderAt)
	switch {
	case err != nil:
		err = fmt.Errorf("gguf: %w", err)
	case !st.Mode().IsRegular():
		err = irregular(name)
	case !ok:
		err = &Error{File: name, Offset: -1, Reason: "the file system gives no random access (io.ReaderAt)", Err: ErrUnsupported}
	default:
		return source{path: name, r: r, size: st.Size(), closer: f, opened: st}, nil
	}
	return source{}, errors.Join(err, f.Close())
}

func irregular(path string) error {
	return &Error{File: path, Offset: -1, Reason: "not a regular file", Err: ErrUnsupported}
}

// Holds reports whether path is, through whatever name or link, a file that f has open.
func (f *File) Holds(path string) bool {
	other, err := os.Stat(path)
	if err != nil {
		return false
	}
	for _, p := range f.Parts() {
		file := p.OSFile() // its path may be another file's by now, or one within a file system
		if file == nil {
			continue
		}
		if own, err := file.Stat(); err == nil && os.SameFile(own, other) {
			return true
		}
	}
	return false
}

// Name is the path that was opened, or what WithName set.
func (f *File) Name() string { return f.name }

// Version is the version of the format: 1, 2 or 3.
func (f *File) Version() int { return int(f.version) }

// ByteOrder is the order of header and payload. Payload of a big-endian file is not what a little-endian
// machine computes with: it can be read (ReadTensor converts), but must not be mapped.
func (f *File) ByteOrder() binary.ByteOrder { return f.order }

// Parts lists the files, in order: one, or those of a split set.
func (f *File) Parts() []Part { return slices.Clone(f.parts) }

// Keys yields the metadata keys in file order.
func (f *File) Keys() iter.Seq[string] { return slices.Values(f.keys) }

// Value returns the metadata value of key. It does not allocate.
func (f *File) Value(key string) (arch.Value, bool) {
	v, ok := f.values[key]
	if !ok {
		return nil, false
	}
	return v, true
}

// Tensors lists the tensors in file order, part after part. The slice is not to be modified.
func (f *File) Tensors() []arch.TensorInfo { return f.tensors }

// Tensor finds a tensor by its name.
func (f *File) Tensor(name string) (t arch.TensorInfo, ok bool) {
	i, ok := f.index[name]
	if !ok {
		return arch.TensorInfo{}, false
	}
	return f.tensors[i], true
}

// Truncated is the error of a file that is shorter than its header says, else nil. It names the first
// tensor that is not whole and the bytes missing. Never set without HeaderOnly: there it fails the open.
func (f *File) Truncated() error { return f.truncated }

// Close closes the files that Open or OpenFS opened. No other method may run at the same time; later
// reads of payload fail, the header stays usable.
func (f *File) Close() error {
	var err error
	for i := range f.parts {
		if c := f.parts[i].closer; c != nil {
			err = errors.Join(err, c.Close())
			f.parts[i].closer = nil
		}
		f.parts[i].r = closed{}
	}
	return err
}

// closed is the payload of a closed file.
type closed struct{}

func (closed) ReadAt([]byte, int64) (int, error) { return 0, fs.ErrClosed }
