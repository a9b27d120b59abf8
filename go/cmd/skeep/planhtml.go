package main

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/tensor"
)

//go:embed plan.html
var planPage embed.FS

// planTemplate is the page: one file, without scripts and without anything from a network.
var planTemplate = template.Must(template.New("plan.html").Funcs(template.FuncMap{"size": resolver.Size}).ParseFS(planPage, "plan.html"))

// picture is a plan as the page shows it.
type picture struct {
	Result planResult
	Short  string
	Areas  []area
	Legend []colored
	Pools  []bar
	Limit  float64 // where the limit is in the bars
	Curve  string  // points of bytes of the KV cache over context
	Marks  []mark
	Most   string // the top of the curve
}

// area is a tensor, or another line of a plan.
type area struct {
	Box   box
	Color string
	Label string // "" when there is no room
	Title string // on hover
}

type colored struct{ Color, Name string }

type bar struct {
	Name         string
	Bytes        int64
	Width, Start float64
	Color        string
}

type mark struct {
	X    float64
	Text string
}

// Colors of forms, in the order in which they are used. People with any color vision can tell the first seven apart (Okabe &
// Ito 2008); more forms are seldom, and hover texts tell them.
var colors = []string{"#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#0072B2", "#D55E00", "#88CCEE", "#DDCC77", "#44AA99", "#AA4499"}

// Grays of what is no weight.
var grays = map[string]string{string(resolver.GroupKV): "#999999", string(resolver.GroupSlab): "#BBBBBB", string(resolver.GroupProcess): "#DDDDDD"}

const (
	mapWidth, mapHeight     = 900, 420
	barWidth                = 900
	curveWidth, curveHeight = 420, 160
)

// writePicture writes the plans as a page.
func writePicture(w io.Writer, results []planResult, plans []*resolver.Plan) error {
	palette := map[string]string{}
	most := int64(1) // the largest of what the bars show
	for _, p := range plans {
		most = max(most, p.Total(), min(p.Limit, 4*p.Total()))
	}
	var all []picture
	for i, p := range plans {
		all = append(all, draw(results[i], p, palette, most))
	}
	return planTemplate.Execute(w, all)
}

func draw(r planResult, p *resolver.Plan, palette map[string]string, most int64) picture {
	v := picture{Result: r, Short: planShort(r)}
	color := func(name string) string {
		c := grays[name]
		if c == "" {
			if c = palette[name]; c == "" {
				c = colors[len(palette)%len(colors)]
				palette[name] = c
			}
		}
		if entry := (colored{c, name}); !slices.Contains(v.Legend, entry) {
			v.Legend = append(v.Legend, entry)
		}
		return c
	}
	var sizes []int64
	for _, d := range p.Resolution.Decisions {
		if !d.IsWeight || d.Form.Bytes == 0 || d.Form.Action == resolver.Skip {
			continue
		}
		place := d.Spec.Domain.String()
		if d.Spec.Domain == tensor.Mapped && d.Form.Residency == resolver.PackPages {
			place = "pack"
		}
		v.Areas = append(v.Areas, area{Color: color(d.Form.String()), Label: d.Name,
			Title: fmt.Sprintf("%s\n%s, %s, %s\n%s", d.Name, d.Form, place, resolver.Size(d.Form.Bytes), d.Reason)})
		sizes = append(sizes, d.Form.Bytes)
	}
	for _, t := range p.Terms {
		if t.Group == resolver.GroupWeights || t.Bytes == 0 {
			continue
		}
		v.Areas = append(v.Areas, area{Color: color(string(t.Group)), Label: t.Name, Title: fmt.Sprintf("%s\n%s, %s\n%s", t.Name, t.Domain, resolver.Size(t.Bytes), t.Formula)})
		sizes = append(sizes, t.Bytes)
	}
	for i, b := range treemap(box{0, 0, mapWidth, mapHeight}, sizes) {
		v.Areas[i].Box = b
		if v.Areas[i].Label = shorten(shown.Name(v.Areas[i].Label), int(b.W/7)); b.H < 14 {
			v.Areas[i].Label = ""
		}
	}
	scale := float64(barWidth) / float64(most)
	v.Pools = []bar{{"private memory", p.Private, float64(p.Private) * scale, 0, "#0072B2"}, {"file pages", p.Mapped, float64(p.Mapped) * scale, float64(p.Private) * scale, "#E69F00"}}
	if p.Limit > 0 {
		v.Limit = min(float64(p.Limit)*scale, barWidth)
	}
	v.curve(p)
	return v
}

// curve is the KV cache over contexts, up to twice the plan's.
func (v *picture) curve(p *resolver.Plan) {
	const steps = 32
	longest := 2 * p.KV.Context
	type point struct {
		context int
		bytes   int64
	}
	var points []point
	top := int64(1)
	for i := 0; i <= steps; i++ {
		kv := p.KV
		kv.Context = max(1, longest*i/steps)
		kv.Chunk = min(kv.Chunk, kv.Context)
		n, err := p.Sizes.KVBytes(kv, p.KVFormat)
		if err != nil {
			return
		}
		points = append(points, point{kv.Context, n * int64(p.Sequences)})
		top = max(top, n*int64(p.Sequences))
	}
	var text []string
	for _, x := range points {
		text = append(text, fmt.Sprintf("%.1f,%.1f", curveWidth*float64(x.context)/float64(longest), curveHeight*(1-float64(x.bytes)/float64(top))))
	}
	v.Curve, v.Most = strings.Join(text, " "), resolver.Size(top)
	v.Marks = []mark{{0, "0"}, {curveWidth / 2, fmt.Sprint(p.KV.Context)}, {curveWidth, fmt.Sprint(longest)}}
}

// shorten cuts a name to n characters; "" when fewer than 4 would be left.
func shorten(name string, n int) string {
	name = strings.TrimSuffix(path.Base(name), ".weight")
	r := []rune(name)
	switch {
	case n < 4:
		return ""
	case len(r) <= n:
		return name
	}
	return string(r[:n-1]) + "…"
}
