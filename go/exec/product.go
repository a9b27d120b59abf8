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
	for _, integer := range [2]bool{true, false} { // products on the integer form of x, then those on x itself
		if !e.products(op, x, &w, &bias, &y, integer) {
			return [3]View{}
		}
	}
	return y
}

// products makes those on the integer form of x, or the others.
func (e *Eager) products(op string, x View, w, bias, y *[3]View, integer bool) bool {
	var ws, bs, ys [3]View // as in w, absent where a weight is absent or of the other kind
	var at [3]int          // their places among the three
	n, input := 0, x
	for i := range w {
		if e.err != nil {
			return false
		}
		if w[i].IsZero() || e.integer(&w[i]) != integer {
			continue
		}
		ws[i], bs[i] = w[i], bias[i]
		if !integer {
			input = e.even(op, input)
			ws[i] = e.multipliable(op, input, w[i])
		}
		ys[i] = e.alloc(op, f32, withLast(x.Shape(), dim(&w[i], 1)))
		at[n] = i
		n++
	}
	if n == 0 {
		return e.err == nil
	}
	if integer {
		input = e.quantize(op, x)
	}
	e.gather(op, &bs[0], &bs[1], &bs[2])
	if e.err != nil {
		return false
	}
	start := e.start()
	var wd, bd, yd [3]*core.View
	for k, i := range at[:n] {
		wd[k], bd[k], yd[k] = desc(&ws[i]), desc(&bs[i]), desc(&ys[i])
	}
	st := core.Project(e.pool, e.step, desc(&input), n, &wd, &bd, &yd)
	if k := int(st.Operand); k > 0 { // the core counts only the n that are there
		st.Operand = int32(1 + (k-1)/n*3 + at[(k-1)%n])
	}
	if !e.done(op, start, st, &input, &ws[0], &ws[1], &ws[2], &bs[0], &bs[1], &bs[2], &ys[0], &ys[1], &ys[2]) {
		return false
	}
	for _, i := range at[:n] {
		y[i] = ys[i]
	}
	return true
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
