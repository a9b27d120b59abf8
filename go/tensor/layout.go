package tensor

// MaxRank is the largest number of axes of a tensor.
const MaxRank = 4

// Family is how the blocks of a matrix plane follow each other.
type Family uint8

// The order families. Cell (o, b) of an out × blocksPerRow grid stands at:
const (
	RowMajor        Family = 0 // o·bpr + b: what a GGUF file holds
	InputBlockMajor Family = 1 // b·out + o
	RowPanel        Family = 2 // (o/P)·P·bpr + b·P + o%P; the last out%P rows RowMajor behind the panels
)

// Order is the arrangement of a packed tensor's blocks; part of a view, of kernel selection and of
// every cache key. The zero Order is RowMajor. Memory layout equals C's skeep_order.
type Order struct {
	Family     Family
	Panel      uint8 // rows per panel for RowPanel, else 0
	Interleave uint8 // bytes interleaved among the blocks of a panel column, 0 = whole blocks
	Version    uint8 // of the interleave
}

// Layout is how a logical index reaches a physical position: shape, strides, offset, block geometry.
// Strides and offset count elements when dense, else blocks; extents always count elements. Its
// memory layout equals C's skeep_layout, whose comment states the formulas.
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
