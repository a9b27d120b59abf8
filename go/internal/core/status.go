package core

/*
#cgo CFLAGS: -I${SRCDIR}/../../../include -I${SRCDIR}/../../../csrc -std=c11
#include "skeep.h"
*/
import "C"

import (
	"unsafe"

	_ "github.com/skeep-project/skeep/csrc" // the core itself, for the linker
)

// Status is the outcome of a call into the C core; the zero value is not one, see OK. It is an error when
// Code is not OK. Functions return it by value, so that no call allocates.
type Status struct {
	Code    int32  // OK or one of the Err constants
	Operand int32  // position of the view to blame in the operation's arguments, or -1
	Detail  uint64 // what it counts stands at the constants of include/skeep.h
}

// The codes, with the numbers of include/skeep.h.
const (
	OK          int32 = C.SKEEP_OK
	ErrClosed   int32 = C.SKEEP_ERR_CLOSED
	ErrBusy     int32 = C.SKEEP_ERR_BUSY
	ErrArgument int32 = C.SKEEP_ERR_ARGUMENT
	ErrBounds   int32 = C.SKEEP_ERR_BOUNDS
	ErrShape    int32 = C.SKEEP_ERR_SHAPE
	ErrFormat   int32 = C.SKEEP_ERR_FORMAT
	ErrLayout   int32 = C.SKEEP_ERR_LAYOUT
	ErrNoKernel int32 = C.SKEEP_ERR_NO_KERNEL
	ErrMemory   int32 = C.SKEEP_ERR_MEMORY
	ErrIO       int32 = C.SKEEP_ERR_IO
	ErrFault    int32 = C.SKEEP_ERR_FAULT
	ErrChanged  int32 = C.SKEEP_ERR_CHANGED
	ErrOverlap  int32 = C.SKEEP_ERR_OVERLAP
	ErrIndex    int32 = C.SKEEP_ERR_INDEX
	ErrReadOnly int32 = C.SKEEP_ERR_READONLY
	ErrValue    int32 = C.SKEEP_ERR_VALUE
)

func statusOf(s C.skeep_status) Status {
	return Status{int32(s.code), int32(s.operand), uint64(s.detail)}
}

// String is the C core's sentence for the status, with the names of storages as they are now.
func (s Status) String() string {
	switch s {
	case NoPool:
		return "there is no pool"
	case PoolClosed:
		return "the pool is closed"
	case StepClosed:
		return "the step is closed"
	}
	var text [512]byte // a name has at most 255
	c := C.skeep_status{code: C.int32_t(s.Code), operand: C.int32_t(s.Operand), detail: C.uint64_t(s.Detail)}
	n := C.skeep_status_text(c, (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text)))
	return string(text[:min(int(n), len(text)-1)])
}

// Error is String.
func (s Status) Error() string { return s.String() }

// Err is nil when the status is OK, else the status. It is the only place where an error is allocated.
func (s Status) Err() error {
	if s.Code == OK {
		return nil
	}
	return s
}

// ABIVersion is the version of the C interface: major in the upper 16 bits.
func ABIVersion() uint32 { return uint32(C.skeep_abi_version()) }
