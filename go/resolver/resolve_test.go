package resolver

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// header is a header without metadata.
type header []arch.TensorInfo

func (h header) Name() string                        { return "test" }
func (h header) Keys() iter.Seq[string]              { return func(func(string) bool) {} }
func (h header) Value(string) (arch.Value, bool)     { return nil, false }
func (h header) Tensors() []arch.TensorInfo          { return h }
func (h header) with(more ...arch.TensorInfo) header { return append(h[:len(h):len(h)], more...) }

func info(name string, e tensor.Encoding, dims ...int64) arch.TensorInfo {
	shape := tensor.ShapeOf(dims...)
	n, err := tensor.FormatOf(e).Bytes(shape)
	if err != nil {
		panic(err)
	}
	return arch.TensorInfo{Name: name, Encoding: e, Shape: shape, Bytes: n}
}

var rows = tensor.Kernels{
	{Op: tensor.OpMatMulT, Encoding: tensor.Q5_0, Order: tensor.Panels(8), ISA: "avx2", Runnable: true},
	{Op: tensor.OpMatMulT, Encoding: tensor.Q4_0, Order: tensor.Panels(16), ISA: "avx512", Runnable: false},
	{Op: tensor.OpMatMulT, Encoding: tensor.Q4_0, ISA: "avx2", Runnable: true},
	{Op: tensor.OpMatMulT, Encoding: tensor.EncF16, ISA: "avx2", Runnable: true},
	{Op: tensor.OpMatMulT, Encoding: tensor.EncF32, ISA: "portable", Runnable: true},
	{Op: tensor.OpDecode, Encoding: tensor.AnyEncoding, Activation: tensor.AnyEncoding, ISA: "portable", Runnable: true},
}

var small = header{
	info("token_embd.weight", tensor.Q4_0, 1000, 1024),
	info("blk.0.attn_norm.weight", tensor.EncF16, 1024),
	info("blk.0.attn_q.weight", tensor.Q4_0, 1024, 1024),
	info("blk.0.attn_k.weight", tensor.Q5_0, 1024, 1024),
	info("blk.0.attn_v.weight", tensor.Q6_K, 256, 1024),
	info("blk.0.attn_q.bias", tensor.EncF32, 1024),
	info("v.blk.0.x", tensor.EncF32, 4),
}

var onDisk = Platform{CanMap: true}

func request(t *testing.T, profile string, h header) Request {
	p, err := ProfileNamed(profile, 8<<30)
	require.NoError(t, err)
	return Request{Header: h, Profile: p, Platform: onDisk, Kernels: rows, Unused: []string{"v.blk.0.x"},
		Needs: []Need{{Name: "kv", Bytes: 1 << 20}, {Name: "ids", Bytes: 64}}}
}

func TestExplainGolden(t *testing.T) {
	r, err := Resolve(request(t, "desktop", small))
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, r.Explain(&b))
	golden := filepath.Join("testdata", "explain.txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

func TestStrictProfileRefusesBeforeLoading(t *testing.T) {
	_, err := Resolve(request(t, "mobile_2gb", small))
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "blk.0.attn_v.weight", refused.Tensor)
	require.Equal(t, tensor.Q6_K, refused.Encoding)
	require.InDelta(t, 1024./210, refused.Multiple, 1e-9)

	q := request(t, "mobile_2gb", small) // an explicit override outranks the strict profile
	q.Overrides = []Override{{Pattern: "blk.*.attn_v.weight", Form: "f32"}}
	r, err := Resolve(q)
	require.NoError(t, err)
	d, _ := r.Decision("blk.0.attn_v.weight")
	require.Equal(t, "dequantized to F32", d.Form.String())

	q.Profile.Budget = 1 << 20
	r, err = Resolve(q)
	var budget *BudgetError
	require.ErrorAs(t, err, &budget)
	require.EqualValues(t, 1<<20, budget.Budget)
	require.Equal(t, "kv", budget.Largest)
	require.EqualValues(t, 1<<20, budget.Bytes)
	require.EqualValues(t, 1024*32*22+2*1024*2+1<<20+64, budget.Counted, "without the weight that an override decides")
	require.Equal(t, budget.Counted+256*1024*4, budget.Private)
	require.Positive(t, budget.Mapped)
	require.NotNil(t, r, "what would have been needed")
	q.Profile.Strict = false // the others say it in explain and go on
	_, err = Resolve(q)
	require.NoError(t, err)
}

func TestTiedTableIsGatheredAndMultiplied(t *testing.T) {
	r, err := Resolve(request(t, "desktop", small))
	require.NoError(t, err)
	d, _ := r.Decision("token_embd.weight")
	require.Contains(t, d.Reason, "kernel reads it as stored; rows are decoded")
	r, err = Resolve(request(t, "desktop", small.with(info("output.weight", tensor.Q4_0, 1000, 1024))))
	require.NoError(t, err)
	d, _ = r.Decision("token_embd.weight")
	require.NotContains(t, d.Reason, "kernel")
}

