package skeep

import (
	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// Kernels is the kernel table of the C core, best first within one selection, also rows that this
// machine cannot run: what a resolver decides by. The slice is the caller's.
func Kernels() []tensor.KernelInfo { return core.Kernels() }
