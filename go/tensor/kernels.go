package tensor

import "slices"

// KernelInfo is one row of the kernel table.
type KernelInfo struct {
	Op         Op
	Encoding   Encoding // of the weight, table or source; AnyEncoding: of every one that decodes
	Activation Encoding // of the other input: EncF32, A8, …; AnyEncoding if kernels are not selected by it
	Order      Order
	ISA        string // "portable", "avx2", …
	Runnable   bool   // on this machine, and with SKEEP_ISA
	Name       string
}

// AnyEncoding, in a row of the kernel table, stands for every encoding.
const AnyEncoding Encoding = 0xffff

// Kernels is the kernel table: all rows, including those that this machine cannot run. Rows that compete for one
// operation and operands are ordered best first.
type Kernels []KernelInfo

// Find returns the row that this machine would run: the first runnable row for this operation, encoding, activation and
// order. A row for AnyEncoding matches every encoding. The C core makes the same lookup at every call; only the call
// itself checks the layouts of operands. activation is AnyEncoding for an operation without one.
func (k Kernels) Find(op Op, encoding, activation Encoding, o Order) (KernelInfo, bool) {
	for i := range k {
		if k[i].serves(op, encoding) && k[i].Order == o && (k[i].Activation == activation || k[i].Activation == AnyEncoding) {
			return k[i], true
		}
	}
	return KernelInfo{}, false
}

// Orders lists the orders for which Find finds a kernel with at least one activation, best first and without
// duplicates.
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
