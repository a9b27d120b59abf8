package core_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

const (
	q8 = tensor.Encoding(8)
	q4 = tensor.Encoding(2)
	a8 = tensor.Encoding(256)
)

// reordered is view v in another order of its blocks.
func reordered(t testing.TB, v *core.View, o tensor.Order) *core.View {
	t.Helper()
	l, err := tensor.LayoutOf(v.Format, v.Layout.Dims(), o)
	if err != nil {
		t.Fatal(err)
	}
	w := *v
	w.Layout = l
	return &w
}

// naive is the position of cell (o, b) of an out × bpr grid, as the design states it.
func naive(o tensor.Order, out, bpr, row, b int64) int64 {
	p := int64(o.Panel)
	switch {
	case o.Family == tensor.InputBlockMajor:
		return b*out + row
	case o.Family == tensor.RowPanel && row < out-out%p:
		return row/p*p*bpr + b*p + row%p
	}
	return row*bpr + b
}

func TestExampleOfTheDesign(t *testing.T) {
	v := view(t, allocate(t, 4*6*34), 0, q8, 4, 6*32)
	for _, c := range []struct {
		order tensor.Order
		want  int
	}{{tensor.Order{}, 13}, {tensor.Order{Family: tensor.InputBlockMajor}, 6}, {tensor.Panels(4), 6}, {tensor.Panels(3), 5}} {
		w := reordered(t, v, c.order)
		ok(t, core.Check(w))
		if got := coretest.CellOffset(w, [4]int64{2, 1*32 + 5}); got != c.want*34 {
			t.Errorf("%s: cell (2, 1) is %d bytes from the start, want %d blocks", c.order, got, c.want)
		}
	}
}

// Every cell of every order, for row counts that no panel divides: each block holds its own coordinates.
func TestOrdersAreBijections(t *testing.T) {
	orders := []tensor.Order{{}, {Family: tensor.InputBlockMajor}, tensor.Panels(1), tensor.Panels(2), tensor.Panels(4), tensor.Panels(8), tensor.Panels(16)}
	for _, out := range []int64{1, 3, 5, 8, 13, 17} {
		const bpr, planes = 5, 2
		bytes := uint64(planes * out * bpr * 34)
		s := allocate(t, bytes)
		plain := view(t, s, 0, q8, planes, out, bpr*32)
		info, _ := core.InfoOf(s)
		memory := core.Memory(info.Address, int(bytes))
		for _, o := range orders {
			v := reordered(t, plain, o)
			ok(t, core.Check(v))
			for plane := range int64(planes) {
				for row := range out {
					for b := range int64(bpr) {
						at := 34 * (plane*out*bpr + naive(o, out, bpr, row, b))
						binary.LittleEndian.PutUint16(memory[at:], 0x3c00) // scale 1
						for k := range int64(32) {
							memory[at+2+k] = byte(int8((plane*53 + row*7 + b*29 + k) % 127))
						}
					}
				}
			}
			for plane := range int64(planes) {
				for row := range out {
					for i := range int64(bpr * 32) {
						got, st := core.Get(v, []int64{plane, row, i})
						ok(t, st)
						if want := float64((plane*53 + row*7 + i/32*29 + i%32) % 127); got != want {
							t.Fatalf("%s, %d rows: [%d %d %d] = %v, want %v", o, out, plane, row, i, got, want)
						}
					}
				}
			}
		}
	}
}

