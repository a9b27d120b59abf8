package tensor

import (
	"fmt"
	"iter"
)

// Op is an operation of the core. Numbers equal C's SKEEP_OP_*.
type Op uint32

// OpInfo is one row of the table of operations, generated from csrc/ops.def. Its slices must not be modified.
type OpInfo struct {
	ID       Op
	Name     string    // of the function in C without skeep_
	Operands []Operand // in the order that the operand number of a status counts; empty if C has only kernels, no function
	Params   []Param   // arguments that are not tensors
}

// Operand is a tensor that an operation reads or writes.
type Operand struct {
	Name     string // as in C
	Layout   OperandLayout
	Role     OperandRole
	Optional bool // may be absent
	List     bool // a list of one to three tensors; in a status, lists are counted after the single operands
}

// Param is an argument of an operation that is not a tensor. Type is its Go type: a type of this package, or a number.
type Param struct{ Name, Type string }

// OperandLayout says which layouts an operand may have. An operand with any other layout is refused.
type OperandLayout uint8

// The rules for layouts.
const (
	AnyLayout    OperandLayout = iota // every order and every stride
	RowsLayout                        // row-major, with the elements of the last axis contiguous
	EvenLayout                        // RowsLayout with the same distance between all consecutive rows, over all outer axes
	WeightLayout                      // rows of blocks in any order for which a kernel exists
)

// OperandRole says what an operation does with an operand.
type OperandRole uint8

// The roles.
const (
	OperandIn    OperandRole = iota
	OperandPlace             // an input that may be the same memory as the output (in place)
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
