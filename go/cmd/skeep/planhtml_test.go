package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Rectangles are inside of the whole, do not overlap, and have areas as their sizes.
func TestTreemapDividesTheWhole(t *testing.T) {
	const hair = 0.01 // of a pixel
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 40).Draw(t, "sizes")
		whole := box{0, 0, 900, 420}
		total := 0.0
		for _, n := range sizes {
			total += float64(n)
		}
		boxes := treemap(whole, sizes)
		require.Len(t, boxes, len(sizes))
		for i, b := range boxes {
			if total == 0 {
				require.Zero(t, b)
				continue
			}
			require.InDelta(t, float64(sizes[i])/total*whole.W*whole.H, b.W*b.H, 1e-3)
			require.GreaterOrEqual(t, b.X, -hair)
			require.GreaterOrEqual(t, b.Y, -hair)
			require.LessOrEqual(t, b.X+b.W, whole.W+hair)
			require.LessOrEqual(t, b.Y+b.H, whole.H+hair)
			for _, c := range boxes[:i] {
				x, y := min(b.X+b.W, c.X+c.W)-max(b.X, c.X), min(b.Y+b.H, c.Y+c.H)-max(b.Y, c.Y)
				require.False(t, x > hair && y > hair, "%v and %v", b, c)
			}
		}
	})
}

// The page asks nothing of a network and shows every weight, with its reason on hover, in areas that fill the picture. A
// browser draws it, where there is one.
func TestPlanAsAPicture(t *testing.T) {
	dir := t.TempDir()
	model, page := filepath.Join(dir, "<model & co>.gguf"), filepath.Join(dir, "plan.html")
	run := func(args ...string) {
		c := exec.Command(itself(t), args...)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	run("synth", model, "--params", "4M", "--type", "q4_0")
	run("plan", model, "--html", page, "--compare", model)
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	text := string(b)
	for _, bad := range []string{"http", "<script", "@import", "url(", "<model"} {
		require.NotContains(t, text, bad)
	}
	require.Equal(t, 2, strings.Count(text, "&lt;model &amp; co&gt;.gguf</h1>"))
	require.Contains(t, text, "<title>blk.0.attn_q.weight\nQ4_0 ")
	area := 0.0
	for _, m := range regexp.MustCompile(`class="area" x="[^"]*" y="[^"]*" width="([0-9.]+)" height="([0-9.]+)"`).FindAllStringSubmatch(text, -1) {
		w, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		h, err := strconv.ParseFloat(m[2], 64)
		require.NoError(t, err)
		area += w * h
	}
	require.InEpsilon(t, 2*mapWidth*mapHeight, area, 0.01)
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Log("chromium is missing: no browser has drawn the page")
		return
	}
	picture := filepath.Join(dir, "plan.png")
	out, err := exec.Command(browser, "--headless", "--no-sandbox", "--disable-gpu", "--screenshot="+picture, "--window-size=1000,800", "file://"+page).CombinedOutput()
	require.NoError(t, err, "%s", out)
	st, err := os.Stat(picture)
	require.NoError(t, err)
	require.Greater(t, st.Size(), int64(10_000), "of a page that is not empty")
}
