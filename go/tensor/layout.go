package tensor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// MaxRank is the largest number of axes of a tensor.
const MaxRank = 4

// Family is an order of the blocks of a matrix.
type Family uint8

// The order families. In a matrix of out rows with bpr blocks each, block b of row o has the position:
const (
	RowMajor        Family = 0 // o·bpr + b: what a GGUF file holds
	InputBlockMajor Family = 1 // b·out + o
	RowPanel        Family = 2 // (o/P)·P·bpr + b·P + o%P; the last out%P rows follow the panels in row-major order
)

// Order is the order of a packed tensor's blocks. It is part of views, of kernel selection and of cache keys. The zero
// Order is RowMajor. The memory layout equals that of C's skeep_order.
type Order struct {
	Family     Family
	Panel      uint8 // rows per panel for RowPanel, else 0
	Interleave uint8 // bytes taken from each block of a panel column in turn; 0 = whole blocks
	Version    uint8 // version of the interleaving
}

// Panels returns the RowPanel order with whole blocks and p rows per panel.
func Panels(p int) Order { return Order{Family: RowPanel, Panel: uint8(p)} }

// Feed is the order that the fastest kernels read: panels of 16 rows, whose blocks are interleaved so that a vector
// register loads the same few bytes of all 16 rows at once. docs/layouts.md says where each byte is. The kernel table
// lists the encodings that have it. It is SKEEP_ORDER_FEED of skeep.h.
var Feed = Order{Family: RowPanel, Panel: 16, Interleave: 4, Version: 1}

// String is a short stable name, fit for cache keys: "row_major", "input_block_major", "row_panel8", and
// with interleaved bytes "row_panel8i4v1".
func (o Order) String() string {
	switch o {
	case Order{}:
		return "row_major"
	case Order{Family: InputBlockMajor}:
		return "input_block_major"
	}
	s := "row_panel" + strconv.Itoa(int(o.Panel))
	if o.Family != RowPanel {
		s = fmt.Sprintf("family%d,%d", o.Family, o.Panel)
	}
	if o.Interleave != 0 || o.Version != 0 {
		s += fmt.Sprintf("i%dv%d", o.Interleave, o.Version)
	}
	return s
}

// valid says why an order is not one, or nothing.
func (o Order) valid() (reason string) {
	switch {
	case o.Family > RowPanel:
		return "unknown order"
	case o.Family == RowPanel && o.Panel == 0:
		return "RowPanel needs rows per panel"
	case o.Family != RowPanel && o != Order{Family: o.Family}:
		return "only RowPanel has panels and interleaved bytes"
	}
	return ""
}

// Layout maps a logical index to a physical position by shape, strides, offset and block geometry. Strides and offset
// count cells (elements if dense, else blocks); extents always count elements. Its memory layout equals that of C's
// skeep_layout, whose comment states the formulas. The methods that return a Layout compute a new layout and copy no
// elements. If the result cannot be expressed as a layout, the error is a *LayoutError.
type Layout struct {
	Shape     [MaxRank]int64
	Stride    [MaxRank]int64
	Offset    int64
	Block     uint32 // elements per block; 1 when dense
	Rank      uint8
	BlockAxis int8 // axis along which blocks run; -1 when dense
	RowAxis   int8 // axis of rows for RowPanel and InputBlockMajor, else -1
	_         uint8
	Order     Order
	_         uint32
}

// LayoutError says which layout operation is impossible, on which axis and why. Axis is -1 if the error concerns no
// single axis.
type LayoutError struct {
	Op     string // "narrow", "split", …
	Axis   int
	Reason string
	// Materialize is true if the operation would succeed on a copy made by skeep.Materialize.
	Materialize bool
}

func (e *LayoutError) Error() string {
	s := "tensor: " + e.Op
	if e.Axis >= 0 {
		s += " axis " + strconv.Itoa(e.Axis)
	}
	s += ": " + e.Reason
	if e.Materialize {
		s += "; Materialize makes a copy that can"
	}
	return s
}