func TestPrecedence(t *testing.T) {
	name := "blk.0.attn_q.weight"
	for _, c := range []struct {
		overrides []Override
		form      string
		domain    tensor.Domain
	}{
		{nil, "Q4_0 as stored", tensor.Mapped},
		{[]Override{{Pattern: "*", Form: "f16"}}, "dequantized to F16", tensor.OffHeap},
		{[]Override{{Pattern: name, Form: "keep"}, {Pattern: "*", Form: "f16"}}, "Q4_0 as stored", tensor.Mapped},
		{[]Override{{Pattern: "*.weight", Form: "f16"}, {Pattern: "blk.0.*", Form: "f32", Place: "heap"}}, "dequantized to F32", tensor.Heap},
		{[]Override{{Pattern: name, Place: "offheap"}}, "Q4_0 as stored", tensor.OffHeap},
		{DenseF32OnHeap(), "dequantized to F32", tensor.Heap},
	} {
		q := request(t, "desktop", small)
		q.Overrides = c.overrides
		r, err := Resolve(q)
		require.NoError(t, err)
		d, ok := r.Decision(name)
		require.True(t, ok)
		require.Equal(t, c.form, d.Form.String(), "%v", c.overrides)
		require.Equal(t, c.domain, d.Spec.Domain, "%v", c.overrides)
	}
}

func TestDenseF32OnHeapMeansEverything(t *testing.T) {
	q := request(t, "desktop", small)
	q.Overrides = DenseF32OnHeap()
	r, err := Resolve(q)
	require.NoError(t, err)
	for _, d := range r.Decisions {
		if d.Form.Action == Skip {
			continue
		}
		require.Equal(t, tensor.Heap, d.Spec.Domain, d.Name)
		if d.IsWeight {
			require.Equal(t, tensor.EncF32, d.Form.Encoding, d.Name)
		}
	}
	require.Zero(t, r.In(tensor.Mapped)+r.In(tensor.OffHeap))
}

func TestImpossibleOverrides(t *testing.T) {
	for _, o := range []Override{
		{Pattern: "", Form: "f32"}, {Pattern: "[", Form: "f32"}, {Pattern: "*", Form: "q9"}, {Pattern: "*", Place: "moon"},
		{Pattern: "blk.0.attn_v.weight", Form: "keep"},                 // no kernel
		{Pattern: "blk.0.attn_v.weight", Place: "mapped", Form: "f32"}, // not the file's bytes
		{Pattern: "kv", Place: "mapped"},
		{Pattern: "nomatch*", Form: "f32"}, // a typo
		{Pattern: "*", Form: "f32+f16"}, {Pattern: "*", Form: "feed+stored"}, {Pattern: "*", Form: "f32+"}, {Pattern: "*", Form: "i32"}, {Pattern: "*", Form: "a8"},
		{Pattern: "blk.0.attn_q.weight", Form: "q5_k"},    // no kernel, no encoder
		{Pattern: "blk.0.attn_norm.weight", Form: "bf16"}, // its ops read F32
	} {
		q := request(t, "desktop", small)
		q.Overrides = []Override{o}
		_, err := Resolve(q)
		require.ErrorIs(t, err, ErrOverride, "%+v", o)
	}
}

func TestPlaceNeedsAllThree(t *testing.T) {
	p, _ := ProfileNamed("desktop", 0)
	noMap := p
	noMap.Map = false
	for _, c := range []struct {
		need     Need
		profile  Profile
		platform Platform
		want     tensor.Domain
		reason   string
	}{
		{Need{Bytes: 1 << 20, Map: true, FileBytes: true}, p, onDisk, tensor.Mapped, "mapped from the file"},
		{Need{Bytes: 1, Map: true, FileBytes: true}, p, onDisk, tensor.Mapped, "mapped from the file"},
		{Need{Bytes: 1 << 20, FileBytes: true}, p, onDisk, tensor.OffHeap, "outside the Go heap"},
		{Need{Bytes: 1 << 20, Map: true}, p, onDisk, tensor.OffHeap, "outside the Go heap"},
		{Need{Bytes: 1 << 20, Map: true, FileBytes: true}, noMap, onDisk, tensor.OffHeap, "does not map"},
		{Need{Bytes: 1 << 20, Map: true, FileBytes: true}, p, Platform{CannotWhy: "it is a pipe"}, tensor.OffHeap, "it is a pipe"},
		{Need{Bytes: 1 << 20, Map: true, FileBytes: true}, p, Platform{InMemory: true}, tensor.Heap, "used in place"},
		{Need{Bytes: DefaultThreshold}, p, onDisk, tensor.OffHeap, "256 KiB or larger"},
		{Need{Bytes: DefaultThreshold - 1}, p, onDisk, tensor.Heap, "smaller than 256 KiB"},
	} {
		got := Place(c.need, c.profile, c.platform)
		require.Equal(t, c.want, got.Domain, "%+v", c)
		require.Contains(t, got.Reason, c.reason)
	}
}

