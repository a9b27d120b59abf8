// Package ended says how a context ended.
package ended

import (
	"context"
	"errors"
	"fmt"

	"github.com/skeep-project/skeep/go/internal/argument"
)

// Err is nil while ctx goes on, and else an error that wraps both ctx.Err and the cause that it was canceled with, so
// that errors.Is finds context.Canceled whoever canceled it and why. A nil context is argument.Err.
func Err(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("%w: the context is nil", argument.Err)
	}
	err := ctx.Err()
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
