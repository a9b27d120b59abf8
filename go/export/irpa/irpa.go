// Package irpa reads and writes IREE parameter archives (.irpa): files of named blobs that can be mapped. All integers are
// little-endian and all structures are packed:
//
//	header    88 bytes: magic, version, links, and where the three segments are, counted from the header
//	entries   60 bytes each, and what its kind adds; each begins at a multiple of 16
//	metadata  names, metadata and paths, one behind the other
//	storage   the bytes of the entries of kind Data, aligned as each of them asks
//
// A file may hold several such archives, each of which links to the next. Archives are not trusted: what contradicts the
// format or reaches past the end of the file is an *Error that says where.
package irpa

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/skeep-project/skeep/go/internal/argument"
	"github.com/skeep-project/skeep/go/internal/shown"
)

// The sentinel errors. Every error of this package about an archive wraps one of them or an I/O error.
var (
	ErrFormat      = errors.New("not a valid parameter archive")                // the bytes contradict the format or each other
	ErrTruncated   = errors.New("archive too short")                            // something lies past the end of the file
	ErrUnsupported = errors.New("not supported")                                // possibly valid, but this package cannot read it
	ErrLimit       = errors.New("limit exceeded")                               // larger than any real archive
	ErrPayload     = errors.New("payload differs from the plan of the archive") // blobs in another order or of other sizes
)

// Error says what is wrong with an archive, and where. Err is a sentinel error of this package or an I/O error.
type Error struct {
	File   string // the file's name, "" when it has none
	Offset int64  // where in the file the problem was found; -1 if it is not at one place
	Entry  string // the entry's name, or ""
	Reason string
	Err    error
}

func (e *Error) Error() string {
	s := "irpa: "
	if e.Entry != "" {
		s += fmt.Sprintf("entry %s: ", shown.Quoted(e.Entry, 128))
	}
	s += e.Reason
	if e.Offset >= 0 {
		s += fmt.Sprintf(", byte %d", e.Offset)
	}
	if e.File != "" {
		s += " in " + shown.Name(e.File)
	}
	return s
}

// Unwrap returns the sentinel or I/O error.
func (e *Error) Unwrap() error { return e.Err }

// isNil is the error for something that is nil; it wraps skeep.ErrArgument.
func isNil(what string) error {
	return &Error{Offset: -1, Reason: "the " + what + " is nil", Err: argument.Err}
}

// Kind says where the bytes of an entry are.
type Kind uint32

// The kinds.
const (
	Skip     Kind = 0 // nowhere: an entry that was erased
	Splat    Kind = 1 // in Pattern, repeated
	Data     Kind = 2 // in the storage of the archive
	External Kind = 3 // in another file
)

// Entry is one named value.
type Entry struct {
	Name      string // any bytes; unique in a file, except those of Skip
	Kind      Kind
	Flags     uint64
	Metadata  []byte // what it means is for the writer to say; nil: none
	Alignment int64  // of the bytes of Data within the file: a power of two, 0 for whatever is usual (64)
	Offset    int64  // of Data: within the file, set by Layout and Read; of External: within the file Path
	Length    int64  // bytes of the value
	Pattern   []byte // of Splat: 1, 2, 4, 8 or 16 bytes, of which Length is a multiple
	Path      string // of External
}

// What the format fixes.
const (
	headerBytes = 88
	entryBytes  = 60
	entryAlign  = 16
	dataAlign   = 64   // of blobs that ask for nothing else, and of the storage segment
	fileAlign   = 4096 // of the size of a file
	maxAlign    = 1 << 30
	maxSize     = 1 << 62 // of what is written: no sum of sizes overflows
	maxPattern  = 16
	magic       = "IRPA"
)

// sizes are the bytes of the entries of each kind.
var sizes = map[Kind]int{Skip: entryBytes, Splat: entryBytes + 8 + maxPattern + 1, Data: entryBytes + 16, External: entryBytes + 32}

// up is n rounded up to a multiple of align, a power of two.
func up(n, align int64) int64 { return (n + align - 1) &^ (align - 1) }

// little reads and writes all integers.
var little = binary.LittleEndian

// splat is the bytes of a repeated pattern.
type splat struct{ pattern []byte }

// ReadAt implements io.ReaderAt without an end.
func (s splat) ReadAt(b []byte, offset int64) (int, error) {
	n := int64(len(s.pattern))
	for i := range b {
		b[i] = s.pattern[(offset+int64(i))%n]
	}
	return len(b), nil
}

var _ io.ReaderAt = splat{}