func TestViewsWithOffsetsAndStrides(t *testing.T) {
	const n = 60
	s := allocate(t, 4*n)
	info, _ := core.InfoOf(s)
	memory := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(core.Memory(info.Address, 4*n)))), n)
	for i := range memory {
		memory[i] = float32(i)
	}
	v := view(t, s, 0, f32, 3, 4, 5)
	for _, c := range []struct {
		shape, stride [3]int64
		offset        int64
		ok            bool
	}{
		{[3]int64{3, 4, 5}, [3]int64{20, 5, 1}, 0, true},
		{[3]int64{5, 4, 3}, [3]int64{1, 5, 20}, 0, true}, // transposed
		{[3]int64{2, 2, 2}, [3]int64{20, 10, 2}, 7, true},
		{[3]int64{9, 9, 5}, [3]int64{0, 0, 1}, 55, true}, // broadcast
		{[3]int64{9, 9, 5}, [3]int64{0, 0, 1}, 56, false},
		{[3]int64{3, 4, 6}, [3]int64{20, 5, 1}, 0, false},
		{[3]int64{3, 4, 5}, [3]int64{20, 5, 1}, 1, false},
	} {
		w := *v
		copy(w.Layout.Shape[:], c.shape[:])
		copy(w.Layout.Stride[:], c.stride[:])
		w.Layout.Offset = c.offset
		if st := core.Check(&w); (st.Code == core.OK) != c.ok || !c.ok && (st.Code != core.ErrBounds || st.Detail != 4*uint64(c.offset+
			(c.shape[0]-1)*c.stride[0]+(c.shape[1]-1)*c.stride[1]+(c.shape[2]-1)*c.stride[2]+1)) {
			t.Errorf("%+v: %+v", c, st)
		}
		if !c.ok {
			continue
		}
		for i := range c.shape[0] {
			for j := range c.shape[1] {
				for k := range c.shape[2] {
					got, st := core.Get(&w, []int64{i, j, k})
					if want := float64(c.offset + i*c.stride[0] + j*c.stride[1] + k*c.stride[2]); st.Code != core.OK || got != want {
						t.Fatalf("%+v [%d %d %d]: %v (%v), want %v", c, i, j, k, got, st, want)
					}
				}
			}
		}
	}
	for axis, index := range [][]int64{{3, 0, 0}, {0, -1, 0}, {0, 0, math.MaxInt64}} {
		_, st := core.Get(v, index)
		is(t, st, core.ErrIndex, uint64(axis))
	}
}

