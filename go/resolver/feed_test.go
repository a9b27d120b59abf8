package resolver

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// feedRows is a table in which Q4_0 and Q5_0 have kernels for both orders, Q6_K and F16 for the file's alone, and Q8_0
// in feed order only one for F32 activations.
var feedRows = func() (k tensor.Kernels) {
	row := func(e, activation tensor.Encoding, o tensor.Order, isa string) {
		k = append(k, tensor.KernelInfo{Op: tensor.OpMatMulT, Encoding: e, Activation: activation, Order: o, ISA: isa, Runnable: true})
	}
	for _, e := range []tensor.Encoding{tensor.Q4_0, tensor.Q5_0} {
		for _, a := range []tensor.Encoding{tensor.A8, tensor.EncF32} {
			row(e, a, tensor.Order{}, "avx2")
			row(e, a, tensor.Feed, "avx512")
		}
	}
	row(tensor.Q8_0, tensor.EncF32, tensor.Feed, "portable")
	for _, e := range []tensor.Encoding{tensor.Q8_0, tensor.Q6_K} {
		row(e, tensor.A8, tensor.Order{}, "avx2")
		row(e, tensor.EncF32, tensor.Order{}, "avx2")
	}
	row(tensor.EncF16, tensor.EncF32, tensor.Order{}, "avx2")
	row(tensor.EncF32, tensor.EncF32, tensor.Order{}, "avx2")
	return append(k, tensor.KernelInfo{Op: tensor.OpDecode, Encoding: tensor.AnyEncoding, Activation: tensor.AnyEncoding, ISA: "portable", Runnable: true})
}()

var mixed = header{
	info("token_embd.weight", tensor.Q4_0, 1000, 1024),
	info("output_norm.weight", tensor.EncF32, 1024),
	info("blk.0.attn_q.weight", tensor.Q4_0, 1024, 1024),
	info("blk.0.attn_k.weight", tensor.Q5_0, 1024, 1024),
	info("blk.0.attn_v.weight", tensor.Q6_K, 256, 1024),
	info("blk.0.attn_output.weight", tensor.Q8_0, 1024, 1024),
	info("blk.0.ffn_up.weight", tensor.Q4_0, 15, 1024), // less than a panel
	info("blk.0.ffn_down.weight", tensor.EncF16, 1024, 32),
}

// mixedFeed is how many bytes of mixed gain by feed order.
const mixedFeed = (1000*32+1024*32)*18 + 1024*32*22

// feedRequest asks for mixed on a machine for which gains are known: 2 for Q4_0, 0.9 for Q6_K.
func feedRequest(t *testing.T, profile string, available int64, overrides ...Override) Request {
	old := maps.Clone(gains)
	t.Cleanup(func() { gains = old })
	gains = map[tensor.Encoding][len(families)]float64{tensor.Q4_0: {1.1, 0, 0, 2}, tensor.Q5_0: {1.1}, tensor.Q6_K: {0.9}, tensor.Q8_0: {1.5}}
	p, err := ProfileNamed(profile, 8<<30)
	require.NoError(t, err)
	return Request{Header: mixed, Profile: p, Platform: onDisk, Kernels: feedRows, Processor: "zen4", Available: available, Overrides: overrides}
}

// reordered resolves, and names what is in feed order, without the model's prefix and ending.
func reordered(t *testing.T, q Request) string {
	r, err := Resolve(q)
	require.NoError(t, err)
	var names []string
	for _, d := range r.Decisions {
		if d.Form.Reordered() {
			require.Equal(t, tensor.Feed, d.Form.Order)
			require.Equal(t, d.Stored, d.Form.Encoding)
			require.NotEqual(t, tensor.Mapped, d.Spec.Domain)
			names = append(names, short(d.Name))
		}
	}
	return strings.Join(names, " ")
}

// short is a name without its layer and its kind.
func short(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, "blk.0."), ".weight")
}

