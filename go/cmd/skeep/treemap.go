package main

import (
	"cmp"
	"slices"
)

// box is a rectangle of a picture.
type box struct{ X, Y, W, H float64 }

// treemap divides a rectangle among sizes, the largest first, so that areas are as the sizes and sides are of similar lengths. The
// result is in the order of sizes. Bruls, Huizing & van Wijk 2000.
func treemap(in box, sizes []int64) []box {
	order := make([]int, len(sizes))
	total := 0.0
	for i, n := range sizes {
		order[i] = i
		total += float64(max(0, n))
	}
	out := make([]box, len(sizes))
	if total == 0 {
		return out
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[b], sizes[a]) })
	scale := in.W * in.H / total
	for len(order) > 0 {
		// A row along the shorter side takes sizes as long as its worst rectangle gets no longer and thinner.
		side, n, sum, worst := min(in.W, in.H), 0, 0.0, 0.0
		for ; n < len(order); n++ {
			area := float64(max(0, sizes[order[n]])) * scale
			first, next := float64(sizes[order[0]])*scale, sum+area
			w := max(side*side*first/(next*next), next*next/(side*side*max(area, 1e-9)))
			if n > 0 && w > worst {
				break
			}
			sum, worst = next, w
		}
		if sum <= 0 || side <= 0 {
			return out
		}
		thick, at := min(sum/side, max(in.W, in.H)), in // sums are rounded
		for _, i := range order[:n] {
			length := float64(max(0, sizes[i])) * scale / (sum / side)
			if in.W >= in.H {
				out[i] = box{in.X, at.Y, thick, min(length, in.Y+in.H-at.Y)}
				at.Y += out[i].H
			} else {
				out[i] = box{at.X, in.Y, min(length, in.X+in.W-at.X), thick}
				at.X += out[i].W
			}
		}
		if in.W >= in.H {
			in.X, in.W = in.X+thick, in.W-thick
		} else {
			in.Y, in.H = in.Y+thick, in.H-thick
		}
		order = order[n:]
	}
	return out
}
