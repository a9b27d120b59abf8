package core_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// feedUnits says of each encoding with a feed order how a block is cut: so many bytes in units of so many. It repeats
// csrc/encodings.def on purpose: files keep this order, so a change of it needs another version.
var feedUnits = map[tensor.Encoding][][2]int{
	tensor.Q4_0: {{2, 2}, {16, 4}}, tensor.Q4_1: {{20, 4}}, tensor.Q5_0: {{2, 2}, {20, 4}}, tensor.Q5_1: {{24, 4}},
	tensor.Q8_0: {{2, 2}, {32, 4}}, tensor.Q2_K: {{84, 4}}, tensor.Q3_K: {{108, 4}, {2, 2}}, tensor.Q4_K: {{144, 4}},
	tensor.Q5_K: {{176, 4}}, tensor.Q6_K: {{208, 4}, {2, 2}}, tensor.IQ4_NL: {{2, 2}, {16, 4}}, tensor.IQ4_XS: {{136, 4}},
	tensor.MXFP4: {{1, 1}, {16, 4}}, tensor.TQ2_0: {{64, 4}, {2, 2}},
}

// inFeedOrder arranges the blocks of a matrix: panels of 16 rows, and the last rows as they are.
func inFeedOrder(e tensor.Encoding, rows []byte, count int) []byte {
	row, out := len(rows)/count, bytes.Clone(rows)
	_, size := tensor.FormatOf(e).Block()
	for o := range count / 16 * 16 {
		for b := range row / size {
			column, at := out[o/16*16*row+b*16*size:][:16*size], 0
			for _, run := range feedUnits[e] {
				for range run[0] / run[1] {
					copy(column[16*at+o%16*run[1]:][:run[1]], rows[o*row+b*size+at:])
					at += run[1]
				}
			}
		}
	}
	return out
}

// Prepack to feed order and back, Get, the gathered rows, and a narrowed panel: every encoding that has the order, with
// and without rows behind the panels, in stacks of matrices.
func TestFeedOrderOfEveryEncoding(t *testing.T) {
	p, tried := newPool(t, 2), 0
	for e := range tensor.Encodings() {
		units := feedUnits[e.ID]
		if _, found := core.Kernels().Find(tensor.OpMatMulT, e.ID, tensor.A8, tensor.Feed); found != (units != nil) {
			t.Errorf("%s: a kernel in feed order: %v, in the test's table: %v", e.Name, found, units != nil)
		}
		if units == nil {
			continue
		}
		tried++
		for _, dims := range [][]int64{{1, 3}, {15, 3}, {16, 3}, {37, 5}, {32, 4}, {2, 19, 3}, {3, 16, 3}} {
			planes, out, n := int64(1), int(dims[len(dims)-2]), dims[len(dims)-1]*int64(e.BlockElements)
			dims[len(dims)-1] = n
			if len(dims) == 3 {
				planes = dims[0]
			}
			r := rand.New(rand.NewPCG(uint64(e.ID), uint64(out)))
			x := newTensor(t, e.ID, dims...)
			weights := weightsOf(t, r, e.ID, int(planes)*out, int(n))
			copy(x.bytes, weights.bytes)
			y, back := ordered(t, tensor.Feed, e.ID, dims...), newTensor(t, e.ID, dims...)
			ok(t, core.Prepack(p, nil, &x.View, &y.View))
			plane := len(x.bytes) / int(planes)
			for i := range int(planes) {
				if !bytes.Equal(y.bytes[i*plane:][:plane], inFeedOrder(e.ID, x.bytes[i*plane:][:plane], out)) {
					t.Fatalf("%s %v: plane %d is not in feed order", e.Name, dims, i)
				}
			}
			ok(t, core.Prepack(p, nil, &y.View, &back.View))
			if !bytes.Equal(back.bytes, x.bytes) {
				t.Fatalf("%s %v: there and back gives other bytes", e.Name, dims)
			}
			panels := ordered(t, tensor.Panels(4), e.ID, dims...)
			ok(t, core.Prepack(p, nil, &y.View, &panels.View))
			clear(back.bytes)
			ok(t, core.Prepack(p, nil, &panels.View, &back.View))
			if !bytes.Equal(back.bytes, x.bytes) {
				t.Fatalf("%s %v: from feed order to panels and back gives other bytes", e.Name, dims)
			}
			indices(x.Layout, func(index []int64, _ int) {
				want, st := core.Get(&x.View, index)
				ok(t, st)
				got, st := core.Get(&y.View, index)
				ok(t, st)
				if !same(want, got) {
					t.Fatalf("%s %v: element %v is %v in feed order, %v as stored", e.Name, dims, index, got, want)
				}
			})
			if len(dims) == 3 {
				continue
			}
			ids, rowsX, rowsY := newTensor(t, tensor.EncI32, 4), newTensor(t, tensor.EncF32, 4, n), newTensor(t, tensor.EncF32, 4, n)
			for i := range 4 {
				ids.bytes[4*i] = byte(r.IntN(out))
			}
			ok(t, core.Embed(p, nil, &x.View, &ids.View, 1, &rowsX.View))
			ok(t, core.Embed(p, nil, &y.View, &ids.View, 1, &rowsY.View))
			if !bytes.Equal(rowsX.bytes, rowsY.bytes) {
				t.Fatalf("%s %v: gathered rows differ in feed order", e.Name, dims)
			}
		}
	}
	if tried != len(feedUnits) {
		t.Errorf("%d encodings of %d were tried", tried, len(feedUnits))
	}
}

