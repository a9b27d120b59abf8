package gguf

import (
	"errors"
	"fmt"
	"strings"

	"github.com/skeep-project/skeep/go/internal/argument"
	"github.com/skeep-project/skeep/go/internal/shown"
)

// The sentinel errors. Every error of this package about a file wraps one of them or an I/O error.
var (
	ErrFormat      = errors.New("not a valid GGUF file") // the bytes contradict the format or each other
	ErrTruncated   = errors.New("file too short")        // a part of the header or a tensor lies past the end of the file
	ErrUnsupported = errors.New("not supported")         // possibly valid, but this package cannot read it
	ErrLimit       = errors.New("limit exceeded")        // larger than any real file; see Options.MaxHeader
	ErrSplit       = errors.New("split set broken")      // a part is missing, foreign or misnamed
	ErrNotFound    = errors.New("no such tensor")
	ErrChanged     = errors.New("file changed since its header was read") // by its length or time of modification
	ErrInUse       = errors.New("file in use")                            // the file to be replaced is an input, or is open or mapped in this process
)

// Error says what is wrong with a file, and where. Err is a sentinel error of this package or an I/O error.
type Error struct {
	File   string // the file's name, "" when it has none
	Offset int64  // where in the file the problem was found; -1 if it is not in the header
	Field  string // header field or metadata key, or ""
	Tensor string // the tensor's name, or ""
	Reason string
	Err    error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("gguf: ")
	if e.File != "" && e.Offset < 0 && e.Tensor == "" && e.Field == "" { // the file itself is what is wrong
		return b.String() + shown.Name(e.File) + ": " + e.Reason
	}
	if e.Tensor != "" {
		fmt.Fprintf(&b, "tensor %s: ", quote(e.Tensor))
	}
	if e.Field != "" {
		field := e.Field
		if strings.ContainsFunc(field, func(r rune) bool { return r <= ' ' || r > '~' }) || len(field) > maxShown {
			field = quote(field)
		}
		b.WriteString(field + ": ")
	}
	b.WriteString(e.Reason)
	if e.Offset >= 0 {
		fmt.Fprintf(&b, ", byte %d", e.Offset)
		if e.File != "" {
			b.WriteString(" of " + shown.Name(e.File))
		}
	} else if e.File != "" {
		b.WriteString(" in " + shown.Name(e.File))
	}
	return b.String()
}

// Unwrap returns the sentinel or I/O error.
func (e *Error) Unwrap() error { return e.Err }

// isNil is the error for something that is nil; it wraps skeep.ErrArgument.
func isNil(what string) error {
	return &Error{Offset: -1, Reason: "the " + what + " is nil", Err: argument.Err}
}

// quote is a name of a file's as messages show it.
func quote(s string) string { return shown.Quoted(s, maxShown) }

// maxShown bounds what a message shows of a name.
const maxShown = 128
