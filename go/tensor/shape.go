package tensor

// Shape is the logical extents of a tensor, outermost axis first ([out, in] for a weight).
type Shape struct {
	Rank uint8
	Dims [MaxRank]int64
}
