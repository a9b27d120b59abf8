package tensor

import "fmt"

// axisError checks an axis argument.
func (l *Layout) axisError(op string, axis int) error {
	if err := l.formed(op); err != nil {
		return err
	}
	if axis < 0 || axis >= int(l.Rank) {
		return &LayoutError{Op: op, Axis: axis, Reason: fmt.Sprintf("there are %d axes", l.Rank)}
	}
	return nil
}

// impossible is the error of an operation that a copy in another layout would allow.
func impossible(op string, axis int, format string, args ...any) (Layout, error) {
	return Layout{}, &LayoutError{Op: op, Axis: axis, Reason: fmt.Sprintf(format, args...), Materialize: true}
}

func outOfRange(op string, axis int, format string, args ...any) (Layout, error) {
	return Layout{}, &LayoutError{Op: op, Axis: axis, Reason: fmt.Sprintf(format, args...)}
}

// panelAxis reports whether axis is one of the two whose positions a RowPanel order mixes.
func (l *Layout) panelAxis(axis int) bool {
	return l.Order.Family == RowPanel && (axis == int(l.BlockAxis) || axis == int(l.RowAxis))
}

// Narrow keeps the length indices of axis that begin at start. Along the block axis, start must be a multiple of the
// block, and so must length unless the range reaches the end. In a RowPanel order the block axis cannot be narrowed,
// and a range of rows must begin at a multiple of P and end at a multiple of P or at the last row.
func (l Layout) Narrow(axis int, start, length int64) (Layout, error) {
	const op = "narrow"
	if err := l.axisError(op, axis); err != nil {
		return Layout{}, err
	}
	n := l.Shape[axis]
	if start < 0 || length < 1 || start >= n || length > n-start {
		return outOfRange(op, axis, "start %d, length %d of %d", start, length, n)
	}
	if length == n {
		return l, nil
	}
	skip, end := start, start+length
	if axis == int(l.BlockAxis) {
		b := int64(l.Block)
		if l.Order.Family == RowPanel {
			return impossible(op, axis, "the block axis of order %s stays whole", l.Order)
		}
		if start%b != 0 || end%b != 0 && end != n {
			return impossible(op, axis, "[%d, %d) is not at boundaries of blocks of %d", start, end, b)
		}
		skip = start / b
	} else if p := int64(l.Order.Panel); l.panelAxis(axis) && (start%p != 0 || end%p != 0 && end != n) {
		return impossible(op, axis, "[%d, %d) is not at boundaries of panels of %d rows", start, end, p)
	}
	l.Offset += skip * l.Stride[axis]
	l.Shape[axis] = length
	return l, nil
}

// Step keeps every k-th index of axis, beginning with the first. The block axis, and the rows of a RowPanel order,
// cannot be stepped.
func (l Layout) Step(axis int, k int64) (Layout, error) {
	const op = "step"
	if err := l.axisError(op, axis); err != nil {
		return Layout{}, err
	}
	switch {
	case k < 1:
		return outOfRange(op, axis, "step %d", k)
	case k == 1:
		return l, nil
	case axis == int(l.BlockAxis):
		return impossible(op, axis, "elements of a block stay together")
	case l.panelAxis(axis):
		return impossible(op, axis, "rows of a panel stay together")
	}
	l.Shape[axis] = (l.Shape[axis]-1)/k + 1
	if l.Shape[axis] == 1 {
		return l, nil // the stride is never taken: no product that could overflow
	}
	l.Stride[axis] *= k
	return l, nil
}

// Slice keeps the indices start, start+step, … below end of axis: Narrow, then Step.
func (l Layout) Slice(axis int, start, end, step int64) (Layout, error) {
	if start < 0 || end < start {
		return outOfRange("slice", axis, "[%d, %d)", start, end)
	}
	l, err := l.Narrow(axis, start, end-start)
	if err != nil {
		return Layout{}, err
	}
	return l.Step(axis, step)
}

// Transpose exchanges two axes. If the layout is packed, its blocks then run along another axis: Get reads them
// correctly, but kernels may refuse such an operand.
func (l Layout) Transpose(a, b int) (Layout, error) {
	for _, axis := range [...]int{a, b} {
		if err := l.axisError("transpose", axis); err != nil {
			return Layout{}, err
		}
	}
	l.Shape[a], l.Shape[b] = l.Shape[b], l.Shape[a]
	l.Stride[a], l.Stride[b] = l.Stride[b], l.Stride[a]
	for _, role := range [...]*int8{&l.BlockAxis, &l.RowAxis} {
		switch int(*role) {
		case a:
			*role = int8(b)
		case b:
			*role = int8(a)
		}
	}
	return l, nil
}

// insert makes room for a new axis before axis at; the caller fills it.
func (l *Layout) insert(at int) {
	copy(l.Shape[at+1:], l.Shape[at:MaxRank-1])
	copy(l.Stride[at+1:], l.Stride[at:MaxRank-1])
	l.Rank++
	for _, role := range [...]*int8{&l.BlockAxis, &l.RowAxis} {
		if int(*role) >= at {
			*role++
		}
	}
}

