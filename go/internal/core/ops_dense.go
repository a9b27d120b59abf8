package core

// #include "skeep.h"
import "C"

// RopeParams are the constants of a rotary embedding; fields as in C's skeep_rope_params.
type RopeParams struct {
	Form               uint32 // 0: pairs (2i, 2i+1); 1: pairs (i, i+dims/2)
	Dims               uint32
	Base, Scale        float32
	ExtFactor          float32
	AttnFactor         float32
	BetaFast, BetaSlow float32
	OriginalContext    uint32
}

// AttendParams are the constants of an attention; fields as in C's skeep_attend_params.
type AttendParams struct {
	Scale, Softcap float32
	Window         uint32
}

// Norm is sum = x + before; y = sum/√(mean(sum²)+eps)·w + after. before, after and sum may be nil.
func Norm(p *Pool, s *Step, x, before, w, after *View, eps float32, sum, y *View) Status {
	return run(p, s, func(pool *C.skeep_pool, step *C.skeep_step, f *frame) C.skeep_status {
		return C.skeep_norm(pool, step, f.put(0, x), f.put(1, before), f.put(2, w), f.put(3, after),
			C.float(eps), f.put(4, sum), f.put(5, y))
	})
}

// Rope is y = x rotated by its positions. factors may be nil.
func Rope(p *Pool, s *Step, x, positions, factors *View, params RopeParams, y *View) Status {
	return run(p, s, func(pool *C.skeep_pool, step *C.skeep_step, f *frame) C.skeep_status {
		return C.skeep_rope(pool, step, f.put(0, x), f.put(1, positions), f.put(2, factors),
			C.skeep_rope_params{
				form: C.uint32_t(params.Form), dims: C.uint32_t(params.Dims), base: C.float(params.Base),
				scale: C.float(params.Scale), ext_factor: C.float(params.ExtFactor),
				attn_factor: C.float(params.AttnFactor), beta_fast: C.float(params.BetaFast),
				beta_slow: C.float(params.BetaSlow), original_context: C.uint32_t(params.OriginalContext),
			}, f.put(3, y))
	})
}

// KVStore stores k and v at their positions of the caches. sequences may be nil.
func KVStore(p *Pool, s *Step, k, v, positions, sequences, kCache, vCache *View) Status {
	return run(p, s, func(pool *C.skeep_pool, step *C.skeep_step, f *frame) C.skeep_status {
		return C.skeep_kv_store(pool, step, f.put(0, k), f.put(1, v), f.put(2, positions),
			f.put(3, sequences), f.put(4, kCache), f.put(5, vCache))
	})
}

// Attend is y = softmax(scale·q·Kᵀ + mask)·V over the caches. sequences may be nil.
func Attend(p *Pool, s *Step, q, kCache, vCache, positions, sequences *View, params AttendParams, y *View) Status {
	return run(p, s, func(pool *C.skeep_pool, step *C.skeep_step, f *frame) C.skeep_status {
		return C.skeep_attend(pool, step, f.put(0, q), f.put(1, kCache), f.put(2, vCache),
			f.put(3, positions), f.put(4, sequences), C.skeep_attend_params{
				scale: C.float(params.Scale), softcap: C.float(params.Softcap), window: C.uint32_t(params.Window),
			}, f.put(5, y))
	})
}

// GLU is y = act(gate)·up; form is one of C's SKEEP_GLU_*.
func GLU(p *Pool, s *Step, gate, up *View, form uint32, y *View) Status {
	return run(p, s, func(pool *C.skeep_pool, step *C.skeep_step, f *frame) C.skeep_status {
		return C.skeep_glu(pool, step, f.put(0, gate), f.put(1, up), C.uint32_t(form), f.put(2, y))
	})
}

// Add is y = a + b; b has a's shape or is one row.
func Add(p *Pool, s *Step, a, b, y *View) Status {
	return run(p, s, func(pool *C.skeep_pool, step *C.skeep_step, f *frame) C.skeep_status {
		return C.skeep_add(pool, step, f.put(0, a), f.put(1, b), f.put(2, y))
	})
}

// Mul is y = a·b; b has a's shape or is one row.
func Mul(p *Pool, s *Step, a, b, y *View) Status {
	return run(p, s, func(pool *C.skeep_pool, step *C.skeep_step, f *frame) C.skeep_status {
		return C.skeep_mul(pool, step, f.put(0, a), f.put(1, b), f.put(2, y))
	})
}

// Softmax is y = softmax(scale·x) along the last axis.
func Softmax(p *Pool, s *Step, x *View, scale float32, y *View) Status {
	return run(p, s, func(pool *C.skeep_pool, step *C.skeep_step, f *frame) C.skeep_status {
		return C.skeep_softmax(pool, step, f.put(0, x), C.float(scale), f.put(1, y))
	})
}

// Softcap is y = limit·tanh(x/limit).
func Softcap(p *Pool, s *Step, x *View, limit float32, y *View) Status {
	return run(p, s, func(pool *C.skeep_pool, step *C.skeep_step, f *frame) C.skeep_status {
		return C.skeep_softcap(pool, step, f.put(0, x), C.float(limit), f.put(1, y))
	})
}