// LayoutOf is the gap-free layout of a tensor of format f and shape s in order o. Blocks run along the last axis, rows
// along the one before it; leading axes are planes. Extents are at least 1. Dense formats have RowMajor only. Errors
// are *EncodingError, *ShapeError or *LayoutError.
func LayoutOf(f Format, s Shape, o Order) (Layout, error) {
	// Bytes bounds every product below: none of them overflows.
	if _, err := f.Bytes(s); err != nil {
		return Layout{}, err
	}
	info, _ := f.Encoding.row()
	l := Layout{Shape: [...]int64{1, 1, 1, 1}, Block: uint32(info.BlockElements), Rank: s.Rank, BlockAxis: -1, RowAxis: -1, Order: o}
	for axis, n := range s.dims() {
		if n == 0 {
			return Layout{}, &ShapeError{s, axis, "a layout needs at least one element"}
		}
		l.Shape[axis] = n
	}
	if reason := o.valid(); reason != "" {
		return Layout{}, &LayoutError{Op: "layout", Axis: -1, Reason: reason}
	}
	if l.Block > 1 {
		l.BlockAxis = int8(s.Rank) - 1
	}
	if o != (Order{}) {
		if l.Block == 1 || s.Rank < 2 {
			return Layout{}, &LayoutError{Op: "layout", Axis: -1, Reason: fmt.Sprintf("order %s needs a packed matrix, not %s %s", o, f, s)}
		}
		l.RowAxis = l.BlockAxis - 1
	}
	plane := int64(1)
	for axis := int(s.Rank) - 1; axis >= 0; axis-- {
		l.Stride[axis] = plane
		plane *= l.cells(axis)
	}
	switch o.Family {
	case InputBlockMajor:
		l.Stride[l.RowAxis], l.Stride[l.BlockAxis] = 1, l.Shape[l.RowAxis]
	case RowPanel:
		l.Stride[l.BlockAxis] = int64(o.Panel)
	}
	return l, nil
}

// cells is an axis's extent in cells.
func (l *Layout) cells(axis int) int64 {
	if axis == int(l.BlockAxis) {
		return (l.Shape[axis]-1)/int64(l.Block) + 1
	}
	return l.Shape[axis]
}

// Dims is the logical shape.
func (l Layout) Dims() Shape { return Shape{Rank: l.Rank, Dims: l.used()} }

// formed returns a *LayoutError unless the fields, which anybody can write, are such that the formulas are defined.
func (l *Layout) formed(op string) error {
	bad := func(format string, args ...any) error {
		return &LayoutError{Op: op, Axis: -1, Reason: fmt.Sprintf(format, args...)}
	}
	if l.Rank > MaxRank {
		return bad("%d axes, at most %d are possible", l.Rank, MaxRank)
	}
	if l.Rank > 0 && (l.Block == 0 || l.BlockAxis >= int8(l.Rank) || l.RowAxis >= int8(l.Rank)) {
		return bad("block axis %d and row axis %d of %d axes with blocks of %d", l.BlockAxis, l.RowAxis, l.Rank, l.Block)
	}
	if l.Order.Family == RowPanel && (l.Order.Panel == 0 || l.Rank < 2 || l.BlockAxis < 0 || l.RowAxis < 0) {
		return bad("order %s with block axis %d and row axis %d of %d axes", l.Order, l.BlockAxis, l.RowAxis, l.Rank)
	}
	return nil
}

// used is the extents with zeros behind the last axis, as Shape has them.
func (l *Layout) used() (dims [MaxRank]int64) {
	copy(dims[:], l.Shape[:min(l.Rank, MaxRank)])
	return dims
}

