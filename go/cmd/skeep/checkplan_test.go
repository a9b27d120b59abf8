package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/quant"
	"github.com/skeep-project/skeep/go/resolver"
)

// What a plan says is what allocator and system say, for every profile, load mode, form and size, and for every encoding: each
// value of one beside each value of another. Case D15. Case D26. Case E13.
func TestPlanIsWhatIsMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("runs 40 models; run without -short")
	}
	dir := t.TempDir()
	command := filepath.Join(dir, "skeep")
	out, err := exec.Command("go", "build", "-o", command, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	profiles := resolver.ProfileNames()
	modes := []string{"mmap", "read", "direct", "prewarm", "locked"}
	types := []string{"q4_0", "q4_k_m", "q5_k_m", "q8_0", "f16", "bf16", "q3_k_m", "iq4_nl"}
	sizes := []string{"4M", "15M", "110M"}
	forms := []string{"", "*=stored", "*=feed", "*=f16"}
	flags := [][]string{{"--chunk", "128"}, {"--ctx", "64"}, {"--exact", "--chunk", "128"}, {"--chunk", "64", "--kv", "f32"}, {"--place", "*ffn_up*=heap", "--chunk", "128"}}
	files := map[string]string{}
	model := func(size, kind string) string {
		name := filepath.Join(dir, size+kind+".gguf")
		if files[name] == "" {
			n, err := parseParams(size)
			require.NoError(t, err)
			shape, err := quant.ShapeFor(n)
			require.NoError(t, err)
			_, err = quant.Synth(context.Background(), name, quant.SynthOptions{Shape: shape, Type: kind})
			require.NoError(t, err)
			files[name] = name
		}
		return name
	}
	for _, row := range pairs(len(types), len(modes), len(flags), len(profiles), len(forms), len(sizes)) {
		size := sizes[row[5]]
		if size == "110M" && row[2] == 2 { // exact products of the largest take long
			size = "15M"
		}
		args := []string{"run", model(size, types[row[0]]), "--ids", "300,301,302", "--check-plan", "-o", "json",
			"--profile", profiles[row[3]], "--load", modes[row[1]]}
		if forms[row[4]] != "" {
			args = append(args, "--form", forms[row[4]])
		}
		args = append(args, flags[row[2]]...)
		name := strings.Join(args[1:], " ")
		cmd := exec.Command(command, args...)
		cmd.Env = append(os.Environ(), "SKEEP_PACK=off")
		var notes strings.Builder
		cmd.Stderr = &notes
		out, err := cmd.Output()
		var r struct {
			Lines []checkedLine
			OK    bool
		}
		require.NoError(t, json.Unmarshal(out, &r), "%s: %s", name, notes.String())
		require.Len(t, r.Lines, 6)
		for _, l := range r.Lines {
			if !l.OK {
				t.Errorf("%s: %+v", name, l)
			}
		}
		require.Equal(t, r.OK, err == nil, name)
	}
}

// pairs lists rows in which any two columns have every pair of their values, with few rows: greedily, the row that has most
// pairs that are still missing.
func pairs(sizes ...int) (rows [][]int) {
	type pair struct{ a, x, b, y int }
	missing := map[pair]bool{}
	for a := range sizes {
		for b := a + 1; b < len(sizes); b++ {
			for x := range sizes[a] {
				for y := range sizes[b] {
					missing[pair{a, x, b, y}] = true
				}
			}
		}
	}
	for len(missing) > 0 {
		row := make([]int, len(sizes))
		for c := range sizes {
			best, most := 0, -1
			for x := range sizes[c] {
				n := 0
				for p := range missing { // pairs with the columns before, and those that the columns behind may make
					switch {
					case p.b == c && p.y == x && row[p.a] == p.x:
						n += 100
					case p.a == c && p.x == x:
						n++
					}
				}
				if n > most {
					best, most = x, n
				}
			}
			row[c] = best
		}
		for p := range missing {
			if row[p.a] == p.x && row[p.b] == p.y {
				delete(missing, p)
			}
		}
		rows = append(rows, row)
	}
	return rows
}
