package tensor

import (
	"fmt"
	"math/bits"
	"strconv"
)

// Shape holds the logical extents of a tensor, outermost axis first ([out, in] for a weight).
type Shape struct {
	Rank uint8
	Dims [MaxRank]int64
}

// ShapeOf returns the shape with these extents. It never fails: more than MaxRank axes and negative extents are refused
// by Check, which every constructor of a layout calls. It does not allocate.
func ShapeOf(dims ...int64) Shape {
	s := Shape{Rank: uint8(min(len(dims), 255))}
	copy(s.Dims[:], dims)
	return s
}

// ShapeError says which axis of a shape is wrong and why. Axis is -1 for the shape as a whole.
type ShapeError struct {
	Shape  Shape
	Axis   int
	Reason string
}

func (e *ShapeError) Error() string {
	if e.Axis < 0 {
		return fmt.Sprintf("tensor: shape %s: %s", e.Shape, e.Reason)
	}
	return fmt.Sprintf("tensor: shape %s: axis %d: %s", e.Shape, e.Axis, e.Reason)
}

// Check returns a *ShapeError for more than MaxRank axes or a negative extent. An extent of 0 is allowed in a shape,
// but not in a layout.
func (s Shape) Check() error {
	if s.Rank > MaxRank {
		return &ShapeError{s, -1, fmt.Sprintf("%d axes, at most %d are possible", s.Rank, MaxRank)}
	}
	for i, d := range s.dims() {
		if d < 0 {
			return &ShapeError{s, i, "negative extent"}
		}
	}
	return nil
}

// dims is the extents in use, also of a shape that Check refuses.
func (s *Shape) dims() []int64 { return s.Dims[:min(s.Rank, MaxRank)] }

// Elements is the number of elements, 1 for a scalar. It is a *ShapeError if Check fails or there are 2⁶³ elements or
// more.
func (s Shape) Elements() (int64, error) {
	if err := s.Check(); err != nil {
		return 0, err
	}
	n := int64(1)
	for i, d := range s.dims() {
		var ok bool
		if n, ok = mul(n, d); !ok {
			return 0, &ShapeError{s, i, "2⁶³ elements or more"}
		}
	}
	return n, nil
}

// String is the extents in brackets: "[2048 64]".
func (s Shape) String() string {
	b := []byte{'['}
	for i, d := range s.dims() {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, d, 10)
	}
	if s.Rank > MaxRank {
		b = append(b, " …"...)
	}
	return string(append(b, ']'))
}

// mul multiplies two numbers ≥ 0; ok is false when the product does not fit.
func mul(a, b int64) (product int64, ok bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(lo), hi == 0 && lo < 1<<63
}
