package coretest

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
// Queries are dense rows of all heads; rows of the caches are dense.
static int hook_attend(size_t row, const void *q, const void *k, const void *v, size_t size, int64_t capacity, int64_t begin, int64_t end,
                       const int64_t *lo, const int64_t *hi, size_t tokens, size_t heads, size_t k_dim, size_t v_dim, float scale,
                       float softcap, float shrink, float *max_score, float *sum, float *acc, float *scratch) {
  skeep_body_attend *body = (skeep_body_attend *)body_of(row, SKEEP_OP_ATTEND);
  if (body)
    body(&(struct skeep_attend_tile){.q = q, .k = k, .v = v, .q_token = (int64_t)(heads * k_dim * 4), .q_head = (int64_t)(k_dim * 4),
      .k_slot = (int64_t)(k_dim * size), .v_slot = (int64_t)(v_dim * size), .capacity = capacity, .begin = begin, .end = end,
      .lo = lo, .hi = hi, .tokens = tokens, .heads = heads, .k_dim = k_dim, .v_dim = v_dim, .scale = scale, .softcap = softcap,
      .shrink = shrink, .max_score = max_score, .sum = sum, .acc = acc, .scratch = scratch});
  return body != NULL;
}
static size_t attend_scratch(size_t rows, size_t k_dim, size_t v_dim) { return skeep_attend_scratch(rows, k_dim, v_dim); }
*/
import "C"

import (
	"fmt"
	"math"
	"sync"
	"unsafe"

	_ "github.com/skeep-project/skeep/csrc"
)

// The functions of this file call the body of one row of the kernel table over raw memory, without any of the
// checks that operations make. A slice shorter than what the body reads or
// writes is a memory error; the lengths that a body needs are those that csrc/bodies.h states.

// RunDecode decodes len(out) elements from blocks with row `row`, which must be a decode row that
// this machine runs. The number of blocks follows from len(out) and the row's encoding.
func RunDecode(row int, blocks []byte, out []float32) error {
	count, err := wholeBlocks(row, "decode", len(out), len(blocks))
	if err != nil {
		return err
	}
	if C.hook_decode(C.size_t(row), unsafe.Pointer(unsafe.SliceData(blocks)), count,
		unsafe.Pointer(unsafe.SliceData(out))) == 0 {
		return hookError(row, "decode")
	}
	return nil
}

// RunEncode encodes in into blocks with an encode row; in holds whole blocks.
func RunEncode(row int, in []float32, blocks []byte) error {
	count, err := wholeBlocks(row, "encode", len(in), len(blocks))
	if err != nil {
		return err
	}
	if C.hook_encode(C.size_t(row), unsafe.Pointer(unsafe.SliceData(in)), count,
		unsafe.Pointer(unsafe.SliceData(blocks))) == 0 {
		return hookError(row, "encode")
	}
	return nil
}

// wholeBlocks is how many blocks of the row's encoding hold so many elements, when so many bytes suffice for them.
func wholeBlocks(row int, op string, elements, bytes int) (C.size_t, error) {
	var info C.skeep_kernel_info
	if C.skeep_kernel_at(C.size_t(row), &info).code != C.SKEEP_OK {
		return 0, hookError(row, op)
	}
	e := C.skeep_encoding_find(C.uint32_t(info.encoding))
	if e == nil || e.block_elements == 0 {
		return 0, hookError(row, op)
	}
	count := elements / int(e.block_elements)
	if count*int(e.block_elements) != elements || count*int(e.block_bytes) > bytes {
		return 0, fmt.Errorf("coretest: %d elements are not whole blocks of %d bytes", elements, bytes)
	}
	return C.size_t(count), nil
}

// RunQuantizeRows quantizes in into blocks with a quantize_rows row.
func RunQuantizeRows(row int, in []float32, blocks []byte) error {
	if need := (len(in) + 127) / 128 * 160; len(blocks) < need {
		return fmt.Errorf("coretest: %d bytes for %d elements, want %d", len(blocks), len(in), need)
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

// Scratch of products, used again: clearing it takes longer than a small product.
var scratches = sync.Pool{New: func() any { return new([C.SKEEP_MATMUL_SCRATCH + 64]byte) }}

// RunMatMulT computes one tile with a matmul_t row.
func RunMatMulT(row int, t MatMulTile) error {
	scratch := scratches.Get().(*[C.SKEEP_MATMUL_SCRATCH + 64]byte)
	defer scratches.Put(scratch)
	offset := -uintptr(unsafe.Pointer(&scratch[0])) & 63
	if C.hook_matmul_t(C.size_t(row), unsafe.Pointer(unsafe.SliceData(t.X)), C.int64_t(t.XStride),
		unsafe.Pointer(unsafe.SliceData(t.W)), C.int64_t(t.WStride),
		unsafe.Pointer(unsafe.SliceData(t.Y)), C.int64_t(t.YStride), C.size_t(t.Tokens), C.size_t(t.Rows),
		C.size_t(t.N), unsafe.Pointer(&scratch[offset])) == 0 {
		return hookError(row, "matmul_t")
	}
	return nil
}

// AttendTile is the argument of an attend body: as skeep_attend_tile, with Tokens times Heads dense query rows of KDim
// elements, and Capacity dense slots of the row's encoding, whose elements have Size bytes.
type AttendTile struct {
	Q                      []float32
	K, V                   []byte
	Size, KDim, VDim       int
	Capacity, Begin, End   int
	Lo, Hi                 []int64 // of each token
	Heads                  int
	Scale, Softcap, Shrink float32
}

// RunAttend computes one tile with an attend row. The result has the largest score, the sum of weights and the weighted
// values, round_up(VDim, 8) each, of all query rows.
func RunAttend(row int, t AttendTile) (maxScore, sum, acc []float32, err error) {
	rows := len(t.Lo) * t.Heads
	maxScore, sum, acc = make([]float32, rows), make([]float32, rows), make([]float32, rows*((t.VDim+7)/8*8))
	floats := int(C.attend_scratch(C.size_t(rows), C.size_t(t.KDim), C.size_t(t.VDim)))
	scratch := make([]float32, floats+32)
	for i := range scratch {
		scratch[i] = float32(math.NaN()) // nothing is read that was not written
	}
	from := -uintptr(unsafe.Pointer(&scratch[0])) & 63 / 4
	if C.hook_attend(C.size_t(row), unsafe.Pointer(&t.Q[0]), unsafe.Pointer(&t.K[0]), unsafe.Pointer(&t.V[0]), C.size_t(t.Size),
		C.int64_t(t.Capacity), C.int64_t(t.Begin), C.int64_t(t.End), (*C.int64_t)(&t.Lo[0]), (*C.int64_t)(&t.Hi[0]), C.size_t(len(t.Lo)),
		C.size_t(t.Heads), C.size_t(t.KDim), C.size_t(t.VDim), C.float(t.Scale), C.float(t.Softcap), C.float(t.Shrink),
		(*C.float)(&maxScore[0]), (*C.float)(&sum[0]), (*C.float)(&acc[0]), (*C.float)(&scratch[from])) == 0 {
		return nil, nil, nil, hookError(row, "attend")
	}
	for _, x := range scratch[int(from)+floats:] {
		if x == x {
			return nil, nil, nil, fmt.Errorf("coretest: row %d wrote behind its %d floats of scratch", row, floats)
		}
	}
	return maxScore, sum, acc, nil
}

func hookError(row int, op string) error {
	return fmt.Errorf("coretest: row %d of the kernel table is not a %s row that runs here", row, op)
}
