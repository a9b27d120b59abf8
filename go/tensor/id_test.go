package tensor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestParseID(t *testing.T) {
	for name, want := range map[string]ID{
		"token_embd.weight":           {-1, TokenEmbed, Weight},
		"output.weight":               {-1, Output, Weight},
		"output.bias":                 {-1, Output, Bias},
		"output_norm.weight":          {-1, OutputNorm, Weight},
		"rope_freqs.weight":           {-1, RopeFreqs, Weight},
		"blk.0.attn_q.weight":         {0, AttnQ, Weight},
		"blk.17.attn_qkv.bias":        {17, AttnQKV, Bias},
		"blk.3.ffn_gate_up_exps.bias": {3, GateUpExperts, Bias},
		"blk.3.ffn_gate_inp.weight":   {3, RouterGate, Weight},
		"blk.3.attn_sinks.weight":     {3, AttnSinks, Weight},
	} {
		id, ok := ParseID(name)
		assert.True(t, ok, name)
		assert.Equal(t, want, id, name)
		assert.Equal(t, name, id.String())
	}
	for _, name := range []string{"", "blk", "blk.", "blk.1", "blk.1.", "blk.1.attn_q", "blk.1.attn_q.scale",
		"blk.01.attn_q.weight", "blk.+1.attn_q.weight", "blk.-1.attn_q.weight", "blk.x.attn_q.weight",
		"blk.2147483648.attn_q.weight", "attn_q.weight", "blk.1.token_embd.weight", "output", ".weight",
		"output.weight.weight", "blk.1.ffn_gate.3.weight", "mm.0.weight"} {
		id, ok := ParseID(name)
		assert.False(t, ok, name)
		assert.Zero(t, id, name)
	}
}

func TestIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := IDOf(Role(rapid.IntRange(1, len(roles)-1).Draw(t, "role")), rapid.IntRange(0, 1<<31-1).Draw(t, "layer"))
		id.Kind = Kind(rapid.IntRange(0, len(kinds)-1).Draw(t, "kind"))
		got, ok := ParseID(id.String())
		if !ok || got != id {
			t.Fatalf("%v came back as %v, %v", id, got, ok)
		}
	})
}

func TestRolesHaveDistinctNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range Roles() {
		assert.NotEmpty(t, roles[r].stem, "role %d", r)
		assert.False(t, seen[r.String()], r.String())
		seen[r.String()] = true
	}
	assert.Len(t, seen, len(roles)-1)
	assert.Equal(t, "role 0", NoRole.String())
	assert.Equal(t, "role 255", Role(255).String())
	assert.Equal(t, "kind 9", Kind(9).String())
}

func FuzzParseID(f *testing.F) {
	f.Add("blk.3.attn_q.weight")
	f.Fuzz(func(t *testing.T, name string) {
		if id, ok := ParseID(name); ok && id.String() != name {
			t.Fatalf("%q became %q", name, id)
		}
	})
}
