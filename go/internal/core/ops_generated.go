// Code generated from csrc/ops.def by go generate ./go/tensor. DO NOT EDIT.

package core

// #include "skeep.h"
import "C"

import "github.com/skeep-project/skeep/go/tensor"

// The operations below are those of include/skeep.h, which states shapes, formats and errors. Each takes
// the pool, the running step (or nil), and its operands in C's order, nil for an absent one. The views are
// copied into the step's frame: nothing of them is kept and nothing is allocated. The caller keeps the
// storages reachable until the call returns.

// Convert is skeep_convert: copies x to y of the same shape and decodes it or converts its numbers on the way.
func Convert(p *Pool, s *Step, x, y *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_convert((*C.skeep_pool)(pool), s.ptr(), f.put(0, x), f.put(1, y))
	s.give(f)
	p.Release()
	return statusOf(status)
}

// Encode is skeep_encode: encodes x in the encoding of y, which must have an encode kernel: F32, F16, BF16 and most
// packed encodings have one.
func Encode(p *Pool, s *Step, x, y *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_encode((*C.skeep_pool)(pool), s.ptr(), f.put(0, x), f.put(1, y))
	s.give(f)
	p.Release()
	return statusOf(status)
}

// Prepack is skeep_prepack: copies the blocks of x to y, which has the same encoding and shape, in the block order of
// y.
func Prepack(p *Pool, s *Step, x, y *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_prepack((*C.skeep_pool)(pool), s.ptr(), f.put(0, x), f.put(1, y))
	s.give(f)
	p.Release()
	return statusOf(status)
}

// QuantizeRows is skeep_quantize_rows: quantizes the rows of x[T, n] F32 to y[T, n] A8.
func QuantizeRows(p *Pool, s *Step, x, y *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_quantize_rows((*C.skeep_pool)(pool), s.ptr(), f.put(0, x), f.put(1, y))
	s.give(f)
	p.Release()
	return statusOf(status)
}

// MatMulT is skeep_matmul_t: computes y[T, out] = x[T, in] * transpose(w[out, in]).
func MatMulT(p *Pool, s *Step, x, w, y *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_matmul_t((*C.skeep_pool)(pool), s.ptr(), f.put(0, x), f.put(1, w), f.put(2, y))
	s.give(f)
	p.Release()
	return statusOf(status)
}

// Embed is skeep_embed: computes y[T, n] = scale * table[ids[T], n].
func Embed(p *Pool, s *Step, table, ids *View, scale float32, y *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_embed((*C.skeep_pool)(pool), s.ptr(), f.put(0, table), f.put(1, ids), C.float(scale), f.put(2, y))
	s.give(f)
	p.Release()
	return statusOf(status)
}

// Norm is skeep_norm: computes s = x + before and y = s / sqrt(mean(s^2) + eps) * w + after along the last axis of x
// (RMS normalization with residual additions).
func Norm(p *Pool, s *Step, x, before, w, after *View, eps float32, sum, y *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_norm((*C.skeep_pool)(pool), s.ptr(), f.put(0, x), f.put(1, before), f.put(2, w), f.put(3, after), C.float(eps), f.put(4, sum), f.put(5, y))
	s.give(f)
	p.Release()
	return statusOf(status)
}

// Rope is skeep_rope: applies a rotary position embedding to x.
func Rope(p *Pool, s *Step, x, positions, factors *View, params tensor.RopeParams, y *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_rope((*C.skeep_pool)(pool), s.ptr(), f.put(0, x), f.put(1, positions), f.put(2, factors), C.skeep_rope_params{
		form:             C.uint32_t(params.Form),
		dims:             C.uint32_t(params.Dims),
		base:             C.float(params.Base),
		scale:            C.float(params.Scale),
		ext_factor:       C.float(params.ExtFactor),
		attn_factor:      C.float(params.AttnFactor),
		beta_fast:        C.float(params.BetaFast),
		beta_slow:        C.float(params.BetaSlow),
		original_context: C.uint32_t(params.OriginalContext),
	}, f.put(3, y))
	s.give(f)
	p.Release()
	return statusOf(status)
}

// KVStore is skeep_kv_store: stores k and v [T, kv_heads, head_dim] F32 in the caches [sequences, kv_heads, capacity,
// head_dim] (F32, F16 or BF16).
func KVStore(p *Pool, s *Step, k, v, positions, sequences, kCache, vCache *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_kv_store((*C.skeep_pool)(pool), s.ptr(), f.put(0, k), f.put(1, v), f.put(2, positions), f.put(3, sequences), f.put(4, kCache), f.put(5, vCache))
	s.give(f)
	p.Release()
	return statusOf(status)
}

// Attend is skeep_attend: computes attention over the caches: y[T, heads, head_dim] = softmax(q.K) V for q [T, heads,
// head_dim].
func Attend(p *Pool, s *Step, q, kCache, vCache, positions, sequences *View, params tensor.AttendParams, y *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_attend((*C.skeep_pool)(pool), s.ptr(), f.put(0, q), f.put(1, kCache), f.put(2, vCache), f.put(3, positions), f.put(4, sequences), C.skeep_attend_params{
		scale:   C.float(params.Scale),
		softcap: C.float(params.Softcap),
		window:  C.uint32_t(params.Window),
	}, f.put(5, y))
	s.give(f)
	p.Release()
	return statusOf(status)
}

// GLU is skeep_glu: computes y = act(gate) * up for each element.
func GLU(p *Pool, s *Step, gate, up *View, form tensor.GLUForm, y *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_glu((*C.skeep_pool)(pool), s.ptr(), f.put(0, gate), f.put(1, up), C.uint32_t(form), f.put(2, y))
	s.give(f)
	p.Release()
	return statusOf(status)
}

// Add is skeep_add: computes y = a + b.
func Add(p *Pool, s *Step, a, b, y *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_add((*C.skeep_pool)(pool), s.ptr(), f.put(0, a), f.put(1, b), f.put(2, y))
	s.give(f)
	p.Release()
	return statusOf(status)
}

// Mul is skeep_mul: computes y = a * b.
func Mul(p *Pool, s *Step, a, b, y *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_mul((*C.skeep_pool)(pool), s.ptr(), f.put(0, a), f.put(1, b), f.put(2, y))
	s.give(f)
	p.Release()
	return statusOf(status)
}

// Softmax is skeep_softmax: computes y = softmax(scale * x) along the last axis.
func Softmax(p *Pool, s *Step, x *View, scale float32, y *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_softmax((*C.skeep_pool)(pool), s.ptr(), f.put(0, x), C.float(scale), f.put(1, y))
	s.give(f)
	p.Release()
	return statusOf(status)
}

// Softcap is skeep_softcap: computes y = cap * tanh(x / cap) for each element.
func Softcap(p *Pool, s *Step, x *View, cap float32, y *View) Status {
	pool, st := p.Hold(s)
	if st.Code != OK {
		return st
	}
	f := s.take()
	status := C.skeep_softcap((*C.skeep_pool)(pool), s.ptr(), f.put(0, x), C.float(cap), f.put(1, y))
	s.give(f)
	p.Release()
	return statusOf(status)
}
