package core

/*
#include "skeep.h"

// The operands of one selection stand side by side in a frame; bit i of present says that operand i is there.
static skeep_status selected(uint32_t op, const skeep_view *frame, uint32_t count, uint32_t present, uint32_t *row) {
  const skeep_view *v[16];
  for (uint32_t i = 0; i < count && i < 16; i++) v[i] = present >> i & 1 ? &frame[i] : NULL;
  return skeep_select(op, v, count, row);
}
typedef struct { skeep_status status; uint32_t row; } chosen;
static chosen choose(uint32_t op, const skeep_view *frame, uint32_t count, uint32_t present) {
  chosen c = {0};
  c.status = selected(op, frame, count, present, &c.row);
  return c;
}
static skeep_kernel_info kernel_at(size_t row) {
  skeep_kernel_info k = {0};
  (void)skeep_kernel_at(row, &k);
  return k;
}
static skeep_encoding_info encoding_at(size_t row) {
  skeep_encoding_info e = {0};
  (void)skeep_encoding_at(row, &e);
  return e;
}
*/
import "C"

import (
	"unsafe"

	"github.com/skeep-project/skeep/go/tensor"
)

// Select is the row of the kernel table that op would run on these operands, nil for an absent one, or why
// there is none. It reads no payload. At most 16 operands.
func Select(op tensor.Op, operands []*View) (row int, st Status) {
	if len(operands) > maxOperands {
		return 0, Status{Code: ErrArgument, Operand: -1, Detail: 2}
	}
	f := (*Step)(nil).take()
	var present C.uint32_t
	for i, v := range operands {
		if f.put(i, v) != nil {
			present |= 1 << i
		}
	}
	c := C.choose(C.uint32_t(op), (*C.skeep_view)(unsafe.Pointer(f)), C.uint32_t(len(operands)), present)
	(*Step)(nil).give(f)
	return int(c.row), statusOf(c.status)
}

// Kernels is the kernel table: all rows, best first within one selection, also those that this machine
// cannot run. The slice is the caller's.
func Kernels() tensor.Kernels {
	rows := make(tensor.Kernels, C.skeep_kernel_count())
	for i := range rows {
		k := C.kernel_at(C.size_t(i))
		rows[i] = tensor.KernelInfo{
			Op:         tensor.Op(k.op),
			Encoding:   tensor.Encoding(k.encoding),
			Activation: tensor.Encoding(k.activation),
			Order: tensor.Order{
				Family: tensor.Family(k.order.family), Panel: uint8(k.order.panel),
				Interleave: uint8(k.order.interleave), Version: uint8(k.order.version),
			},
			ISA:      C.GoString(C.skeep_isa_name(k.isa)),
			Runnable: k.runnable != 0,
			Name:     C.GoString(k.name),
		}
	}
	return rows
}

// Encodings is the encoding table of the C core. The slice is the caller's.
func Encodings() []tensor.EncodingInfo {
	rows := make([]tensor.EncodingInfo, C.skeep_encoding_count())
	for i := range rows {
		e := C.encoding_at(C.size_t(i))
		rows[i] = tensor.EncodingInfo{
			ID: tensor.Encoding(e.id), Name: C.GoString(e.name), DType: tensor.DType(e.dtype),
			BlockElements: int(e.block_elements), BlockBytes: int(e.block_bytes),
			Retired:    e.flags&C.SKEEP_ENC_FLAG_RETIRED != 0,
			Activation: e.flags&C.SKEEP_ENC_FLAG_ACTIVATION != 0,
			Integer:    e.flags&C.SKEEP_ENC_FLAG_INTEGER != 0,
		}
	}
	return rows
}

// ISA is the instruction set in force: "portable", "avx2", "avx512" or "neon".
func ISA() string { return C.GoString(C.skeep_isa_name(C.skeep_isa())) }