func TestCheckRefusesByName(t *testing.T) {
	s := allocate(t, 4*6*34)
	field := func(f uintptr) uint64 { return uint64(f) }
	var z core.View
	layout := unsafe.Offsetof(z.Layout)
	for name, c := range map[string]struct {
		change func(*core.View)
		code   int32
		detail uint64
	}{
		"reserved":            {func(v *core.View) { *(*uint64)(unsafe.Add(unsafe.Pointer(v), unsafe.Sizeof(z)-8)) = 1 }, core.ErrArgument, field(unsafe.Sizeof(z) - 24)},
		"unknown encoding":    {func(v *core.View) { v.Format.Encoding = 99 }, core.ErrFormat, 99},
		"retired encoding":    {func(v *core.View) { v.Format.Encoding = 4 }, core.ErrFormat, 4},
		"far encoding":        {func(v *core.View) { v.Format.Encoding = 60000 }, core.ErrFormat, 60000},
		"dtype":               {func(v *core.View) { v.Format.DType = tensor.F16 }, core.ErrArgument, field(unsafe.Offsetof(z.Format))},
		"block":               {func(v *core.View) { v.Layout.Block = 64 }, core.ErrArgument, field(layout + unsafe.Offsetof(z.Layout.Block))},
		"rank":                {func(v *core.View) { v.Layout.Rank = 5 }, core.ErrShape, 5},
		"extent 0":            {func(v *core.View) { v.Layout.Shape[1] = 0 }, core.ErrShape, 1},
		"negative extent":     {func(v *core.View) { v.Layout.Shape[0] = -4 }, core.ErrShape, 0},
		"part of a block":     {func(v *core.View) { v.Layout.Shape[1] = 6*32 - 1 }, core.ErrShape, 1},
		"unused extent":       {func(v *core.View) { v.Layout.Shape[3] = 2 }, core.ErrShape, 3},
		"unused stride":       {func(v *core.View) { v.Layout.Stride[2] = 1 }, core.ErrLayout, 2},
		"negative stride":     {func(v *core.View) { v.Layout.Stride[0] = -6 }, core.ErrLayout, 0},
		"block axis":          {func(v *core.View) { v.Layout.BlockAxis = 2 }, core.ErrArgument, field(layout + unsafe.Offsetof(z.Layout.BlockAxis))},
		"no block axis":       {func(v *core.View) { v.Layout.BlockAxis = -1 }, core.ErrArgument, field(layout + unsafe.Offsetof(z.Layout.BlockAxis))},
		"row axis":            {func(v *core.View) { v.Layout.RowAxis = 0 }, core.ErrArgument, field(layout + unsafe.Offsetof(z.Layout.RowAxis))},
		"family":              {func(v *core.View) { v.Layout.Order.Family, v.Layout.RowAxis = 3, 0 }, core.ErrArgument, field(layout + unsafe.Offsetof(z.Layout.Order))},
		"panel without order": {func(v *core.View) { v.Layout.Order.Panel = 4 }, core.ErrArgument, field(layout + unsafe.Offsetof(z.Layout.Order) + 1)},
		"interleave":          {func(v *core.View) { v.Layout.Order.Interleave = 4 }, core.ErrArgument, field(layout + unsafe.Offsetof(z.Layout.Order) + 2)},
		"panel of 0":          {func(v *core.View) { v.Layout.Order.Family, v.Layout.RowAxis = tensor.RowPanel, 0 }, core.ErrArgument, field(layout + unsafe.Offsetof(z.Layout.Order) + 1)},
		"panel stride": {func(v *core.View) {
			v.Layout.Order, v.Layout.RowAxis = tensor.Panels(2), 0
		}, core.ErrLayout, 1},
		"part of a panel's row": {func(v *core.View) {
			v.Layout.Order, v.Layout.RowAxis = tensor.Panels(2), 0
			v.Layout.Stride[1], v.Layout.Shape[1] = 2, 3*32
		}, core.ErrLayout, 0},
		"negative offset": {func(v *core.View) { v.Layout.Offset = -1 }, core.ErrArgument, field(layout + unsafe.Offsetof(z.Layout.Offset))},
		"offset":          {func(v *core.View) { v.Layout.Offset = 1 }, core.ErrBounds, 25 * 34},
		"bytes":           {func(v *core.View) { v.Bytes-- }, core.ErrBounds, 24 * 34},
		"more than root":  {func(v *core.View) { v.Bytes++ }, core.ErrBounds, 24*34 + 1},
		"before root":     {func(v *core.View) { v.Data-- }, core.ErrBounds, 24 * 34},
		"behind root":     {func(v *core.View) { v.Data += 1 << 40 }, core.ErrBounds, 24 * 34},
		"stride overflow": {func(v *core.View) { v.Layout.Stride[0] = math.MaxInt64 / 2 }, core.ErrBounds, math.MaxUint64},
		"offset overflow": {func(v *core.View) { v.Layout.Offset = math.MaxInt64 }, core.ErrBounds, math.MaxUint64},
		"bytes overflow":  {func(v *core.View) { v.Layout.Offset = math.MaxInt64 / 4 }, core.ErrBounds, math.MaxUint64},
		"extent overflow": {func(v *core.View) { v.Layout.Shape[0] = math.MaxInt64 }, core.ErrBounds, math.MaxUint64},
		"panel overflow": {func(v *core.View) {
			v.Layout.Order, v.Layout.RowAxis, v.Layout.Stride[1], v.Layout.Shape[0] = tensor.Panels(2), 0, 2, math.MaxInt64
		}, core.ErrBounds, math.MaxUint64},
		"nothing is wrong": {func(v *core.View) {}, core.OK, 0},
	} {
		v := view(t, s, 0, q8, 4, 6*32)
		c.change(v)
		if st := core.Check(v); st.Code != c.code || st.Detail != c.detail || (st.Operand == 0) != (c.code != core.OK) {
			t.Errorf("%s: %+v (%v), want code %d, detail %d", name, st, st, c.code, c.detail)
		}
	}
	is(t, core.Check(nil), core.ErrArgument, 0)
	d := view(t, s, 0, f32, 4, 6)
	d.Layout.Order.Family = tensor.InputBlockMajor
	if st := core.Check(d); st.Code != core.ErrLayout {
		t.Error("dense formats have no order of blocks:", st)
	}
}