// Cells is the number of cells that the layout addresses; 0 if the layout is invalid (see Check).
func (l Layout) Cells() int64 {
	if l.formed("cells") != nil {
		return 0
	}
	n := int64(1)
	for axis := range int(l.Rank) {
		n *= l.cells(axis)
	}
	return n
}

// Check returns an error unless the layout is valid for format f: its fields are in range, block and axes fit the
// format and order, and the products of extents and strides do not overflow. C's skeep_view_check makes the same checks
// and also checks bounds (see Bytes).
func (l Layout) Check(f Format) error {
	info, err := f.info()
	if err != nil {
		return err
	}
	bad := func(axis int, reason string) error { return &LayoutError{Op: "layout", Axis: axis, Reason: reason} }
	if l.Rank > MaxRank {
		return bad(-1, fmt.Sprintf("%d axes, at most %d are possible", l.Rank, MaxRank))
	}
	if l.Block != uint32(info.BlockElements) {
		return bad(-1, fmt.Sprintf("blocks of %d elements, %s has %d", l.Block, info.Name, info.BlockElements))
	}
	if packed := l.Block > 1; packed != (l.BlockAxis >= 0) || l.BlockAxis < -1 || l.BlockAxis >= int8(l.Rank) {
		return bad(-1, fmt.Sprintf("block axis %d of %d axes with blocks of %d", l.BlockAxis, l.Rank, l.Block))
	}
	if reason := l.Order.valid(); reason != "" {
		return bad(-1, reason)
	}
	if ordered := l.Order != (Order{}); ordered != (l.RowAxis >= 0) || l.RowAxis < -1 || l.RowAxis >= int8(l.Rank) ||
		ordered && (l.BlockAxis < 0 || l.RowAxis == l.BlockAxis) {
		return bad(-1, fmt.Sprintf("row axis %d, block axis %d with order %s", l.RowAxis, l.BlockAxis, l.Order))
	}
	for axis, n := range l.Shape {
		switch {
		case n < 1:
			return bad(axis, fmt.Sprintf("extent %d", n))
		case axis >= int(l.Rank) && (n != 1 || l.Stride[axis] != 0):
			return bad(axis, "an unused axis has extent 1 and stride 0")
		case axis == int(l.BlockAxis) && n%int64(l.Block) != 0 && !info.Activation:
			return bad(axis, fmt.Sprintf("extent %d is not a multiple of the block of %d", n, l.Block))
		}
	}
	if _, err := l.Dims().Elements(); err != nil {
		return err
	}
	if l.Order.Family == RowPanel && l.Stride[l.BlockAxis] != int64(l.Order.Panel) {
		return bad(int(l.BlockAxis), fmt.Sprintf("stride %d in panels of %d", l.Stride[l.BlockAxis], l.Order.Panel))
	}
	if l.Order.Family == RowPanel && l.Stride[l.RowAxis] != l.cells(int(l.BlockAxis)) {
		return bad(int(l.RowAxis), fmt.Sprintf("stride %d with rows of %d blocks", l.Stride[l.RowAxis], l.cells(int(l.BlockAxis))))
	}
	_, err = l.Bytes(f)
	return err
}

// reach is one past the largest cell position. Strides and offsets are not negative.
func (l *Layout) reach() (end int64, err error) {
	bad := func(axis int, reason string) (int64, error) {
		return 0, &LayoutError{Op: "layout", Axis: axis, Reason: reason}
	}
	if err := l.formed("layout"); err != nil {
		return 0, err
	}
	if l.Offset < 0 {
		return bad(-1, "negative offset")
	}
	end = l.Offset
	for axis := range int(l.Rank) {
		if l.Stride[axis] < 0 {
			return bad(axis, "negative stride")
		}
		stride := l.Stride[axis]
		if l.Order.Family == RowPanel && axis == int(l.BlockAxis) {
			// The plane as a whole is dense: its last cell is where RowMajor has it.
			stride = 1
		}
		n, ok := mul(stride, l.cells(axis)-1)
		if end += n; !ok || end < 0 {
			return bad(axis, "positions do not fit into 63 bits")
		}
	}
	if end++; end < 0 {
		return bad(-1, "positions do not fit into 63 bits")
	}
	return end, nil
}