// Rows of activations that do not fit into the scratch of a thread.
func TestProductsInFeedOrderOfVeryLongRows(t *testing.T) {
	const out, n = 16, 1 << 17
	p, r := newPool(t, 2), rand.New(rand.NewPCG(1, 1))
	w, v := weightsOf(t, r, tensor.Q4_0, out, n), ordered(t, tensor.Feed, tensor.Q4_0, out, n)
	ok(t, core.Prepack(p, nil, &w.View, &v.View))
	for _, tokens := range []int{1, 3, 7, 9} {
		x := activationsOf(t, r, tensor.A8, tokens, n)
		y, z := newTensor(t, tensor.EncF32, int64(tokens), out), newTensor(t, tensor.EncF32, int64(tokens), out)
		ok(t, core.MatMulT(p, nil, &x.View, &w.View, &y.View))
		ok(t, core.MatMulT(p, nil, &x.View, &v.View, &z.View))
		if !bytes.Equal(y.bytes, z.bytes) {
			t.Fatalf("%d tokens: other bits than as stored", tokens)
		}
	}
}

// A weight in feed order gives the bits that it gives as stored, for both activations, with every number of rows behind
// the panels, for every number of threads, and with a view of some of its panels.
func TestProductsInFeedOrderGiveTheBitsAsStored(t *testing.T) {
	for e := range feedUnits {
		info := info(t, e)
		for _, activation := range []tensor.Encoding{tensor.A8, tensor.EncF32} {
			for _, out := range []int{1, 15, 16, 17, 40, 97, 200} {
				r := rand.New(rand.NewPCG(uint64(e), uint64(out)))
				n := max(608/info.BlockElements, 3) * info.BlockElements
				w, v := weightsOf(t, r, e, out, n), ordered(t, tensor.Feed, e, int64(out), int64(n))
				for _, threads := range []int{1, 2, 3, 7} {
					p, st := core.NewPool(threads, 0)
					ok(t, st)
					ok(t, core.Prepack(p, nil, &w.View, &v.View))
					for _, tokens := range []int{1, 2, 3, 4, 5, 33} {
						x := activationsOf(t, r, activation, tokens, n)
						y, z := newTensor(t, tensor.EncF32, int64(tokens), int64(out)), newTensor(t, tensor.EncF32, int64(tokens), int64(out))
						ok(t, core.MatMulT(p, nil, &x.View, &w.View, &y.View))
						ok(t, core.MatMulT(p, nil, &x.View, &v.View, &z.View))
						if !bytes.Equal(y.bytes, z.bytes) {
							t.Fatalf("%s by %v, %d rows, %d tokens, %d threads: other bits than as stored", info.Name, activation, out, tokens, threads)
						}
						if out <= 32 || threads != 2 {
							continue
						}
						some := v.with(t, must(t, v.Layout, func(l tensor.Layout) (tensor.Layout, error) { return l.Narrow(0, 16, int64(out)-16) }), nil)
						part := newTensor(t, tensor.EncF32, int64(tokens), int64(out)-16)
						ok(t, core.MatMulT(p, nil, &x.View, &some.View, &part.View))
						for i := range tokens {
							if !bytes.Equal(part.bytes[4*i*(out-16):][:4*(out-16)], y.bytes[4*(i*out+16):][:4*(out-16)]) {
								t.Fatalf("%s by %v: rows 16 to %d alone give other bits", info.Name, activation, out)
							}
						}
					}
					p.Close()
				}
			}
		}
	}
}

// The table of docs/layouts.md says where bytes of a Q4_0 weight of 37 × 64 elements go: one byte at a time is set, and found.
func TestFeedOrderIsAsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/layouts.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| \((\d+), (\d+)\) \| (\d+) \| .* \| (\d+) \| (\d+) \|$`).FindAllSubmatch(text, -1)
	if len(rows) < 8 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	p := newPool(t, 1)
	for _, row := range rows {
		var n [5]int // row, block, byte of it, as stored, in feed order
		for i := range n {
			n[i], _ = strconv.Atoi(string(row[1+i]))
		}
		x, y := newTensor(t, tensor.Q4_0, 37, 64), ordered(t, tensor.Feed, tensor.Q4_0, 37, 64)
		x.bytes[36*n[0]+18*n[1]+n[2]] = 1
		ok(t, core.Prepack(p, nil, &x.View, &y.View))
		if stored, feed := bytes.IndexByte(x.bytes, 1), bytes.IndexByte(y.bytes, 1); stored != n[3] || feed != n[4] {
			t.Errorf("byte %d of block (%d, %d) is at %d as stored and at %d in feed order, documented are %d and %d", n[2], n[0], n[1], stored, feed, n[3], n[4])
		}
	}
}
