package exec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// ErrNoStep is wrapped by the error of an op that is called outside of Begin and End.
var ErrNoStep = fmt.Errorf("%w: no step is running; call Begin first", skeep.ErrArgument)

// Error says which op of which layer failed, and why. Err is ErrNoStep, an *OperandError, or an error that wraps a
// *skeep.Error, which names the tensor and its storage (for a mapped file, the path). errors.Is finds the errors of
// package skeep: ErrClosed for a view that has ended, ErrFault and ErrChanged for a mapped file that was truncated or
// changed, ErrAbsent for a missing operand.
type Error struct {
	Op    string // the op that was called
	Layer int    // -1 outside of layers
	Err   error
}

func (e *Error) Error() string {
	cause := fmt.Sprint(e.Err)
	if of, ok := strings.CutPrefix(cause, "skeep: "); ok { // package and op have been named
		cause = strings.TrimPrefix(of, e.Op+": ")
	}
	if e.Layer < 0 {
		return fmt.Sprintf("exec: %s: %s", e.Op, cause)
	}
	return fmt.Sprintf("exec: layer %d: %s: %s", e.Layer, e.Op, cause)
}

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// OperandError says which required operand is absent, by its name in tensor.Ops. It wraps skeep.ErrAbsent.
type OperandError struct{ Name string }

func (e *OperandError) Error() string { return "operand " + e.Name + " is absent" }

// Unwrap returns skeep.ErrAbsent.
func (e *OperandError) Unwrap() error { return skeep.ErrAbsent }

func absent(operand string) error { return &OperandError{operand} }

// operands are the names of what each op is given, in the order in which done is told of them: those of the core's
// table, without the results that an op makes itself.
var operands = operandNames()

func operandNames() map[string][]string {
	names := map[string][]string{}
	for info := range tensor.Ops() {
		var given []string
		for _, o := range info.Operands {
			switch {
			case o.Role == tensor.OperandOut && !strings.HasSuffix(o.Name, "_cache"):
			case o.List:
				for i := range 3 {
					given = append(given, fmt.Sprintf("%s[%d]", o.Name, i))
				}
			default:
				given = append(given, o.Name)
			}
		}
		names[info.Name] = given
	}
	names["logits"] = names["matmul_t"] // in the core they are one
	return names
}

// fail keeps the first error of the step.
func (e *Eager) fail(op string, err error) {
	if !e.running && err != nil {
		err = ErrNoStep
	}
	if e.err == nil && err != nil {
		e.err = &Error{Op: op, Layer: e.layer, Err: err}
	}
}

// nameOf is the name of operand i of an op, "" if the op makes it.
func nameOf(op string, i int) string {
	if names := operands[op]; i >= 0 && i < len(names) {
		return names[i]
	}
	return ""
}

// refused keeps why the core refused an op on views, which are in the order of its function.
func (e *Eager) refused(op string, st core.Status, views ...*View) {
	name := nameOf(op, int(st.Operand))
	if name != "" && views[st.Operand].IsZero() {
		e.fail(op, absent(name))
		return
	}
	copies := make([]View, len(views)) // what is handed out goes to the heap, and the operands of each op would
	for i, v := range views {
		copies[i] = *v
	}
	err := inside.Error(op, st, copies)
	if cause := (*skeep.Error)(nil); errors.As(err, &cause) {
		if what, ok := strings.CutPrefix(cause.Detail, fmt.Sprintf("operand %d: ", st.Operand)); ok && name != "" {
			cause.Detail = "operand " + name + ": " + what
		}
		switch {
		case st.Code == core.ErrShape && op == "attend" && name == "k_cache" && st.Detail == 2 && copies[1].Shape().Rank == 4:
			cause.Detail = "operand k_cache: a position that a token attends to has been overwritten" + shapes(op, copies)
		case st.Code == core.ErrShape:
			cause.Detail += shapes(op, copies)
		}
	}
	e.fail(op, err)
}

// shapes tells those of all inputs: one of them does not fit another.
func shapes(op string, views []View) string {
	var all []string
	for i := range views {
		if name := nameOf(op, i); name != "" && !views[i].IsZero() {
			all = append(all, name+" "+views[i].Shape().String())
		}
	}
	return ": " + strings.Join(all, ", ")
}
