// Package gguf reads GGUF model files of versions 1 to 3 and writes versions 2 and 3, in either byte order, as single
// files or split sets. It reads a header without the payload, with few reads and allocations. Headers are not trusted:
// a malformed file is an *Error that names the field or tensor, found in bounded time and memory. Files are written
// sequentially and get their names only when they are complete.
//
// Where readers of the format disagree, this package follows these rules:
//   - general.alignment is a power of two from 1 to 1 MiB, of any integer kind. If it is absent, the alignment is 32.
//   - an offset is a multiple of the alignment. Tensors may be stored in any order and with gaps between them. Two
//     tensors may share bytes only if they have the same range and type; the later one is then an alias.
//   - an extent may be zero; such a tensor has no bytes. A tensor has at most 4 dimensions; one without dimensions is a
//     scalar.
//   - every row is a whole number of blocks.
//   - keys, names and texts are byte strings and are kept unchanged. Names have any length but are not empty. No key
//     and no tensor name occurs twice in a file or split set.
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
	"github.com/skeep-project/skeep/go/internal/argument"
	"github.com/skeep-project/skeep/go/internal/shown"
)

// File holds the header of a GGUF file or split set and reads its payload. It implements arch.Header. The values and
// texts that it returns stay valid after Close and keep the header's bytes reachable. All methods except Close are safe
// for concurrent use.
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

// Part is one file of a split set. A single file has one part.
type Part struct {
	Path       string // "" if it was read without a name
	Size       int64  // bytes of the file
	Alignment  int64
	DataOffset int64 // where the tensor data begins; arch.TensorInfo.Offset counts from there

	r      io.ReaderAt
	closer io.Closer // nil when r is the caller's
	opened fs.FileInfo
}

// Verify returns an *Error that wraps ErrChanged if the file's length or modification time has changed since its header
// was read. It always returns nil for a File made by Read. Payload verifies after every read.
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
	return &Error{File: p.Path, Offset: -1, Reason: fmt.Sprintf("changed since its header was read: the size was %d bytes and is now %d", p.opened.Size(), now.Size()), Err: ErrChanged}
}

// OSFile is the part's open file, for mapping; nil if Open did not open it. It belongs to the File and is valid until
// Close.
func (p Part) OSFile() *os.File {
	f, _ := p.closer.(*os.File)
	return f
}

// Options configure how a file is read. The zero Options are the usual ones.
type Options struct {
	// Name is the file's name in File.Name and in messages. The default is the path; for Read it is empty.
	Name string
	// MaxHeader is the maximum size of a header in bytes; 0 is 64 MiB. Reading needs up to twice as much memory. A negative
	// maximum, or one over 2³²-1, is an error that wraps skeep.ErrArgument.
	MaxHeader int64
	// HeaderOnly accepts a file that is shorter than its header requires; File.Truncated reports it. Reading a missing
	// tensor is still an error.
	HeaderOnly bool
	// SinglePart reads one part of a split set on its own, instead of the set.
	SinglePart bool
}

// maxHeader is the limit in force, for the file of that name.
func (o *Options) maxHeader(name string) (int64, error) {
	switch {
	case o.MaxHeader == 0:
		return defaultMaxHeader, nil
	case o.MaxHeader < 0 || o.MaxHeader > math.MaxUint32:
		return 0, &Error{File: name, Offset: -1, Reason: fmt.Sprintf("Options.MaxHeader is %d, want 0 to %d", o.MaxHeader, uint32(math.MaxUint32)), Err: argument.Err}
	}
	return o.MaxHeader, nil
}

// Read reads the header of a file of size bytes from r. The File reads payload from r; the caller keeps ownership of r.
// A part of a split set is an error unless Options.SinglePart is set, since the other parts cannot be found. Errors are
// *Error.
func Read(r io.ReaderAt, size int64, o Options) (*File, error) {
	if r == nil {
		return nil, isNil("reader")
	}
	if size < 0 {
		return nil, &Error{File: o.Name, Offset: -1, Err: ErrTruncated, Reason: fmt.Sprintf("a size of %d bytes", size)}
	}
	limit, err := o.maxHeader(o.Name)
	if err != nil {
		return nil, err
	}
	src := source{r: r, size: size}
	p, err := parse(src.r, src.size, o.Name, limit, o.HeaderOnly)
	if err != nil {
		return nil, err
	}
	s, err := splitOf(p, o.Name)
	if err != nil {
		return nil, err
	}
	if s.count > 1 && !o.SinglePart {
		return nil, &Error{File: o.Name, Offset: -1, Field: keySplitCount, Err: ErrSplit,
			Reason: fmt.Sprintf("part %d of %d of a split set; open the set by its path instead", s.no+1, s.count)}
	}
	return newFile(o.Name, []*parsed{p}, []source{src})
}

// Open reads the header of the file at path. If that is a part of a split set, named NAME-00001-of-00003.gguf, it opens
// all parts. The File keeps the files open; the caller must Close it. Errors are *Error or wrap errors of the operating
// system.
func Open(path string, o Options) (*File, error) { return open(openOS, path, o) }

// OpenFS is Open within fsys. Its files must implement io.ReaderAt, as those of embed.FS, os.DirFS and fstest.MapFS do.
func OpenFS(fsys fs.FS, name string, o Options) (*File, error) {
	if fsys == nil {
		return nil, isNil("file system")
	}
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
		return source{}, fmt.Errorf("gguf: %w", shown.Error(err))
	} else if !st.Mode().IsRegular() {
		return source{}, irregular(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return source{}, fmt.Errorf("gguf: %w", shown.Error(err))
	}
	st, err := f.Stat()
	if err != nil {
		return source{}, errors.Join(fmt.Errorf("gguf: %w", shown.Error(err)), f.Close())
	}
	return source{path: path, r: f, size: st.Size(), closer: f, opened: st}, nil
}

func openFS(fsys fs.FS, name string) (source, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return source{}, fmt.Errorf("gguf: %w", shown.Error(err))
	}
	st, err := f.Stat()
	r, ok := f.(io.ReaderAt)
	switch {
	case err != nil:
		err = fmt.Errorf("gguf: %w", shown.Error(err))
	case !st.Mode().IsRegular():
		err = irregular(name)
	case !ok:
		err = &Error{File: name, Offset: -1, Reason: "the file does not support random access (io.ReaderAt)", Err: ErrUnsupported}
	default:
		return source{path: name, r: r, size: st.Size(), closer: f, opened: st}, nil
	}
	return source{}, errors.Join(err, f.Close())
}

func irregular(path string) error {
	return &Error{File: path, Offset: -1, Reason: "not a regular file", Err: ErrUnsupported}
}

// Holds reports whether path refers, under any name or link, to a file that f has open.
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

// Name is the path that was opened, or Options.Name.
func (f *File) Name() string { return f.name }

// Version is the version of the format: 1, 2 or 3.
func (f *File) Version() int { return int(f.version) }

// ByteOrder is the byte order of header and payload. The payload of a big-endian file can be read (ReadTensor converts
// it to little-endian), but must not be mapped for computation.
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

// Truncated returns an error if the file is shorter than its header requires, else nil. The error names the first
// incomplete tensor and the number of missing bytes. Only a File opened with Options.HeaderOnly can be truncated;
// otherwise opening such a file fails.
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
