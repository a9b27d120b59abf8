package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/skeep-project/skeep/go/quant"
	"github.com/spf13/cobra"
)

func synthCommand() *cobra.Command {
	o := quant.SynthOptions{Type: "Q4_K_M"}
	var family, params string
	var given quant.Shape
	c := &cobra.Command{
		Use:   "synth OUT",
		Short: "Make a model with random weights, of any size",
		Long: `synth writes a model file with random weights, to measure speed and memory without downloading a real model. --params chooses a
well-known shape of about that many parameters; the other flags change it. The same seed always gives the same file. Formats
that skeep can decode but not encode can be made too. It needs little memory whatever the size of the model. OUT is replaced only when
the new file is complete.`,
		Example: "  skeep synth big.gguf --params 1.1B --type q4_k_m\n  skeep synth odd.gguf --layers 2 --width 320 --heads 5 --kv-heads 5 --ff 999 --vocab 1000 --type f16",
		Args:    cobra.ExactArgs(1),
	}
	typeFlags(c, &o.Type, &o.Pure)
	f := c.Flags()
	f.StringVar(&family, "arch", "llama", "architecture: llama")
	f.StringVar(&params, "params", "1.1B", "approximate number of parameters, with suffix K, M or B")
	f.Uint64Var(&o.Seed, "seed", 0, "random seed")
	fields := []struct {
		flag, what string
		of         func(*quant.Shape) *int
	}{
		{"layers", "number of layers", func(s *quant.Shape) *int { return &s.Layers }},
		{"width", "width of the hidden state", func(s *quant.Shape) *int { return &s.Width }},
		{"heads", "number of query heads", func(s *quant.Shape) *int { return &s.Heads }},
		{"kv-heads", "number of key-value heads", func(s *quant.Shape) *int { return &s.KVHeads }},
		{"ff", "width of the feed-forward layers", func(s *quant.Shape) *int { return &s.FF }},
		{"vocab", "size of the vocabulary", func(s *quant.Shape) *int { return &s.Vocab }},
		{"ctx", "maximum context length", func(s *quant.Shape) *int { return &s.Context }},
	}
	for _, x := range fields {
		f.IntVar(x.of(&given), x.flag, 0, x.what+" (default: given by --params)")
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if family != "llama" {
			return fmt.Errorf("--arch %q, want llama", family)
		}
		n, err := parseParams(params)
		if err != nil {
			return err
		}
		if o.Shape, err = quant.ShapeFor(n); err != nil {
			return fmt.Errorf("--params %s: %w", params, err)
		}
		if maxParams := float64(o.Shape.Params()); n > 2*maxParams {
			return fmt.Errorf("--params %s, want at most about %.0fB", params, maxParams/1e9)
		}
		for _, x := range fields {
			if f.Changed(x.flag) {
				*x.of(&o.Shape) = *x.of(&given)
			}
		}
		if _, err := claim(c, nil, named{what: "OUT", path: args[0], model: true}); err != nil {
			return err
		}
		return writeModel(c, args[0], &o.Progress, func() (*quant.Report, error) { return quant.Synth(c.Context(), args[0], o) })
	}
	return c
}

// parseParams reads a number of parameters such as 1.1B.
func parseParams(s string) (float64, error) {
	number, factor := s, 1.0
	for suffix, x := range map[string]float64{"K": 1e3, "M": 1e6, "B": 1e9} {
		if rest, ok := strings.CutSuffix(strings.ToUpper(s), suffix); ok {
			number, factor = rest, x
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if n *= factor; err != nil || !(n >= 1) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("--params %q, want a number such as 4M, 110M or 1.1B", s)
	}
	return n, nil
}
