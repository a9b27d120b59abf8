// Package csrc is the C11 compute core. `go build` compiles the .c files here and CMake compiles the
// same ones; the package has no Go API and is imported for its effect by go/internal/core.
package csrc

// Debugging information of lines and functions alone (-g1): following variables through the kernels would take the
// compiler as long as all the rest.

// #cgo CFLAGS: -I${SRCDIR}/../include -std=c11 -O3 -g1 -fvisibility=hidden -pthread -Wall -Wextra -Wpedantic
// #cgo LDFLAGS: -lm -pthread
import "C"

import (
	"embed"

	_ "github.com/skeep-project/skeep/include" // the build cache must see edits of the headers
)

// The build cache does not see files in sub-folders or other endings by itself.
//
//go:embed *.def */*.h encodings/*/*.h
var sources embed.FS

var _ = sources
