package tensor

import "slices"

// KernelInfo is one row of the kernel table.
type KernelInfo struct {
	Op         Op
	Encoding   Encoding // of the weight, table or source; AnyEncoding: of every one that decodes
	Activation Encoding // of the other input: EncF32, A8, …; AnyEncoding: the operation has none to choose by
	Order      Order
	ISA        string // "portable", "avx2", …
	Runnable   bool   // on this machine, and with SKEEP_ISA
	Name       string
}

// AnyEncoding stands for every encoding in a row of the kernel table.
const AnyEncoding Encoding = 0xffff

// Kernels is the kernel table as data: all rows, best first within one selection, also those that this machine cannot
// run.
type Kernels []KernelInfo

// Find is the row that a selection takes here: the first runnable one for exactly this operation, encoding, activation
// and order, where a row for AnyEncoding takes each. It is the lookup that the C core makes at every call, for who decides
// something before there is one; whether the layout of an operand is accepted, the call says. activation is AnyEncoding
// for an operation that has none.
func (k Kernels) Find(op Op, encoding, activation Encoding, o Order) (KernelInfo, bool) {
	for i := range k {
		if k[i].serves(op, encoding) && k[i].Order == o && (k[i].Activation == activation || k[i].Activation == AnyEncoding) {
			return k[i], true
		}
	}
	return KernelInfo{}, false
}

// Orders are the orders that Find has an answer for, for an operation and encoding and one activation at least: best
// first, each once.
func (k Kernels) Orders(op Op, encoding Encoding) []Order {
	var all []Order
	for i := range k {
		if k[i].serves(op, encoding) && !slices.Contains(all, k[i].Order) {
			all = append(all, k[i].Order)
		}
	}
	return all
}

// serves reports whether the row runs here and is one of op for an encoding.
func (k *KernelInfo) serves(op Op, encoding Encoding) bool {
	return k.Runnable && k.Op == op && (k.Encoding == encoding || k.Encoding == AnyEncoding && encoding != AnyEncoding)
}
