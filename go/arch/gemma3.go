package arch

import (
	"fmt"
	"math"
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// gemma3: of six layers the first five see a window and rotate with a base of their own, unscaled; the
// sixth sees everything. Most files state neither the six nor that base. Norm weights hold the +1
// already. Gemma Team 2025.
var gemma3 = family{
	rope:       tensor.RopeNeoX,
	activation: tensor.GLUGELUTanh,
	tensors:    slices.Concat(outer, attention, qkNorms, feedForward, postNorms),
	keys: slices.Concat(Facts{
		{Name: "rope.freq_base", Aliases: []string{"rope.global.freq_base"}, Effect: Read, Default: 1e6, Reason: "rotary base in layers with full attention",
			Source: "Gemma Team 2025; the other name: " + ollama},
		{Name: "rope.freq_base_swa", Aliases: []string{"rope.local.freq_base"}, Effect: Read, Default: 10_000.0, Reason: "rotary base in layers with a sliding window",
			Source: "Gemma Team 2025; the other name: " + ollama},
		{Name: "attention.sliding_window_pattern", Effect: Read, Default: 6.0, Reason: "n: every n-th layer has full attention; or an array that says for each layer whether it has the window",
			Source: converter + ", " + ollama},
		{Name: "attention.scale", Effect: Read, Default: "1 / √attention.key_length; with 62 layers 1 / √(" + ofWidth + ")", Reason: "scale of the product of query and key",
			Source: converter + "; the default: Gemma Team 2025"},
	}, noExperts, activations("gelu_pytorch_tanh", "gelu_tanh"), common),
	facts: describeGemma3,
}

func describeGemma3(m *Model, r *reader) {
	local := r.localLayers(len(m.Layers), int(r.absent("attention.sliding_window_pattern")))
	base, _ := r.float("rope.freq_base_swa", 1, 1e12)
	_, scaled := r.float("attention.scale", 1e-6, 1e6)
	if r.err != nil {
		return
	}
	m.EmbedScale = float32(math.Sqrt(float64(m.Width)))
	m.everyLayer(func(l *Layer, i int) {
		l.QKNorm, l.PostNorms = true, true
		if len(m.Layers) == 62 && l.Heads > 0 && !scaled { // the 27B model scales by width per head, which is not its head's
			l.AttnScale = float32(1 / math.Sqrt(float64(m.Width)/float64(l.Heads)))
		}
		if !local[i] {
			l.Window = 0
		} else if l.Window > 0 {
			l.Rope = tensor.RopeParams{Form: l.Rope.Form, Dims: l.Rope.Dims, Base: float32(base), Scale: 1, AttnFactor: 1}
		}
	})
}

// localLayers reads which layers see no more than the window: all but every so manieth (as usual if the file does not
// say, 0: all), or those of a list.
func (r *reader) localLayers(layers, usual int) []bool {
	const name = "attention.sliding_window_pattern"
	local := make([]bool, layers)
	key, v := r.find(name)
	if v != nil {
		if a, ok := v.Array(); ok {
			if a.Len() != layers {
				r.fail(ErrInvalid, key, "array of %d values for %d layers", a.Len(), layers)
				return local
			}
			for i := range local {
				if local[i], ok = a.At(i).Bool(); !ok {
					r.fail(ErrInvalid, fmt.Sprintf("%s[%d]", key, i), "is of kind %s, not bool", a.Elem())
				}
			}
			return local
		}
	}
	period, given := r.count(name, 1, maxLayers)
	if !given {
		period = usual
	}
	for i := range local {
		local[i] = period == 0 || i%period != period-1
	}
	return local
}
