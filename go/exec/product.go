package exec

import "github.com/skeep-project/skeep/go/internal/core"

// Project implements Context.
func (e *Eager) Project(x View, w, bias [3]View) [3]View { return e.project("project", x, w, bias) }

func (e *Eager) project(op string, x View, w, bias [3]View) (y [3]View) {
	switch {
	case e.err != nil:
	case x.IsZero():
		e.fail(op, absent("x"))
	case w[0].IsZero() && w[1].IsZero() && w[2].IsZero():
		e.fail(op, absent("w"))
	}
	// Products on the integer form of x, then those on x itself: two groups at most.
	for _, integer := range [2]bool{true, false} {
		var ws, bs, ys [3]View
		var at [3]int
		n, input := 0, x
		for i := range w {
			if e.err != nil {
				return [3]View{}
			}
			if w[i].IsZero() || e.integer(&w[i]) != integer {
				continue
			}
			ws[n], bs[n], at[n] = w[i], bias[i], i
			if !integer {
				input = e.even(op, input)
				ws[n] = e.multipliable(op, input, w[i])
			}
			ys[n] = e.alloc(op, f32, withLast(x.Shape(), dim(&w[i], 1)))
			n++
		}
		if n == 0 {
			continue
		}
		if integer {
			input = e.quantize(op, x)
		}
		e.gather(op, &bs[0], &bs[1], &bs[2])
		if e.err != nil {
			return [3]View{}
		}
		start := e.start()
		var wd, bd, yd [3]*core.View
		for i := range n {
			wd[i], bd[i], yd[i] = desc(&ws[i]), desc(&bs[i]), desc(&ys[i])
		}
		st := core.Project(e.pool, e.step, desc(&input), n, &wd, &bd, &yd)
		// Operand numbers of the core count only the n that are there.
		if i := int(st.Operand); st.Code != core.OK && i > 0 {
			st.Operand = int32((i-1)/n*3 + (i-1)%n + 1)
		}
		if !e.done(op, start, st, &input, &ws[0], &ws[1], &ws[2], &bs[0], &bs[1], &bs[2], &ys[0], &ys[1], &ys[2]) {
			return [3]View{}
		}
		for i := range n {
			y[at[i]] = ys[i]
		}
	}
	return y
}

// MatMulT implements Context.
func (e *Eager) MatMulT(x, w View) View { return e.project("matmul_t", x, [3]View{w}, [3]View{})[0] }

// Logits implements Context.
func (e *Eager) Logits(x, w View, softcap float32) View {
	const op = "logits"
	y := e.project(op, x, [3]View{w}, [3]View{})[0]
	if e.err != nil || softcap <= 0 {
		return y
	}
	start := e.start()
	if !e.done(op, start, core.Softcap(e.pool, e.step, desc(&y), softcap, desc(&y)), &y) {
		return View{}
	}
	return y
}