// Feed order is for all weights that gain by it, or for none.
func TestFeedOrderByMemoryAndProfile(t *testing.T) {
	const all = "token_embd attn_q attn_k"
	for _, c := range []struct {
		profile   string
		available int64
		want, why string // why attn_q stays as stored
	}{
		{"desktop", 2 * mixedFeed, all, ""},
		{"desktop", 2*mixedFeed - 1, "", "kernel reads it as stored; feed order would be 2.00 times as fast on zen4, but the copies take 1.80 MiB of 3.60 MiB available, which is more than half"},
		{"desktop", 0, "", "how much memory is available is unknown"},
		{"edge", 1 << 40, all, ""},
		{"mobile_2gb", 1 << 40, "", "profile mobile_2gb is strict"},
	} {
		q := feedRequest(t, c.profile, c.available)
		require.Equal(t, c.want, reordered(t, q), "%+v", c)
		r, err := Resolve(q)
		require.NoError(t, err)
		d, _ := r.Decision("blk.0.attn_q.weight")
		require.Contains(t, d.Reason, c.why)
		require.Equal(t, 2.0, d.Form.Gain)
		d, _ = r.Decision("blk.0.attn_k.weight")
		require.Contains(t, d.Reason, "about 1.10 times as fast (not measured on this processor)")
		require.EqualValues(t, c.want != "", r.In(tensor.OffHeap) == mixedFeed, "each weight once: %d", r.In(tensor.OffHeap))
	}
	q := feedRequest(t, "desktop", 1<<40)
	q.Profile.Budget = 2*mixedFeed - 1 // of a smaller device than this one
	require.Empty(t, reordered(t, q))
	q = feedRequest(t, "desktop", 1<<40)
	q.Exact = true // the gain is measured for 8-bit activations
	require.Empty(t, reordered(t, q))
	q = feedRequest(t, "desktop", 1<<40)
	q.Kernels = slices.Clone(feedRows) // nor for kernels without vector instructions
	for i := range q.Kernels {
		q.Kernels[i].ISA = "portable"
	}
	require.Empty(t, reordered(t, q))
	q = feedRequest(t, "desktop", 1<<40)
	gains[tensor.Q4_0] = [len(families)]float64{1.1, 0, 0, 1}
	require.Equal(t, "attn_k", reordered(t, q))
	q = feedRequest(t, "desktop", 1<<40)
	q.Header = mixed.with(info("output.weight", tensor.Q4_0, 1000, 1024)) // then the table is only looked up
	require.Equal(t, "attn_q attn_k output", reordered(t, q))
}

func TestFeedOrderByOverride(t *testing.T) {
	const all = "token_embd attn_q attn_k"
	form := func(pattern, form string) Override { return Override{Pattern: pattern, Form: form} }
	for _, c := range []struct {
		profile   string
		available int64
		overrides []Override
		want      string
	}{
		{"desktop", 1 << 40, []Override{form("*", "stored")}, ""},
		{"desktop", 1 << 40, []Override{form("*", "Stored"), form("blk.0.attn_q.weight", "FEED")}, "attn_q"},
		{"desktop", 1 << 40, []Override{form("*attn_q*", "stored")}, "token_embd attn_k"},
		{"desktop", 1 << 40, []Override{form("*attn_q*", "keep")}, all},
		{"desktop", 1 << 40, []Override{form("blk.*", "f32")}, "token_embd"},
		{"desktop", 1 << 40, []Override{{Pattern: "*attn_q*", Place: "mapped"}}, "token_embd attn_k"},
		{"desktop", 1 << 40, []Override{{Pattern: "*attn_q*", Place: "heap"}}, all},
		{"desktop", 1, []Override{form("*", "feed")}, all}, // but for what has another kernel, or none
		{"desktop", 1, []Override{form("*", "feed"), form("token_embd.weight", "stored")}, "attn_q attn_k"},
		{"mobile_2gb", 1, []Override{form("blk.?.attn_[qv].weight", "feed")}, "attn_q"},
		{"desktop", 2 * mixedFeed, []Override{form("blk.0.ffn_up.weight", "feed")}, "ffn_up"}, // takes from what the others could have
		{"desktop", 1 << 40, []Override{form("blk.0.ffn_up.weight", "feed")}, all + " ffn_up"},
		{"desktop", 1, []Override{form("*", "keep")}, ""},
	} {
		require.Equal(t, c.want, reordered(t, feedRequest(t, c.profile, c.available, c.overrides...)), "%+v", c)
	}
	for _, name := range []string{"blk.0.attn_v.weight", "blk.0.attn_output.weight", "blk.0.ffn_down.weight", "output_norm.weight"} {
		_, err := Resolve(feedRequest(t, "desktop", 0, form(name, "feed")))
		require.ErrorIs(t, err, ErrOverride)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, "feed order")
	}
	_, err := Resolve(feedRequest(t, "desktop", 0, form("blk.7.*", "feed")))
	require.ErrorContains(t, err, `pattern "blk.7.*" matches no tensor`)
	q := feedRequest(t, "desktop", 0, form("kv", "feed"))
	q.Needs = []Need{{Name: "kv", Bytes: 1}}
	_, err = Resolve(q)
	require.ErrorContains(t, err, `pattern "kv" matches no tensor`, "needs have a place, and no form")
	require.Error(t, Override{Pattern: "*", Form: "fed"}.Check())

	// With exact products the kernel is the one for F32 activations.
	q = feedRequest(t, "desktop", 0, form("*", "feed"))
	q.Exact = true
	require.Equal(t, all+" attn_output", reordered(t, q))

	// What is asked for by an override need not gain.
	q = feedRequest(t, "desktop", 0, form("*", "feed"))
	gains[tensor.Q5_0] = [len(families)]float64{0.5}
	require.Equal(t, all, reordered(t, q))
}