// remove drops an axis that is neither block nor row axis.
func (l *Layout) remove(at int) {
	copy(l.Shape[at:], l.Shape[at+1:])
	copy(l.Stride[at:], l.Stride[at+1:])
	l.Shape[MaxRank-1], l.Stride[MaxRank-1] = 1, 0
	l.Rank--
	for _, role := range [...]*int8{&l.BlockAxis, &l.RowAxis} {
		if int(*role) > at {
			*role--
		}
	}
}

// Unsqueeze inserts an axis of extent 1 before axis; axis = rank appends it.
func (l Layout) Unsqueeze(axis int) (Layout, error) {
	const op = "unsqueeze"
	if err := l.formed(op); err != nil {
		return Layout{}, err
	}
	if axis < 0 || axis > int(l.Rank) {
		return outOfRange(op, axis, "there are %d axes", l.Rank)
	}
	if l.Rank >= MaxRank {
		return outOfRange(op, axis, "a tensor has at most %d axes", MaxRank)
	}
	l.insert(axis)
	l.Shape[axis], l.Stride[axis] = 1, 0
	return l, nil
}

// Squeeze drops an axis of extent 1. The block axis and the row axis of a RowPanel order cannot be dropped. Dropping
// the row axis of an InputBlockMajor layout gives a RowMajor layout with a stride.
func (l Layout) Squeeze(axis int) (Layout, error) {
	const op = "squeeze"
	if err := l.axisError(op, axis); err != nil {
		return Layout{}, err
	}
	switch {
	case l.Shape[axis] != 1:
		return outOfRange(op, axis, "extent %d", l.Shape[axis])
	case axis == int(l.BlockAxis):
		return impossible(op, axis, "it is the block axis")
	case l.panelAxis(axis):
		return impossible(op, axis, "it is the row axis of order %s", l.Order)
	case axis == int(l.RowAxis):
		l.RowAxis, l.Order = -1, Order{}
	}
	l.remove(axis)
	return l, nil
}

// Split replaces axis, of extent a·b, by two axes of extents a and b. Along the block axis, b must be a multiple of the
// block. The axes of a RowPanel order cannot be split.
func (l Layout) Split(axis int, a int64) (Layout, error) {
	const op = "split"
	if err := l.axisError(op, axis); err != nil {
		return Layout{}, err
	}
	n := l.Shape[axis]
	if a < 1 || n%a != 0 {
		return outOfRange(op, axis, "extent %d is not a multiple of %d", n, a)
	}
	if l.Rank >= MaxRank {
		return outOfRange(op, axis, "a tensor has at most %d axes", MaxRank)
	}
	inner := n / a
	cells := inner
	if a > 1 {
		if l.panelAxis(axis) {
			return impossible(op, axis, "blocks of order %s stay in their plane", l.Order)
		}
		if axis == int(l.BlockAxis) {
			if inner%int64(l.Block) != 0 {
				return impossible(op, axis, "parts of %d are not whole blocks of %d", inner, l.Block)
			}
			cells /= int64(l.Block)
		}
	}
	stride := l.Stride[axis]
	l.insert(axis)
	l.Shape[axis], l.Shape[axis+1] = a, inner
	l.Stride[axis], l.Stride[axis+1] = 0, stride
	if a > 1 {
		l.Stride[axis] = stride * cells
	}
	return l, nil
}

// Merge joins axis and axis+1 into one axis. It is possible if one step of the first axis spans the whole second axis,
// and the second axis consists of whole blocks. It undoes Split.
func (l Layout) Merge(axis int) (Layout, error) {
	const op = "merge"
	for _, a := range [...]int{axis, axis + 1} {
		if err := l.axisError(op, a); err != nil {
			return Layout{}, err
		}
	}
	// What an order says of its block axis, and a RowPanel of its rows, needs the axis also at extent 1.
	bound := func(a int) bool { return a == int(l.BlockAxis) || l.panelAxis(a) }
	outer, inner := l.Shape[axis], l.Shape[axis+1]
	switch {
	case outer == 1 && !bound(axis):
		return l.Squeeze(axis)
	case inner == 1 && !bound(axis+1):
		return l.Squeeze(axis + 1)
	case axis == int(l.BlockAxis) || l.panelAxis(axis) || l.panelAxis(axis+1):
		return impossible(op, axis, "blocks of order %s stay in their plane", l.Order)
	case axis+1 == int(l.BlockAxis) && inner%int64(l.Block) != 0:
		return impossible(op, axis, "rows of %d are not whole blocks of %d", inner, l.Block)
	}
	if step, ok := mul(l.Stride[axis+1], l.cells(axis+1)); !ok || step != l.Stride[axis] {
		return impossible(op, axis, "strides %d and %d leave gaps", l.Stride[axis], l.Stride[axis+1])
	}
	switch {
	case axis == int(l.RowAxis) && axis+1 == int(l.BlockAxis):
		l.RowAxis, l.Order = -1, Order{} // whole rows that follow each other are RowMajor
	case axis == int(l.RowAxis):
		l.RowAxis = int8(axis + 1) // the joined axis holds the rows
	}
	l.Shape[axis+1] = outer * inner
	l.remove(axis)
	return l, nil
}