// Whatever stands in a view's layout, a check that lets it pass means that every index lies in its bytes.
func TestCheckedViewsStayInBounds(t *testing.T) {
	const bytes = 40 * 34
	s := allocate(t, bytes)
	r := rand.New(rand.NewPCG(1, 2))
	small := func() int64 { return r.Int64N(9) - 1 }
	passed := map[tensor.Family]int{}
	for range 400000 {
		v := *view(t, s, 0, q8, 4, 6*32)
		v.Bytes = bytes
		l := &v.Layout
		l.Rank = uint8(1 + r.IntN(4))
		l.BlockAxis = int8(r.IntN(4))
		for a := range 4 {
			l.Shape[a], l.Stride[a] = 1, 0
			if a < int(l.Rank) {
				l.Shape[a], l.Stride[a] = small(), small()
			}
		}
		l.Shape[l.BlockAxis] *= 32
		l.Offset = small()
		l.RowAxis = -1
		l.Order = tensor.Order{Family: tensor.Family(r.IntN(3))}
		if l.Order.Family != tensor.RowMajor {
			l.RowAxis = int8(r.IntN(int(l.Rank)))
		}
		if l.Order.Family == tensor.RowPanel {
			l.Order.Panel = uint8(1 + r.IntN(3))
			l.Stride[l.BlockAxis] = int64(l.Order.Panel)
			l.Stride[l.RowAxis] = l.Shape[l.BlockAxis] / 32
		}
		if core.Check(&v).Code != core.OK {
			continue
		}
		passed[l.Order.Family]++
		for range 10 {
			var i [4]int64
			for a := range l.Rank {
				i[a] = r.Int64N(l.Shape[a])
				if r.IntN(2) == 0 {
					i[a] = l.Shape[a] - 1
				}
			}
			if at := coretest.CellOffset(&v, i); at < 0 || at+34 > bytes {
				t.Fatalf("%+v passes, and %v is at byte %d", l, i, at)
			}
		}
	}
	for f := range tensor.Family(3) {
		if passed[f] < 100 {
			t.Errorf("family %d: %d layouts passed: the test shows little", f, passed[f])
		}
	}
}

func TestOverlapIsFound(t *testing.T) {
	pool := newPool(t, 1)
	s := allocate(t, 1024)
	at := func(byte uint64) *core.View { return view(t, s, byte, f32, 4, 4) }
	for _, c := range []struct {
		x, y *core.View
		ok   bool
	}{
		{at(0), at(64), true}, {at(64), at(0), true}, {at(0), at(60), false}, {at(60), at(0), false}, {at(0), at(0), false},
		{at(4), at(67), false}, {at(3), at(67), true},
	} {
		st := core.Convert(pool, nil, c.x, c.y)
		if c.ok {
			ok(t, st)
		} else if st.Code != core.ErrOverlap || st.Operand != 1 || st.Detail != 0 {
			t.Errorf("%+v", st)
		}
	}
	// An output in which two indices share an element.
	for _, stride := range [][2]int64{{0, 1}, {3, 1}, {1, 1}, {1, 3}} {
		y := at(512)
		y.Layout.Stride[0], y.Layout.Stride[1] = stride[0], stride[1]
		if st := core.Convert(pool, nil, at(0), y); st.Code != core.ErrOverlap || st.Operand != 1 || st.Detail != 1 {
			t.Errorf("%v: %+v", stride, st)
		}
	}
	for _, stride := range [][2]int64{{4, 1}, {1, 4}, {7, 2}} {
		y := at(512)
		y.Bytes = 512
		y.Layout.Stride[0], y.Layout.Stride[1] = stride[0], stride[1]
		ok(t, core.Convert(pool, nil, at(0), y))
	}
	// In place where the operation says so: exactly, and not half.
	a, b := at(0), at(256)
	ok(t, core.Add(pool, nil, a, b, a))
	if st := core.Add(pool, nil, a, b, b); st.Code != core.ErrOverlap || st.Operand != 2 || st.Detail != 1 {
		t.Errorf("%+v", st)
	}
	shifted := at(4)
	if st := core.Add(pool, nil, a, b, shifted); st.Code != core.ErrOverlap || st.Detail != 0 {
		t.Errorf("%+v", st)
	}
}

