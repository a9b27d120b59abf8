package skeep

import (
	"context"
	"errors"
	"fmt"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/ended"
)

// Close ends the storage: it refuses every view from now on and returns, also inside of a step that uses it. When the
// storage owns its bytes they are freed here, or by whoever uses them last. A second close is ErrClosed.
func (s *Storage) Close() error { return s.CloseIn(nil) }

// CloseIn is Close within the caller's running step (or nil), which gives its own pins back here instead of at its end.
func (s *Storage) CloseIn(step *Step) error {
	if s.parent == nil {
		return s.ended(core.Close(s.owner().handle, step.inside()))
	}
	if s.Closed() || s.closed.Swap(true) {
		return s.errorOf("close", s.tensor, ErrClosed, "")
	}
	return nil
}

// CloseContext is Close that waits until nobody uses the bytes any more and they are freed. When ctx ends earlier it
// returns an error that wraps ErrBusy and ctx's cause; the storage is closed all the same. Within a step that uses the
// storage it waits in vain. When the storage was closed before, or by another goroutine at the same time, it waits
// just so and returns ErrClosed then. An alias has no bytes to wait for.
func (s *Storage) CloseContext(ctx context.Context) error {
	err := s.CloseIn(nil)
	if s.parent != nil || err != nil && !errors.Is(err, ErrClosed) {
		return err
	}
	gone := s.owner().gone
	select {
	case <-gone: // whatever ctx says
		return err
	default:
	}
	select {
	case <-gone:
		return err
	case <-ctx.Done():
		left, _ := core.Left(s.owner().handle)
		return s.errorOf("close", s.tensor, fmt.Errorf("%w: %w", ErrBusy, ended.Err(ctx)), fmt.Sprintf("%d uses are left", left))
	}
}

// TryClose is Close that changes nothing and returns ErrBusy when somebody uses the bytes.
func (s *Storage) TryClose() error {
	if s.parent != nil {
		return s.Close()
	}
	return s.ended(core.TryClose(s.owner().handle))
}

// ended is the end of every close of an owner. Which of several at once ends it is the core's word alone.
func (s *Storage) ended(st core.Status) error {
	switch {
	case s.r == nil || st.Code == core.ErrClosed:
		s.owner().closed.Store(true)
		return s.errorOf("close", s.tensor, ErrClosed, "")
	case st.Code == core.OK:
		s.owner().closed.Store(true)
		s.cleanup.Stop()
		s.r.end()
		return nil
	}
	return s.status("close", st)
}
