package skeep

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/skeep-project/skeep/go/internal/argument"
	"github.com/skeep-project/skeep/go/internal/core"
)

// The sentinel errors. Every error of this package that concerns a storage is an *Error that wraps one of them, or a
// layout error of package tensor.
var (
	ErrClosed = errors.New("closed")
	ErrBusy   = errors.New("busy")
	// ErrArgument is also what functions of the other packages answer to a nil context, function, reader, writer or
	// header that they need.
	ErrArgument    error = argument.Err
	ErrBounds            = errors.New("out of bounds")
	ErrShape             = errors.New("shape does not fit")
	ErrFormat            = errors.New("format not accepted")
	ErrLayout            = errors.New("layout not accepted")
	ErrUnsupported       = errors.New("not implemented")
	ErrMemory            = errors.New("out of memory")
	ErrIO                = errors.New("system call failed")
	ErrFault             = errors.New("page of a mapped file could not be read")
	// ErrChanged means that the length or the modification time of the file differs. A writer that keeps the length and
	// restores the time is not detected. The status change time (ctime) is not compared, because links and renames
	// alter it.
	ErrChanged  = errors.New("mapped file has changed")
	ErrOverlap  = errors.New("output overlaps an input")
	ErrIndex    = errors.New("index out of range")
	ErrReadOnly = errors.New("read-only")
	ErrOverflow = errors.New("slab is full")
	ErrValue    = errors.New("element not finite, or too large for the format")
)

// ErrAbsent is wrapped, together with ErrArgument, when a required operand is the zero View.
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
	return "; created at " + strings.Join(strings.Fields(e.Created), " ")
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

func (s *Storage) errorOf(op, tensor string, err error, detail string) error {
	e := &Error{Op: op, Storage: s.owner().name, Tensor: tensor, Detail: detail, Err: err}
	if memoryDebug {
		e.Created = stackText(s.owner().stack())
	}
	return e
}

func (s *Storage) status(op string, st core.Status) error {
	if st.Code == core.OK {
		return nil
	}
	return statusError(op, s.owner().name, s.tensor, st, s.owner())
}

// statusError says in Go's words what the core answered. r may be nil.
func statusError(op, storage, tensor string, st core.Status, r *record) *Error {
	switch st {
	case core.NoPool, core.StepClosed: // whichever operand is at hand is not to blame
		return &Error{Op: op, Err: ErrArgument, Detail: st.String(), sentence: true}
	case core.PoolClosed:
		return &Error{Op: op, Storage: "pool", Err: ErrClosed}
	}
	e := &Error{Op: op, Storage: storage, Tensor: tensor, Err: sentinels[st.Code], Detail: st.String(), sentence: true}
	switch st.Code {
	case core.ErrClosed, core.ErrFault, core.ErrChanged, core.ErrReadOnly: // by number and address there, by name here
		e.Detail, e.sentence = "", false
	case core.ErrIO:
		e.Err, e.Detail, e.sentence = fmt.Errorf("%w: %w", ErrIO, syscall.Errno(st.Detail)), "", false
	}
	if e.Err == nil {
		e.Err = ErrArgument
	}
	if memoryDebug && r != nil {
		e.Created = stackText(r.stack())
	}
	return e
}
