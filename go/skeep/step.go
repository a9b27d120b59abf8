package skeep

import (
	"fmt"
	"runtime"

	"github.com/skeep-project/skeep/go/internal/core"
)

// Step groups operations: Begin, operations, End. It pins each storage and mark that the operations use once, until
// End, so closing a storage in between frees nothing that the step uses. After the first error, later operations of the
// step return that error and do nothing. Reset and Release, and CloseIn, release the pins of the step that they are
// given.
//
// With a nil *Step an operation pins its operands itself. The zero Step is closed; an operation that is given a closed
// step does nothing and returns an error that wraps ErrArgument. A Step must be used by one goroutine at a time.
type Step struct{ c *core.Step }

// NewStep makes a step that can pin the given number of storages and marks: at most 32768; 0 means 64. An operation
// that needs more returns an error that wraps ErrMemory. The caller must Close the step; one that becomes unreachable
// before that is reported as a Leak. Errors wrap ErrArgument or
// ErrMemory.
func NewStep(storages int) (*Step, error) {
	if storages < 0 || storages > core.MaxRoots {
		return nil, &Error{Op: "step", Err: ErrArgument, Detail: fmt.Sprintf("%d storages, want 0 to %d", storages, core.MaxRoots)}
	}
	c, st := core.NewStep(storages)
	if st.Code != core.OK {
		return nil, coreError("step", st, nil)
	}
	var pcs [24]uintptr
	stack := pcs[:runtime.Callers(2, pcs[:])]
	c.OnDrop(func() { Leak{Storage: "step", Created: stackText(stack)}.report() })
	return &Step{c}, nil
}

// Begin starts the step. Starting a running or closed step is an error that wraps ErrArgument.
func (s *Step) Begin() error { return coreError("begin", s.inside().Begin(), nil) }

// End releases all pins, checks that the mapped files have not changed, and returns the first error of the step. A
// changed file is an error that wraps ErrChanged; the results of the step are then invalid.
func (s *Step) End() error { return coreError("end", s.inside().End(), nil) }

// Close ends the step if it is running, and frees it. Further calls do nothing.
func (s *Step) Close() {
	s.inside().Destroy()
}

// inside is what the core knows the step by.
func (s *Step) inside() *core.Step {
	switch {
	case s == nil:
		return nil
	case s.c == nil:
		return new(core.Step)
	}
	return s.c
}