func TestExplainGoldenFeed(t *testing.T) {
	var b strings.Builder
	for _, q := range []Request{
		feedRequest(t, "desktop", 1<<30), feedRequest(t, "mobile_2gb", 1<<30), feedRequest(t, "desktop", 2<<20),
		feedRequest(t, "mobile_2gb", 1<<30, Override{Pattern: "*", Form: "feed"}, Override{Pattern: "*_k.*", Form: "stored"}),
	} {
		r, err := Resolve(q)
		require.NoError(t, err)
		require.NoError(t, r.Explain(&b))
	}
	golden := filepath.Join("testdata", "feed.txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

// A processor of another family, or one for which nothing is measured, has the values of the first column.
func TestGain(t *testing.T) {
	feedRequest(t, "desktop", 0)
	for _, c := range []struct {
		processor string
		e         tensor.Encoding
		ratio     float64
		family    string
	}{
		{"zen4", tensor.Q4_0, 2, "zen4"}, {"zen3", tensor.Q4_0, 1.1, "unknown"}, {"unknown", tensor.Q4_0, 1.1, "unknown"},
		{"pdp11", tensor.Q4_0, 1.1, "unknown"}, {"zen4", tensor.EncF16, 0, "unknown"},
	} {
		ratio, family := Gain(c.processor, c.e)
		require.Equal(t, c.ratio, ratio, "%+v", c)
		require.Equal(t, c.family, family, "%+v", c)
	}
}

func TestFaster(t *testing.T) {
	r, err := Resolve(feedRequest(t, "mobile_2gb", 0))
	require.NoError(t, err)
	ratio, bytes := r.Faster()
	const q4, rest = (1000 + 1024) * 32 * 18, 256*4*210 + 1024*32*34 + 15*32*18 + 1024*32*2
	const q5 = 1024 * 32 * 22
	require.EqualValues(t, mixedFeed, bytes)
	require.InDelta(t, (q4+q5+rest)/(q4/2.0+q5/1.1+rest), ratio, 1e-9)
	all := Override{Pattern: "*", Form: "stored"}
	r, err = Resolve(feedRequest(t, "desktop", 1<<40, all, Override{Pattern: "*_k.*", Form: "stored"}))
	require.NoError(t, err)
	_, bytes = r.Faster()
	require.EqualValues(t, mixedFeed-q5, bytes, "an override for some weights beats '*=feed'")
	little := feedRequest(t, "mobile_2gb", 0)
	for i, q := range []Request{
		feedRequest(t, "desktop", 1<<40),
		feedRequest(t, "desktop", 1<<40, Override{Pattern: "*_k.*", Form: "stored"}),
		feedRequest(t, "desktop", 1, Override{Pattern: "[bt]*", Form: "keep"}),
		feedRequest(t, "desktop", 1<<40, Override{Pattern: "blk.0.attn_q.weight", Place: "mapped"}),
		little,
	} {
		if q.Profile.Name == little.Profile.Name {
			gains = map[tensor.Encoding][len(families)]float64{tensor.Q4_0: {1.04}}
		}
		r, err = Resolve(q)
		require.NoError(t, err)
		ratio, bytes = r.Faster()
		require.Equal(t, 1.0, ratio, i)
		require.Zero(t, bytes, i)
	}
}