func TestGetDecodesEachFormat(t *testing.T) {
	s := allocate(t, 4096)
	info, _ := core.InfoOf(s)
	for _, e := range core.Encodings() {
		if e.Retired {
			continue
		}
		memory := core.Memory(info.Address, 4096)
		r := rand.New(rand.NewPCG(uint64(e.ID), 3))
		for i := range memory {
			memory[i] = byte(r.Uint32())
		}
		v := view(t, s, uint64(e.ID)%3, e.ID, 3*int64(e.BlockElements)) // at any address
		blocks := memory[uint64(e.ID)%3:][:3*e.BlockBytes]
		want := make([]float32, 3*e.BlockElements)
		for row, k := range core.Kernels() {
			if k.Op == tensor.OpDecode && k.ISA == "portable" && k.Encoding == e.ID {
				if err := coretest.RunDecode(row, blocks, want); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range want {
			got, st := core.Get(v, []int64{int64(i)})
			ok(t, st)
			if float32(got) != want[i] && !(math.IsNaN(got) && want[i] != want[i]) {
				t.Fatalf("%s [%d]: %v, decodes to %v", e.Name, i, got, want[i])
			}
		}
		n, st := core.GetInt64(v, []int64{1})
		if e.Integer {
			ok(t, st)
			if float32(n) != want[1] {
				t.Errorf("%s: %d, decodes to %v", e.Name, n, want[1])
			}
		} else {
			is(t, st, core.ErrFormat, uint64(e.ID))
		}
	}
	binary.LittleEndian.PutUint64(core.Memory(info.Address, 8), 1<<63-1)
	if n, st := core.GetInt64(view(t, s, 0, tensor.Encoding(tensor.I64), 1), []int64{0}); st.Code != core.OK || n != 1<<63-1 {
		t.Error(n, st)
	}
}

// The product is that of the decoded values, and the magnitudes count both terms of an affine format.
func TestReferenceMatMulTSumsTheTerms(t *testing.T) {
	const tokens, out, in = 2, 5, 3 * 256
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		x, w   tensor.Encoding
		offset float64 // of w's codes: the constant part of an element, in scales
	}{{f32, f32, 0}, {f32, q8, 0}, {f32, q4, -8}, {a8, q4, -8}, {a8, q8, 0}, {tensor.Encoding(tensor.F16), tensor.Encoding(tensor.BF16), 0}} {
		t.Run(fmt.Sprint(c.x, c.w), func(t *testing.T) {
			fill := func(e tensor.Encoding, rows int64) *core.View {
				n, st := core.BytesOf(e, shape(rows, in))
				ok(t, st)
				s := allocate(t, n)
				info, _ := core.InfoOf(s)
				m := core.Memory(info.Address, int(n))
				for i := range m {
					m[i] = byte(r.Uint32())
				}
				scale := func(at int) { binary.LittleEndian.PutUint16(m[at:], uint16(0x2c00+r.IntN(1<<10))) }
				switch e {
				case q8:
					for i := 0; i < len(m); i += 34 {
						scale(i)
					}
				case q4:
					for i := 0; i < len(m); i += 18 {
						scale(i)
					}
				case a8:
					for i := 0; i < len(m); i += 160 {
						for j := range 4 {
							binary.LittleEndian.PutUint32(m[i+4*j:], math.Float32bits(r.Float32()))
						}
					}
				case f32:
					for i := 0; i < len(m); i += 4 {
						binary.LittleEndian.PutUint32(m[i:], math.Float32bits(r.Float32()-0.5))
					}
				default: // halves of either kind: no infinities
					for i := 1; i < len(m); i += 2 {
						m[i] &= 0xbf
					}
				}
				return view(t, s, 0, e, rows, in)
			}
			x, w := fill(c.x, tokens), fill(c.w, out)
			if c.w == q8 || c.w == q4 {
				// The same blocks in panels must give the same product as the values that Get reads there.
				w = reordered(t, w, tensor.Panels(2))
			}
			y, m := view(t, allocate(t, 4*tokens*out), 0, f32, tokens, out), view(t, allocate(t, 4*tokens*out), 0, f32, tokens, out)
			ok(t, core.ReferenceMatMulT(x, w, y, m))
			get := func(v *core.View, i, j int64) float64 {
				f, st := core.Get(v, []int64{i, j})
				ok(t, st)
				return f
			}
			for i := range int64(tokens) {
				for o := range int64(out) {
					sum, magnitude := 0.0, 0.0
					for k := range int64(in) {
						xv, wv := get(x, i, k), get(w, o, k)
						sum += xv * wv
						constant := 0.0
						if c.offset != 0 {
							at := coretest.CellOffset(w, [4]int64{o, k})
							half := binary.LittleEndian.Uint16(core.Memory(w.Data+uintptr(at), 2))
							constant = c.offset * float64(math.Float32frombits(uint32(half>>10+112)<<23|uint32(half&1023)<<13))
						}
						magnitude += math.Abs(xv) * (math.Abs(wv-constant) + math.Abs(constant))
					}
					if got := get(y, i, o); got != float64(float32(sum)) {
						t.Fatalf("y[%d %d] = %v, want %v", i, o, got, sum)
					}
					if got := get(m, i, o); math.Abs(got-magnitude) > 1e-6*magnitude {
						t.Fatalf("magnitude [%d %d] = %v, want %v", i, o, got, magnitude)
					}
				}
			}
			ok(t, core.ReferenceMatMulT(x, w, y, nil))
			if st := core.ReferenceMatMulT(x, x, y, nil); st.Code != core.ErrShape || st.Operand != 2 {
				t.Errorf("%+v", st)
			}
			if st := core.ReferenceMatMulT(x, w, y, y); st.Code != core.ErrOverlap {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestSelectFindsTheFirstRowThatFits(t *testing.T) {
	s := allocate(t, 1<<16)
	x, w, y := view(t, s, 0, f32, 2, 256), view(t, s, 4096, q4, 5, 256), view(t, s, 8192, f32, 2, 5)
	row, st := core.Select(tensor.OpMatMulT, []*core.View{x, w, y})
	ok(t, st)
	kernels := core.Kernels()
	k := kernels[row]
	if k.Op != tensor.OpMatMulT || k.Encoding != q4 || k.Activation != f32 || !k.Runnable || k.Order != (tensor.Order{}) {
		t.Errorf("%+v", k)
	}
	for i := range row {
		if o := kernels[i]; o.Runnable && o.Op == k.Op && o.Encoding == k.Encoding && o.Activation == k.Activation && o.Order == k.Order {
			t.Errorf("row %d is better than row %d: %+v", i, row, o)
		}
	}
	codes := view(t, s, 12288, a8, 2, 256)
	row, st = core.Select(tensor.OpProject, []*core.View{codes, w, w, nil, nil, y, y})
	ok(t, st)
	if k := kernels[row]; k.Activation != a8 {
		t.Errorf("%+v", k)
	}
	row, st = core.Select(tensor.OpEmbed, []*core.View{w, nil, nil})
	ok(t, st)
	if k := kernels[row]; k.Op != tensor.OpDecode || k.Encoding != q4 {
		t.Errorf("%+v", k)
	}
	// What is missing is said of whom.
	transposed := view(t, s, 0, f32, 5, 256)
	transposed.Layout.Stride = [4]int64{1, 5}
	ints := view(t, s, 0, tensor.Encoding(tensor.I32), 2, 256)
	for name, c := range map[string]struct {
		op       tensor.Op
		operands []*core.View
		code     int32
		operand  int32
	}{
		"panels of seven":   {tensor.OpMatMulT, []*core.View{x, reordered(t, w, tensor.Panels(7)), y}, core.ErrLayout, 1},
		"transposed":        {tensor.OpMatMulT, []*core.View{x, transposed, y}, core.ErrLayout, 1},
		"transposed x":      {tensor.OpMatMulT, []*core.View{transposed, w, y}, core.ErrLayout, 0},
		"integer weights":   {tensor.OpMatMulT, []*core.View{x, ints, y}, core.ErrNoKernel, 1},
		"integer x":         {tensor.OpMatMulT, []*core.View{ints, w, y}, core.ErrFormat, 0},
		"second of project": {tensor.OpProject, []*core.View{x, w, ints, nil, nil, y, y}, core.ErrNoKernel, 2},
		"no weight":         {tensor.OpMatMulT, []*core.View{x, nil, y}, core.ErrArgument, 1},
		"no operands":       {tensor.OpMatMulT, nil, core.ErrArgument, -1},
		"unknown operation": {99, []*core.View{x}, core.ErrArgument, -1},
	} {
		if _, st := core.Select(c.op, c.operands); st.Code != c.code || st.Operand != c.operand {
			t.Errorf("%s: %+v (%v)", name, st, st)
		}
	}
}

func TestViewOfRefusesArguments(t *testing.T) {
	s := allocate(t, 1024)
	for _, c := range []struct {
		byte   uint64
		e      tensor.Encoding
		shape  tensor.Shape
		code   int32
		detail uint64
	}{
		{0, f32, shape(256), core.OK, 0}, {1, f32, shape(256), core.ErrBounds, 1025}, {1024, f32, shape(1), core.ErrBounds, 1028},
		{math.MaxUint64, f32, shape(1), core.ErrBounds, math.MaxUint64}, {0, f32, shape(), core.OK, 0}, {0, q8, shape(), core.ErrShape, 0},
		{0, q8, shape(33), core.ErrShape, 0}, {0, q8, shape(2, 32), core.OK, 0}, {0, a8, shape(3, 130), core.OK, 0}, {0, a8, shape(4, 130), core.ErrBounds, 1280},
		{0, f32, shape(1<<40, 1<<40), core.ErrBounds, math.MaxUint64}, {0, f32, shape(math.MaxInt64), core.ErrBounds, math.MaxUint64},
		{0, 4, shape(4), core.ErrFormat, 4}, {0, 99, shape(4), core.ErrFormat, 99}, {0, f32, shape(2, 0), core.ErrShape, 1}, {0, f32, shape(-1), core.ErrShape, 0},
	} {
		v, st := core.ViewOf(s, c.byte, c.e, c.shape)
		is(t, st, c.code, c.detail)
		if st.Code == core.OK {
			ok(t, core.Check(&v))
			n, st := core.BytesOf(c.e, c.shape)
			ok(t, st)
			if v.Bytes != n {
				t.Errorf("%d bytes, want %d", v.Bytes, n)
			}
		}
	}
}
