package resolver

import (
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// withEncoders is feedRows with encoders of Q4_0 and Q8_0.
func withEncoders() tensor.Kernels {
	k := feedRows[:len(feedRows):len(feedRows)]
	for _, e := range []tensor.Encoding{tensor.Q4_0, tensor.Q8_0} {
		k = append(k, tensor.KernelInfo{Op: tensor.OpEncode, Encoding: e, Activation: tensor.AnyEncoding, ISA: "portable", Runnable: true})
	}
	return k
}

// A form has two axes, of elements and of order. An override says one or both of them, in any order of words; what it
// leaves open the resolver decides.
func TestFormsOnBothAxes(t *testing.T) {
	const q, down = "blk.0.attn_q.weight", "blk.0.ffn_down.weight" // Q4_0 of 1024 × 1024; F16 of 1024 × 32
	const gain, asStored, narrow = "2.00 times as fast on zen4", "kernel reads it as stored", "blk.0.ffn_up.weight"
	for _, c := range []struct {
		name, form string
		want       string
		bytes      int64
		reason     string
	}{
		{q, "f16", "dequantized to F16", 2 << 20, "override, refused at load when a value exceeds 65504: 3.56 times the stored size; avx2 kernel reads it as stored"},
		{q, "F32+Stored", "dequantized to F32", 4 << 20, "override: 7.11 times the stored size"},
		{q, "stored+keep", "Q4_0 as stored", 32 * 1024 * 18, "but an override keeps it as stored"},
		{q, "keep+feed", "Q4_0 in feed order", 32 * 1024 * 18, "override: avx512 kernel reads it in order"},
		{q, "q4_0", "Q4_0 in feed order", 32 * 1024 * 18, gain}, // as it is
		{down, "q4_0", "requantized to Q4_0 in feed order", 1024 * 18, gain},
		{down, "q4_0+stored", "requantized to Q4_0", 1024 * 18, asStored},
		{down, "feed+q4_0", "requantized to Q4_0 in feed order", 1024 * 18, "override: 0.28 times the stored size: avx512 kernel reads it in order"},
		{down, "q8_0", "requantized to Q8_0", 1024 * 34, asStored},
		{narrow, "q8_0", "requantized to Q8_0", 15 * 32 * 34, asStored},
	} {
		request := feedRequest(t, "desktop", 1<<40, Override{Pattern: c.name, Form: c.form})
		request.Kernels = withEncoders()
		r, err := Resolve(request)
		require.NoError(t, err, "%+v", c)
		d, _ := r.Decision(c.name)
		require.Equal(t, c.want, d.Form.String(), "%+v", c)
		require.Equal(t, c.bytes, d.Form.Bytes, "%+v", c)
		require.Contains(t, d.Reason, c.reason, "%+v", c)
		require.True(t, d.Overridden)
		require.Equal(t, d.Form.Action != Keep || d.Form.Order != (tensor.Order{}), d.Form.Residency == Private, "%+v", c)
	}
	// Conversions are private anyway: neither memory nor a strict profile keeps them from feed order.
	request := feedRequest(t, "mobile_2gb", 0, Override{Pattern: "*", Form: "q4_0"})
	request.Kernels = withEncoders()
	r, err := Resolve(request)
	require.NoError(t, err)
	for name, want := range map[string]string{
		q: "Q4_0 as stored", down: "requantized to Q4_0 in feed order", "blk.0.attn_k.weight": "requantized to Q4_0 in feed order", "output_norm.weight": "F32 as stored",
	} {
		d, _ := r.Decision(name)
		require.Equal(t, want, d.Form.String(), name)
	}
}

// What does not fit an encoding is an error for a name, and left as it is for a pattern.
func TestRequantizeNeedsWholeBlocksAndAnEncoder(t *testing.T) {
	h := mixed.with(info("blk.0.ffn_gate.weight", tensor.EncF16, 1024, 40))
	ask := func(pattern, form string) (*Resolution, error) {
		request := feedRequest(t, "desktop", 1<<40, Override{Pattern: pattern, Form: form})
		request.Header, request.Kernels = h, withEncoders()
		return Resolve(request)
	}
	_, err := ask("blk.0.ffn_gate.weight", "q8_0")
	require.ErrorIs(t, err, ErrOverride)
	require.ErrorContains(t, err, "ffn_gate")
	r, err := ask("*", "q8_0")
	require.NoError(t, err)
	d, _ := r.Decision("blk.0.ffn_gate.weight")
	require.Equal(t, "F16 as stored", d.Form.String())
	require.Contains(t, d.Reason, "the override is not possible: rows are not whole blocks of Q8_0")
	_, err = ask("*", "q5_0")
	require.ErrorContains(t, err, "cannot be requantized: Q5_0 has no encoder")
}

// An override that decides nothing is a mistake.
func TestOverridesWithoutEffect(t *testing.T) {
	all, none := "*", "changes nothing"
	for _, c := range []struct {
		overrides []Override
		want      string
	}{
		{[]Override{{Pattern: all, Form: "f16"}, {Pattern: all, Form: "f32"}}, none},
		{[]Override{{Pattern: all, Place: "heap"}, {Pattern: all, Form: "f32"}}, ""},
		{[]Override{{Pattern: "blk.0.attn_q.weight", Form: "f32"}, {Pattern: "blk.0.attn_?.weight", Form: "f16"}}, none},
		{[]Override{{Pattern: "blk.0.attn_q.weight", Form: "f32"}, {Pattern: all, Form: "f16"}}, ""},
		{[]Override{{Pattern: "token_embd.weight", Form: "f32"}, {Pattern: "blk.*", Form: "f32"}, {Pattern: "output*", Form: "keep"}, {Pattern: all, Form: "f16"}}, none},
	} {
		_, err := Resolve(feedRequest(t, "desktop", 1<<40, c.overrides...))
		if c.want == "" {
			require.NoError(t, err, "%+v", c)
		} else {
			require.ErrorContains(t, err, c.want, "%+v", c)
		}
	}
}

// What a pack serves is in feed order for nothing: neither a strict profile nor memory stands against it, but an override does.
func TestPack(t *testing.T) {
	serves := func(name string, e tensor.Encoding, o tensor.Order) bool {
		return name != "blk.0.attn_k.weight" && e == tensor.Q4_0 && o == tensor.Feed
	}
	for _, c := range []struct {
		profile   string
		available int64
		overrides []Override
		want      string // in feed order
		pages     string // of that, what is pages of the pack
		noMap     bool
	}{
		{"mobile_2gb", 0, nil, "token_embd attn_q", "token_embd attn_q", false},
		{"desktop", 1 << 40, nil, "token_embd attn_q attn_k", "token_embd attn_q", false},
		{"desktop", 1 << 40, nil, "token_embd attn_q attn_k", "", true},
		{"desktop", 2*1024*32*22 - 1, nil, "token_embd attn_q", "token_embd attn_q", false}, // too little for what the pack does not have
		{"desktop", 2 * 1024 * 32 * 22, nil, "token_embd attn_q attn_k", "token_embd attn_q", false},
		{"mobile_2gb", 0, []Override{{Pattern: "*", Form: "stored"}}, "", "", false},
		{"mobile_2gb", 0, []Override{{Pattern: "*", Form: "feed"}}, "token_embd attn_q attn_k", "token_embd attn_q", false},
		{"desktop", 1 << 40, []Override{{Pattern: "*attn_q*", Place: "offheap"}}, "token_embd attn_q attn_k", "token_embd", false},
		{"mobile_2gb", 0, []Override{{Pattern: "*attn_q*", Place: "mapped"}}, "token_embd", "token_embd", false},
	} {
		q := feedRequest(t, c.profile, c.available, c.overrides...)
		q.Pack = &Pack{Name: "m.irpa", Serves: serves}
		q.Profile.Map = !c.noMap
		r, err := Resolve(q)
		require.NoError(t, err)
		var fed, pages []string
		for _, d := range r.Decisions {
			name := short(d.Name)
			if d.Form.Order == tensor.Feed {
				fed = append(fed, name)
			}
			if d.Form.Residency == PackPages {
				pages = append(pages, name)
				require.Equal(t, tensor.Mapped, d.Spec.Domain)
				require.False(t, d.Private() || d.Form.Copied())
				require.Contains(t, d.Reason, "mapped from the pack m.irpa")
			}
		}
		require.Equal(t, c.want, strings.Join(fed, " "), "%+v", c)
		require.Equal(t, c.pages, strings.Join(pages, " "), "%+v", c)
	}
}

// A strict budget counts private memory, and file pages only if the profile says so.
func TestBudgetCountsPrivateMemory(t *testing.T) {
	q := request(t, "mobile_2gb", small[:3:3])
	private := int64(1024*4 + 1<<20 + 64) // a norm as F32, and the needs
	mapped := int64((1000 + 1024) * 32 * 18)
	for _, c := range []struct {
		budget int64
		count  bool
		fits   bool
	}{{private, false, true}, {private - 1, false, false}, {private + mapped, true, true}, {private + mapped - 1, true, false}} {
		q.Profile.Budget, q.Profile.CountMapped = c.budget, c.count
		r, err := Resolve(q)
		require.Equal(t, private, r.Private())
		require.Equal(t, mapped, r.In(tensor.Mapped))
		require.Equal(t, private+mapped, r.Total())
		var over *BudgetError
		if c.fits {
			require.NoError(t, err, "%+v", c)
		} else {
			require.ErrorAs(t, err, &over, "%+v", c)
			require.Equal(t, map[bool]string{false: "kv", true: "weights"}[c.count], over.Largest)
		}
	}
	// Overrides outrank it, and that is noted.
	q.Profile.Budget, q.Profile.CountMapped = private, false
	q.Overrides = []Override{{Pattern: "*", Form: "f32"}}
	r, err := Resolve(q)
	require.NoError(t, err)
	require.Equal(t, []string{
		"profile mobile_2gb is strict and dequantizes nothing; overrides dequantize 2 weights",
		"profile mobile_2gb allows 1.00 MiB; overrides of weights make it 8.91 MiB"}, r.Notes)
}

// A conversion that shrinks a weight is no cost, and a strict profile does not refuse it for one.
func TestShrinkingIsNotRefused(t *testing.T) {
	r, err := Resolve(request(t, "mobile_2gb", header{info("blk.0.attn_q.weight", tensor.EncF64, 64, 64)}))
	require.NoError(t, err)
	d, _ := r.Decision("blk.0.attn_q.weight")
	require.Equal(t, "dequantized to F32", d.Form.String())
	require.Contains(t, d.Reason, "0.50 times the stored size")
}
