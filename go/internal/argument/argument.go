// Package argument says that a function was given nothing where it needs something.
package argument

import (
	"errors"
	"fmt"
)

// Err is skeep.ErrArgument, for the packages that stand below that one.
var Err = errors.New("bad argument")

// Nil says that what a function needs is nil.
func Nil(function, what string) error {
	return fmt.Errorf("%s: %w: the %s is nil", function, Err, what)
}