func TestUnreadableEncodingIsNamed(t *testing.T) {
	_, err := Resolve(request(t, "desktop", header{{Name: "blk.0.attn_q.weight", Encoding: 99}}))
	require.ErrorContains(t, err, `"blk.0.attn_q.weight"`)
	var e *tensor.EncodingError
	require.ErrorAs(t, err, &e)
}

func TestProfiles(t *testing.T) {
	for memory, want := range map[int64]string{0: "desktop", 1 << 30: "mobile_2gb", 3 << 30: "edge", 8 << 30: "desktop"} {
		p, why := Default(memory)
		require.Equal(t, want, p.Name)
		require.NotEmpty(t, why)
	}
	_, err := ReadProfile(strings.NewReader(`{"budget":0,"strict":true}`), 5)
	require.ErrorIs(t, err, ErrProfile, "no budget would be no limit")
	_, err = Resolve(Request{Profile: Profile{Budget: -5, Strict: true}, Header: nil})
	require.ErrorIs(t, err, ErrProfile)
	p, err := ReadProfile(strings.NewReader(`{"name":"kiosk","budget":1000,"strict":true,"kv":"f32"}`), 5)
	require.NoError(t, err)
	require.Equal(t, Profile{Name: "kiosk", Budget: 1000, Strict: true, Map: true, Threshold: DefaultThreshold, KV: tensor.EncF32, KVName: "f32"}, p)
	p, err = ReadProfile(strings.NewReader(`{"name":"box","budget":"1.5G","threshold":"1M","count_mapped":true,"sequences":4}`), 5)
	require.NoError(t, err)
	require.Equal(t, Profile{Name: "box", Budget: 3 << 29, Map: true, Threshold: 1 << 20, KV: tensor.EncF16, KVName: "F16", CountMapped: true, Sequences: 4}, p)
	for bad, want := range map[string]string{
		`{`: "not JSON", `{"color":1}`: "color", `{"kv":"q9"}`: "q9", `{"budget":-1}`: "at least 0", `{"threshold":-5}`: "at least 0",
		"": "empty", " \n": "empty", "null": "begins with null, want a JSON object", "[]": "want a JSON object", "3": "want a JSON object", "{]": "not JSON", `{"budget"}`: "not JSON",
		`{"budget":1} x`: "something follows", `{"budget":1}{}`: "something follows", `{"budget":1}null`: "something follows", `{"budget":1}]`: "something follows",
		`{"budget":1,"budget":1}`: "twice", `{"budget":null}`: "null", `{"budget":"2X"}`: `"2X", want a number of bytes`, `{"budget":2G}`: "not JSON",
		`{"budget":1.5}`: "1.5", `{"budget":1e30}`: "1e30", `{"threshold":"256Q"}`: "256Q", `{"sequences":-1}`: "at least 0", `{"sequences":"4"}`: "a number of sessions", `{"strict":"yes"}`: "true or false", `{"map":1}`: "true or false",
		`{"name":3}`: "a text", `{"name":""}`: "name is empty", `{"kv":{}}`: "f32, f16 or bf16", `{"name":[` + strings.Repeat("1,", 1000) + `1]}`: "…",
		`{"name":"` + strings.Repeat("x", 1<<20) + `"}`: "more than 1048576 bytes",
	} {
		_, err := ReadProfile(strings.NewReader(bad), 0)
		require.ErrorIs(t, err, ErrProfile, bad)
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 200)
	}
	_, err = ReadProfile(iotest.ErrReader(os.ErrPermission), 0)
	require.ErrorIs(t, err, os.ErrPermission)
	_, err = ProfileNamed("phone", 0)
	require.ErrorContains(t, err, "mobile_2gb")
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 256 << 10: "256 KiB", 3 << 29: "1.50 GiB", 10 << 40: "10.0 TiB", 5 << 52: "20480 TiB"} {
		require.Equal(t, want, Size(n))
	}
}

func ExampleResolution_Explain() {
	h := header{info("blk.0.ffn_up.weight", tensor.Q4_0, 4096, 1024)}
	p, _ := ProfileNamed("edge", 0)
	r, err := Resolve(Request{Header: h, Profile: p, Platform: Platform{CanMap: true}, Kernels: rows})
	if err != nil {
		fmt.Println(err)
		return
	}
	r.Explain(os.Stdout)
	// Output:
	// profile edge: budget 4.00 GiB, off-heap from 256 KiB
	// blk.0.ffn_up.weight: Q4_0 -> Q4_0 as stored, mapped, 2.25 MiB: avx2 kernel reads it as stored; mapped from the file: no copy, shared, evictable
	// total: mapped 2.25 MiB, off-heap 0 B, heap 0 B
}
