package core

/*
#include "internal.h"

typedef struct { skeep_status status; double value; } got;
static got get(const skeep_view *v, int64_t a, int64_t b, int64_t c, int64_t d) {
  got g = {0};
  g.status = skeep_get(v, (const int64_t[]){a, b, c, d}, &g.value);
  return g;
}
typedef struct { skeep_status status; int64_t value; } got_i64;
static got_i64 get_i64(const skeep_view *v, int64_t a, int64_t b, int64_t c, int64_t d) {
  got_i64 g = {0};
  g.status = skeep_get_i64(v, (const int64_t[]){a, b, c, d}, &g.value);
  return g;
}
// The operands of a project stand side by side in a frame: x, then w, bias and y of each weight in groups of
// count; bit i of present says that operand i is there.
static skeep_status project(skeep_pool *pool, skeep_step *step, const skeep_view *frame, uint32_t count,
                            uint32_t present) {
  const skeep_view *v[10] = {0};
  for (uint32_t i = 0; i <= 3 * count; i++) v[i] = present >> i & 1 ? &frame[i] : NULL;
  return skeep_project(pool, step, v[0], count, v + 1, v + 1 + count, v + 1 + 2 * count);
}
*/
import "C"

import "unsafe"

// Check is everything an operation checks of one operand.
func Check(v *View) Status {
	f := (*Step)(nil).take()
	st := statusOf(C.skeep_view_check(f.put(0, v)))
	(*Step)(nil).give(f)
	return st
}

// Get is the decoded logical value at an index, one number per axis.
func Get(v *View, index []int64) (float64, Status) {
	i, ok := index4(v, index)
	if !ok {
		return 0, Status{Code: ErrArgument, Operand: -1, Detail: 1}
	}
	f := (*Step)(nil).take()
	g := C.get(f.put(0, v), i[0], i[1], i[2], i[3])
	(*Step)(nil).give(f)
	return float64(g.value), statusOf(g.status)
}

// GetInt64 is Get for integer formats.
func GetInt64(v *View, index []int64) (int64, Status) {
	i, ok := index4(v, index)
	if !ok {
		return 0, Status{Code: ErrArgument, Operand: -1, Detail: 1}
	}
	f := (*Step)(nil).take()
	g := C.get_i64(f.put(0, v), i[0], i[1], i[2], i[3])
	(*Step)(nil).give(f)
	return int64(g.value), statusOf(g.status)
}

// GetAll is Get of every element in logical order, rounded to float32, checked and verified once for all of them.
// len(values) is their number.
func GetAll(v *View, values []float32) Status {
	f := (*Step)(nil).take()
	st := statusOf(C.skeep_get_all(f.put(0, v), (*C.float)(unsafe.SliceData(values))))
	(*Step)(nil).give(f)
	return st
}

func index4(v *View, index []int64) (i [4]C.int64_t, ok bool) {
	if v == nil || len(index) != int(v.Layout.Rank) || len(index) > len(i) {
		return i, false
	}
	for a, n := range index {
		i[a] = C.int64_t(n)
	}
	return i, true
}

// ReferenceMatMulT is y = x · wᵀ through Get in float64, and in magnitude (or nil) the sums of |terms|.
func ReferenceMatMulT(x, w, y, magnitude *View) Status {
	f := (*Step)(nil).take()
	st := statusOf(C.skeep_reference_matmul_t(f.put(0, x), f.put(1, w), f.put(2, y), f.put(3, magnitude)))
	(*Step)(nil).give(f)
	return st
}

// Project is y[i] = x · w[i]ᵀ + bias[i] for i < n, 1 to 3, in one region. A bias may be nil. Operand positions of
// the status: x = 0, w = 1…n, bias = n+1…2n, y = 2n+1…3n.
func Project(p *Pool, s *Step, x *View, n int, w, bias, y *[3]*View) Status {
	if n < 1 || n > len(w) {
		return Status{Code: ErrArgument, Operand: -1, Detail: 3}
	}
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	var present C.uint32_t
	put := func(i int, v *View) {
		if f.put(i, v) != nil {
			present |= 1 << i
		}
	}
	put(0, x)
	for i := range n {
		put(1+i, w[i])
		put(1+n+i, bias[i])
		put(1+2*n+i, y[i])
	}
	status := C.project((*C.skeep_pool)(pool), s.ptr(), (*C.skeep_view)(unsafe.Pointer(f)), C.uint32_t(n), present)
	s.give(f)
	p.Release()
	return statusOf(status)
}
