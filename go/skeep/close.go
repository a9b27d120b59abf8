package skeep

import (
	"context"
	"errors"
	"fmt"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/ended"
)

// Close ends the storage and invalidates its views, without waiting; it may be called inside of a step that uses the
// storage. Bytes that the storage owns are freed now or, if they are in use, when the last pin is released. A second
// Close is ErrClosed.
func (s *Storage) Close() error { return s.CloseIn(nil) }

// CloseIn is Close within the caller's running step (or nil): it releases the step's pins on the storage now instead of
// at the end of the step.
func (s *Storage) CloseIn(step *Step) error {
	if s.parent == nil {
		return s.ended(core.Close(s.owner().handle, step.inside()))
	}
	if s.Closed() || s.closed.Swap(true) {
		return s.errorOf("close", s.tensor, ErrClosed, "")
	}
	return nil
}

// CloseContext is Close, followed by waiting until nobody uses the bytes any more and they are freed. If ctx ends
// first, it returns an error that wraps ErrBusy and the cause of ctx; the storage is closed nevertheless. Do not call
// it within a step that uses the storage: it would wait until ctx ends. If the storage was closed before, or by another
// goroutine at the same time, CloseContext waits too and then returns ErrClosed. An alias has no bytes to wait for. A nil ctx is ErrArgument, and nothing is closed.
func (s *Storage) CloseContext(ctx context.Context) error {
	if ctx == nil {
		return s.errorOf("close", s.tensor, ErrArgument, "the context is nil")
	}
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
		return s.errorOf("close", s.tensor, fmt.Errorf("%w: %w", ErrBusy, ended.Err(ctx)), fmt.Sprintf("%d uses remain", left))
	}
}

// TryClose is Close, except that it changes nothing and returns ErrBusy while the bytes are in use.
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
