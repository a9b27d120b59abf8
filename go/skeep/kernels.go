package skeep

import (
	"slices"
	"sync"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// Kernels returns the kernel table of the C core, as resolver.Resolve takes it: all rows, including those that this
// machine cannot run. The caller owns the slice.
func Kernels() tensor.Kernels { return slices.Clone(kernels()) }

// kernels is the table, which does not change while a process runs.
var kernels = sync.OnceValue(core.Kernels)

// Encodable reports whether skeep can encode into a format. Other formats can only be decoded.
func Encodable(f tensor.Format) bool {
	_, found := kernels().Find(tensor.OpEncode, f.Encoding, tensor.AnyEncoding, tensor.Order{})
	return found
}

// Processor is the family of this machine's processor, as resolver.Request takes it: "unknown" for families for which
// nothing was measured.
func Processor() string { return core.MachineInForce().Processor }
