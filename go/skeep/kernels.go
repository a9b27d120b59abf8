package skeep

import (
	"slices"
	"sync"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// Kernels is the kernel table of the C core, all rows, also those that this machine cannot run: what resolver.Resolve
// takes. The slice is the caller's.
func Kernels() tensor.Kernels { return slices.Clone(kernels()) }

// kernels is the table, which does not change while a process runs.
var kernels = sync.OnceValue(core.Kernels)

// Encodable reports whether a format has an encoder here. Those that lack one are decoded only.
func Encodable(f tensor.Format) bool {
	_, found := kernels().Find(tensor.OpEncode, f.Encoding, tensor.AnyEncoding, tensor.Order{})
	return found
}
