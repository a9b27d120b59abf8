package skeep

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/door"
)

// What can go wrong. Every error of this package that concerns a storage is an *Error that wraps one of
// them (or a layout error of package tensor).
var (
	ErrClosed      = errors.New("closed")
	ErrBusy        = errors.New("busy")
	ErrArgument    = errors.New("bad argument")
	ErrBounds      = errors.New("out of bounds")
	ErrShape       = errors.New("shape does not fit")
	ErrFormat      = errors.New("format not accepted")
	ErrLayout      = errors.New("layout not accepted")
	ErrUnsupported = errors.New("not implemented")
	ErrMemory      = errors.New("out of memory")
	ErrIO          = errors.New("system call failed")
	ErrFault       = errors.New("page of a mapped file could not be read")
	// ErrChanged is told by a file's length and time of modification: a writer that leaves the length and puts the time
	// back is not seen. The time of the last change of its status is not asked, since links and renames alter that.
	ErrChanged  = errors.New("mapped file has changed")
	ErrOverlap  = errors.New("output overlaps an input")
	ErrIndex    = errors.New("index out of range")
	ErrReadOnly = errors.New("read-only")
	ErrOverflow = errors.New("slab is full")
	ErrValue    = errors.New("element not finite, or too large for the format")
)

// ErrAbsent is wrapped, along with ErrArgument, by the error of an operation on a zero View that it needs.
var ErrAbsent = fmt.Errorf("%w: the view is absent", ErrArgument)

// Error says which operation failed on which storage and tensor.
type Error struct {
	Op      string // "get", "close", "materialize", …
	Storage string // name of the owner of the bytes
	Tensor  string // name of the tensor, or empty
	Detail  string // numbers, or empty
	Err     error  // one of the errors above, or a *tensor.LayoutError and the like
	Created string // the stack that made the storage, with SKEEP_MEMORY_DEBUG=1

	sentence bool // Detail says all that Err does
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "skeep: %s", e.Op)
	if e.Storage != "" || e.Tensor != "" {
		fmt.Fprintf(&b, ": storage %q", e.Storage)
	}
	if e.Tensor != "" {
		fmt.Fprintf(&b, ", tensor %q", e.Tensor)
	}
	if e.sentence {
		return b.String() + ": " + e.Detail + e.made()
	}
	cause := fmt.Sprint(e.Err)
	if of, ok := strings.CutPrefix(cause, "tensor: "); ok { // of layouts, with the op that has been named
		cause = strings.TrimPrefix(strings.TrimPrefix(of, e.Op+": "), e.Op+" ")
	}
	b.WriteString(": " + cause)
	if e.Detail != "" {
		fmt.Fprintf(&b, " (%s)", e.Detail)
	}
	return b.String() + e.made()
}

// made is Created in one line.
func (e *Error) made() string {
	if e.Created == "" {
		return ""
	}
	return "; made at " + strings.Join(strings.Fields(e.Created), " ")
}

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// memoryDebug is SKEEP_MEMORY_DEBUG.
var memoryDebug = os.Getenv("SKEEP_MEMORY_DEBUG") == "1"

// sentinels by code of the C core.
var sentinels = map[int32]error{
	core.ErrClosed:   ErrClosed,
	core.ErrBusy:     ErrBusy,
	core.ErrArgument: ErrArgument,
	core.ErrBounds:   ErrBounds,
	core.ErrShape:    ErrShape,
	core.ErrFormat:   ErrFormat,
	core.ErrLayout:   ErrLayout,
	core.ErrNoKernel: ErrUnsupported,
	core.ErrMemory:   ErrMemory,
	core.ErrIO:       ErrIO,
	core.ErrFault:    ErrFault,
	core.ErrChanged:  ErrChanged,
	core.ErrOverlap:  ErrOverlap,
	core.ErrIndex:    ErrIndex,
	core.ErrReadOnly: ErrReadOnly,
	core.ErrValue:    ErrValue,
}

// coreError is the error of an operation for what the core answered, nil when it was OK. It blames the operand that the
// status names, else the one whose bytes a fault happened at, else the storage that the status names by its number.
func coreError(op string, st core.Status, operands []View) error {
	if st.Code == core.OK {
		return nil
	}
	if i := int(st.Operand); i >= 0 && i < len(operands) {
		return operands[i].wrap(op, st)
	}
	for i := range operands {
		if operands[i].holds(st) {
			return operands[i].wrap(op, st)
		}
	}
	if r := recordOf(st); r != nil {
		return statusError(op, r.name, "", st, r)
	}
	return statusError(op, "", "", st, nil)
}

func init() {
	door.Open(&door.Inside[View, Pool, Step]{
		Pool:  (*Pool).inside,
		Step:  (*Step).inside,
		Error: coreError,
		ValueError: func(op string, st core.Status, from, into View) error {
			return into.fail(op, from.valueError(int64(st.Detail), into.desc.Format), "")
		},
	})
}

// stackText formats program counters for people, without this package's own frames on top.
func stackText(pcs []uintptr) string {
	var b strings.Builder
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if f.Function != "" && (b.Len() > 0 || !ownFrame(f)) {
			fmt.Fprintf(&b, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			return b.String()
		}
	}
}

func ownFrame(f runtime.Frame) bool {
	return strings.HasPrefix(f.Function, "github.com/skeep-project/skeep/go/skeep.") && !strings.HasSuffix(f.File, "_test.go")
}
