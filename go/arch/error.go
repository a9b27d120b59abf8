package arch

import (
	"errors"
	"fmt"
	"strings"

	"github.com/skeep-project/skeep/go/internal/shown"
)

// The sentinel errors that an *Error wraps.
var (
	ErrMissing     = errors.New("missing")       // a required key is absent
	ErrInvalid     = errors.New("invalid")       // a value of the wrong kind, out of range, or contradicting another
	ErrUnsupported = errors.New("not supported") // a variant of the architecture that this package does not describe
)

// Error says which metadata key or tensor of a file is missing, invalid or unsupported, and why.
type Error struct {
	File   string // Header.Name
	Key    string // metadata key, or ""
	Tensor string // tensor name, or ""
	Reason string
	Err    error // one of the sentinels above
}

func (e *Error) Error() string {
	what := shown.Name(e.Key)
	if e.Tensor != "" {
		what = fmt.Sprintf("tensor %q", e.Tensor)
	}
	return fmt.Sprintf("arch: %s: %s%s", what, e.Reason, in(e.File))
}

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// UnknownArchError says that general.architecture names an unsupported architecture. The header and payload of such a
// file can still be inspected.
type UnknownArchError struct {
	File  string
	Arch  string
	Known []string // sorted
}

func (e *UnknownArchError) Error() string {
	return fmt.Sprintf("arch: unknown architecture %.64q, want one of %s%s", e.Arch, strings.Join(e.Known, ", "), in(e.File))
}

// MissingTensorsError lists all required tensors that are not in the file.
type MissingTensorsError struct {
	File  string
	Names []string // in the order of the model
}

func (e *MissingTensorsError) Error() string {
	const limit = 12 // a model without layers lacks hundreds
	var names []string
	more := ""
	for i, name := range e.Names {
		if i == limit {
			more = fmt.Sprintf(" and %d more", len(e.Names)-limit)
			break
		}
		names = append(names, shown.Name(name))
	}
	return fmt.Sprintf("arch: missing tensors (%d): %s%s%s", len(e.Names), strings.Join(names, ", "), more, in(e.File))
}

func in(file string) string {
	if file == "" {
		return ""
	}
	return " in " + shown.Name(file)
}
