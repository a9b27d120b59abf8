package exec

import "github.com/skeep-project/skeep/go/skeep"

// arranged returns the result of view arithmetic, or keeps its error.
func (e *Eager) arranged(op string, v View, err error) View {
	if err != nil {
		e.fail(op, err)
	}
	if e.err != nil {
		return View{}
	}
	e.results++
	return v.WithValue(skeep.ValueResult | e.results)
}

// Split implements Context.
func (e *Eager) Split(x View, axis int, a int) View {
	if e.err != nil {
		return View{}
	}
	v, err := x.Split(axis, int64(a))
	return e.arranged("split", v, err)
}

// Merge implements Context.
func (e *Eager) Merge(x View, axis int) View {
	if e.err != nil {
		return View{}
	}
	v, err := x.Merge(axis)
	return e.arranged("merge", v, err)
}

// Narrow implements Context.
func (e *Eager) Narrow(x View, axis int, start, length int) View {
	if e.err != nil {
		return View{}
	}
	v, err := x.Narrow(axis, int64(start), int64(length))
	return e.arranged("narrow", v, err)
}

// Last implements Context.
func (e *Eager) Last(x View, rows int) View {
	if e.err != nil {
		return View{}
	}
	v, err := x.Narrow(0, x.Shape().Dims[0]-int64(rows), int64(rows))
	return e.arranged("last", v, err)
}

// Transpose implements Context.
func (e *Eager) Transpose(x View, a, b int) View {
	if e.err != nil {
		return View{}
	}
	v, err := x.Transpose(a, b)
	return e.arranged("transpose", v, err)
}

// Input implements Context.
func (e *Eager) Input(_ string, v View) View {
	e.inputs++
	return v.WithValue(skeep.ValueInput | e.inputs)
}
