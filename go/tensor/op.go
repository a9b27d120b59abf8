package tensor

import (
	"fmt"
	"iter"
)

// Op is an operation of the core. Numbers equal C's SKEEP_OP_*.
type Op uint32

// OpInfo is one row of the table of operations, generated from csrc/ops.def. Its slices must not be changed.
type OpInfo struct {
	ID       Op
	Name     string    // of the function in C without skeep_
	Operands []Operand // in the order of their positions in a status; none: only kernels, no function
	Params   []Param   // what the operation takes besides
}

// Operand is a tensor that an operation reads or writes.
type Operand struct {
	Name     string // as in C
	Layout   OperandLayout
	Role     OperandRole
	Optional bool // may be absent
	List     bool // stands for one to three tensors, which go by list behind the single ones
}

// Param is an operand of an operation that is no tensor: Type is its type in Go, of this package or a number.
type Param struct{ Name, Type string }

// OperandLayout says which layouts an operand may have. Those that it may not have are refused, never misread.
type OperandLayout uint8

// The rules for layouts.
const (
	AnyLayout    OperandLayout = iota // every order and stride
	RowsLayout                        // as a file holds it, the elements of the last axis one behind the other
	EvenLayout                        // RowsLayout, and from row to row one distance over all outer axes
	WeightLayout                      // rows of blocks in any order that has a kernel
)

// OperandRole says what an operation does with an operand.
type OperandRole uint8

// The roles.
const (
	OperandIn    OperandRole = iota
	OperandPlace             // an input that an output may be exactly
	OperandOut
)

// Ops lists the table in order of id.
func Ops() iter.Seq[OpInfo] {
	return func(yield func(OpInfo) bool) {
		for _, info := range ops {
			if !yield(info) {
				return
			}
		}
	}
}

// Info is the operation's row of the table; ok is false when there is none.
func (o Op) Info() (info OpInfo, ok bool) {
	if o < 1 || int(o) > len(ops) {
		return OpInfo{}, false
	}
	return ops[o-1], true
}

// String is the name in C, "op 99" when unknown.
func (o Op) String() string {
	if info, ok := o.Info(); ok {
		return info.Name
	}
	return fmt.Sprintf("op %d", uint32(o))
}
