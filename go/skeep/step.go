package skeep

import (
	"fmt"

	"github.com/skeep-project/skeep/go/internal/core"
)

// Step groups operations: Begin, operations, End. Each storage and mark that they touch is pinned once, until the end: a
// close in between frees nothing that the step uses. The first error ends the step's work: later operations return it
// and do nothing. Reset, Release and CloseIn wait for the pins of others; those of a step that they are given they take back.
//
// A nil *Step stands for no step: an operation then pins for itself. The zero Step is closed. A Step belongs to one
// goroutine at a time.
type Step struct{ c *core.Step }

// NewStep makes a step that can pin so many storages and marks, 32768 at most; 0 is 64. One more than that is an error of
// the operation that wraps ErrMemory. Close frees the step. Errors wrap ErrArgument or ErrMemory.
func NewStep(storages int) (*Step, error) {
	if storages < 0 || storages > core.MaxRoots {
		return nil, &Error{Op: "step", Err: ErrArgument, Detail: fmt.Sprintf("%d storages, want 0 to %d", storages, core.MaxRoots)}
	}
	c, st := core.NewStep(storages)
	if st.Code != core.OK {
		return nil, coreError("step", st, nil)
	}
	return &Step{c}, nil
}

// Begin starts the step. While it runs already, and after Close, it is an error that wraps ErrArgument.
func (s *Step) Begin() error { return coreError("begin", s.inside().Begin(), nil) }

// End gives all pins back, asks whether the mapped files are still what they were, and returns the first error that an
// operation of the step has met. A changed file is an error that wraps ErrChanged, and the results are then worthless.
func (s *Step) End() error { return coreError("end", s.inside().End(), nil) }

// Close ends the step when it runs, and frees it. A second one does nothing.
func (s *Step) Close() {
	if s != nil {
		s.c.Destroy()
	}
}

// inside is what the core knows the step by.
func (s *Step) inside() *core.Step {
	if s == nil {
		return nil
	}
	return s.c
}