// Bytes is the number of bytes that the layout spans with cells of format f, from the tensor's first byte on. The
// fields of the layout are not checked (see Check).
func (l Layout) Bytes(f Format) (int64, error) {
	end, err := l.reach()
	if err != nil {
		return 0, err
	}
	_, size := f.Block()
	n, ok := mul(end, int64(size))
	if !ok {
		return 0, &LayoutError{Op: "layout", Axis: -1, Reason: "more than 2⁶³ bytes"}
	}
	return n, nil
}

// Cell returns the position of the element at a logical index: the position of its cell (block, or element if dense),
// and its place within the block (0 if dense). index has one number per axis; a wrong index is a *LayoutError. In an
// interleaved order, cell counts whole blocks, although the bytes of a block are spread over its panel column. Cell
// does not allocate.
func (l Layout) Cell(index ...int64) (cell, within int64, err error) {
	if err := l.formed("index"); err != nil {
		return 0, 0, err
	}
	if len(index) != int(l.Rank) {
		return 0, 0, &LayoutError{Op: "index", Axis: -1, Reason: fmt.Sprintf("%d indices for %d axes", len(index), l.Rank)}
	}
	cell = l.Offset
	panels := l.Order.Family == RowPanel
	for axis, i := range index {
		switch {
		case i < 0 || i >= l.Shape[axis]:
			return 0, 0, &LayoutError{Op: "index", Axis: axis, Reason: fmt.Sprintf("%d out of range [0, %d)", i, l.Shape[axis])}
		case axis == int(l.BlockAxis):
			within = i % int64(l.Block)
			if !panels {
				cell += l.Stride[axis] * (i / int64(l.Block))
			}
		case !panels || axis != int(l.RowAxis):
			cell += l.Stride[axis] * i
		}
	}
	if panels {
		o, b := index[l.RowAxis], index[l.BlockAxis]/int64(l.Block)
		p, bpr := int64(l.Order.Panel), l.Stride[l.RowAxis]
		if o < l.Shape[l.RowAxis]-l.Shape[l.RowAxis]%p {
			cell += o/p*p*bpr + b*p + o%p
		} else {
			cell += o*bpr + b
		}
	}
	return cell, within, nil
}

// Contiguous reports whether the elements are stored without gaps in logical order, as in a file.
func (l Layout) Contiguous() bool {
	if l.formed("contiguous") != nil || l.Order != (Order{}) || l.BlockAxis >= 0 && l.BlockAxis != int8(l.Rank)-1 {
		return false
	}
	next := int64(1)
	for axis := int(l.Rank) - 1; axis >= 0; axis-- {
		if n := l.cells(axis); n > 1 {
			if l.Stride[axis] != next {
				return false
			}
			next *= n
		}
	}
	return true
}

// GapFree reports whether the layout addresses each of Cells() consecutive positions exactly once, in any order.
func (l Layout) GapFree() bool {
	if l.formed("gap_free") != nil {
		return false
	}
	type step struct{ stride, cells int64 }
	var steps [MaxRank]step
	n, next := 0, int64(1)
	for axis := range int(l.Rank) {
		cells := l.cells(axis)
		switch {
		case l.Order.Family == RowPanel && (axis == int(l.BlockAxis) || axis == int(l.RowAxis)):
			next *= cells // a whole plane is gap-free: its block axis is never cut
		case cells > 1:
			steps[n] = step{l.Stride[axis], cells}
			n++
		}
	}
	slices.SortFunc(steps[:n], func(a, b step) int { return cmp.Compare(a.stride, b.stride) })
	for _, s := range steps[:n] {
		if s.stride != next {
			return false
		}
		next *= s.cells
	}
	return true
}
