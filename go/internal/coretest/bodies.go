package core

/*
#cgo CFLAGS: -I${SRCDIR}/../../../include -I${SRCDIR}/../../../csrc -std=c11
#include "internal.h"

// The kernel body of a row when the row is of that op and runs here, else NULL.
static void (*body_of(size_t row, uint32_t op))(void) {
  const struct skeep_kernel *k = skeep_kernel_row(row);
  return k && k->info.op == op && k->info.runnable ? k->body : NULL;
}
static int hook_decode(size_t row, const void *blocks, size_t count, void *out) {
  skeep_body_decode *body = (skeep_body_decode *)body_of(row, SKEEP_OP_DECODE);
  if (body) body(blocks, count, out);
  return body != NULL;
}
static int hook_encode(size_t row, const void *in, size_t count, void *blocks) {
  skeep_body_encode *body = (skeep_body_encode *)body_of(row, SKEEP_OP_ENCODE);
  if (body) body(in, count, blocks);
  return body != NULL;
}
static int hook_quantize_rows(size_t row, const void *in, size_t n, void *blocks) {
  skeep_body_quantize_rows *body = (skeep_body_quantize_rows *)body_of(row, SKEEP_OP_QUANTIZE_ROWS);
  if (body) body(in, n, blocks);
  return body != NULL;
}
static int hook_matmul_t(size_t row, const void *x, int64_t x_stride, const void *w, int64_t w_stride, void *y,
                         int64_t y_stride, size_t tokens, size_t rows, size_t n, void *scratch) {
  skeep_body_matmul_t *body = (skeep_body_matmul_t *)body_of(row, SKEEP_OP_MATMUL_T);
  if (body) body(&(struct skeep_matmul_tile){x, x_stride, w, w_stride, y, y_stride, tokens, rows, n, scratch});
  return body != NULL;
}
*/
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"

	_ "github.com/skeep-project/skeep/csrc"
)

// The functions of this file serve tests: they call the body of one row of the kernel table over raw
// memory, without any of the checks that operations make. A slice shorter than what the body reads or
// writes is a memory error; the lengths that a body needs are those that csrc/internal.h states.

// RunDecode decodes len(out) elements from blocks with row `row`, which must be a decode row that
// this machine runs. The number of blocks follows from len(out) and the row's encoding.
func RunDecode(row int, blocks []byte, out []float32) error {
	var info C.skeep_kernel_info
	if C.skeep_kernel_at(C.size_t(row), &info).code != C.SKEEP_OK {
		return hookError(row, "decode")
	}
	e := C.skeep_encoding_find(C.uint32_t(info.encoding))
	if e == nil || e.block_elements == 0 {
		return hookError(row, "decode")
	}
	count := len(out) / int(e.block_elements)
	if count*int(e.block_elements) != len(out) || count*int(e.block_bytes) > len(blocks) {
		return fmt.Errorf("core: %d elements are not whole blocks of %d bytes", len(out), len(blocks))
	}
	if C.hook_decode(C.size_t(row), unsafe.Pointer(unsafe.SliceData(blocks)), C.size_t(count),
		unsafe.Pointer(unsafe.SliceData(out))) == 0 {
		return hookError(row, "decode")
	}
	return nil
}

// RunEncode encodes in into blocks with an encode row; in holds whole blocks.
func RunEncode(row int, in []float32, blocks []byte) error {
	var info C.skeep_kernel_info
	if C.skeep_kernel_at(C.size_t(row), &info).code != C.SKEEP_OK {
		return hookError(row, "encode")
	}
	e := C.skeep_encoding_find(C.uint32_t(info.encoding))
	if e == nil || e.block_elements == 0 {
		return hookError(row, "encode")
	}
	count := len(in) / int(e.block_elements)
	if count*int(e.block_elements) != len(in) || count*int(e.block_bytes) > len(blocks) {
		return fmt.Errorf("core: %d elements are not whole blocks of %d bytes", len(in), len(blocks))
	}
	if C.hook_encode(C.size_t(row), unsafe.Pointer(unsafe.SliceData(in)), C.size_t(count),
		unsafe.Pointer(unsafe.SliceData(blocks))) == 0 {
		return hookError(row, "encode")
	}
	return nil
}

// RunQuantizeRows quantizes in into blocks with a quantize_rows row.
func RunQuantizeRows(row int, in []float32, blocks []byte) error {
	if need := (len(in) + 127) / 128 * 160; len(blocks) < need {
		return fmt.Errorf("core: %d bytes for %d elements, want %d", len(blocks), len(in), need)
	}
	if C.hook_quantize_rows(C.size_t(row), unsafe.Pointer(unsafe.SliceData(in)), C.size_t(len(in)),
		unsafe.Pointer(unsafe.SliceData(blocks))) == 0 {
		return hookError(row, "quantize_rows")
	}
	return nil
}

// MatMulTile is the argument of a matmul_t body: Tokens rows of X (F32 or A8), Rows rows of W, both
// strides in bytes, Y's in elements, N elements per row.
type MatMulTile struct {
	X       []byte
	XStride int
	W       []byte
	WStride int
	Y       []float32
	YStride int
	Tokens  int
	Rows    int
	N       int
}

// RunMatMulT computes one tile with a matmul_t row.
func RunMatMulT(row int, t MatMulTile) error {
	const size = C.SKEEP_MATMUL_SCRATCH
	scratch := make([]byte, size+64)
	offset := -uintptr(unsafe.Pointer(&scratch[0])) & 63
	if C.hook_matmul_t(C.size_t(row), unsafe.Pointer(unsafe.SliceData(t.X)), C.int64_t(t.XStride),
		unsafe.Pointer(unsafe.SliceData(t.W)), C.int64_t(t.WStride),
		unsafe.Pointer(unsafe.SliceData(t.Y)), C.int64_t(t.YStride), C.size_t(t.Tokens), C.size_t(t.Rows),
		C.size_t(t.N), unsafe.Pointer(&scratch[offset])) == 0 {
		return hookError(row, "matmul_t")
	}
	return nil
}

func hookError(row int, op string) error {
	return fmt.Errorf("core: row %d of the kernel table is not a %s row that runs here", row, op)
}

// GuardedBuffer is memory between two inaccessible pages, so that a test sees every access outside:
// the process stops at it. Not safe for concurrent Close.
type GuardedBuffer struct{ mapping, data []byte }

// NewGuardedBuffer maps at least size zeroed bytes between guard pages; Close unmaps them.
func NewGuardedBuffer(size int) (*GuardedBuffer, error) {
	page := syscall.Getpagesize()
	inner := (size + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, inner+2*page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("core: guarded buffer of %d bytes: %w", size, err)
	}
	for _, guard := range [][]byte{m[:page], m[page+inner:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			_ = syscall.Munmap(m)
			return nil, fmt.Errorf("core: guard page: %w", err)
		}
	}
	return &GuardedBuffer{m, m[page : page+inner : page+inner]}, nil
}

// Front is the n bytes right behind the front guard: reading one byte before them faults. Its address is
// a multiple of the page size.
func (b *GuardedBuffer) Front(n int) []byte { return b.data[:n:n] }

// Back is the n bytes right before the rear guard: reading one byte behind them faults. Its address is odd
// when n is.
func (b *GuardedBuffer) Back(n int) []byte {
	return b.data[len(b.data)-n:]
}

// Close unmaps the buffer; slices of it must not be used afterwards.
func (b *GuardedBuffer) Close() error { return syscall.Munmap(b.mapping) }
