package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/model"
	"github.com/skeep-project/skeep/go/tokenizer"
	"github.com/spf13/cobra"
)

// perplexityResult is what perplexity prints as JSON. Divergences are there with --against-exact.
type perplexityResult struct {
	Tokens     int     `json:"tokens"` // predicted: the text's without the first
	NLL        number  `json:"nll"`    // mean negative log-likelihood, nats
	Perplexity number  `json:"perplexity"`
	KLMean     *number `json:"kl_mean,omitempty"`
	KLMedian   *number `json:"kl_median,omitempty"`
	KLP99      *number `json:"kl_p99,omitempty"`
	Top1       *number `json:"top1,omitempty"` // share of places with the same most probable id
}

func perplexityCommand() *cobra.Command {
	var against bool
	c := &cobra.Command{
		Use:   "perplexity MODEL FILE",
		Short: "Measure how well a model predicts a text",
		Long: `perplexity computes the negative log-likelihood of the beginning of a text: a BOS token, then at most --ctx tokens.
With --against-exact the text is evaluated a second time, with F32 activations and an F32 KV cache (as --exact does), and the
two sets of predictions are compared.`,
		Example: "  skeep perplexity model.gguf text.txt\n  skeep perplexity model.gguf text.txt --against-exact -o json",
		Args:    cobra.ExactArgs(2),
	}
	format := outputFlag(c, "table")
	options := modelFlags(c)
	c.Flags().BoolVar(&against, "against-exact", false, "also evaluate with --exact, and compare the predictions")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		o, _, err := options()
		if err != nil {
			return err
		}
		if _, err := claim(c, append(modelFile(args), named{what: "FILE", path: args[1]})); err != nil {
			return err
		}
		text, err := textFile(c, args[1])
		if err != nil {
			return err
		}
		var ids []int32
		o.Prepare = func(m *model.Model) (err error) {
			if ids, err = encode(c, m.Tokenizer(), text, tokenizer.EncodeOptions{BOS: true}); err != nil {
				return err
			}
			if m.Context() < 2 {
				return errors.New("a context of 1 position predicts nothing, want at least 2: set --ctx")
			}
			ids = ids[:min(len(ids), m.Context())]
			if len(ids) < 2 {
				return fmt.Errorf("%s: the text has only %d token(s); at least 2 are needed", shown.Name(args[1]), len(ids))
			}
			return nil
		}
		m, err := openModel(c, args[:1], o)
		if err != nil {
			return refusal(err)
		}
		defer func() { err = errors.Join(err, m.Close()) }()
		nll, err := m.NegativeLogLikelihoods(c.Context(), ids)
		if err != nil {
			return err
		}
		r := perplexityResult{Tokens: len(nll)}
		for i, x := range nll {
			if math.IsNaN(x) {
				return fmt.Errorf("the model's prediction of token %d is not a number", i+1)
			}
			r.NLL += number(x / float64(len(nll)))
		}
		r.Perplexity = number(math.Exp(float64(r.NLL)))
		t := table{columns: []string{"measure", "value"}}
		t.add("tokens", r.Tokens)
		t.add("nll", fmt.Sprintf("%.5f", r.NLL))
		t.add("perplexity", fmt.Sprintf("%.4f", r.Perplexity))
		if against {
			o.Exact, o.KV = true, nil
			exact, err := openModel(c, args[:1], o)
			if err != nil {
				return err
			}
			d, err := model.Compare(c.Context(), exact, m, ids)
			if err = errors.Join(err, exact.Close()); err != nil {
				return err
			}
			mean, median, p99, top := number(d.Mean()), number(d.Quantile(0.5)), number(d.Quantile(0.99)), number(d.SameTop)/number(len(d.KL))
			r.KLMean, r.KLMedian, r.KLP99, r.Top1 = &mean, &median, &p99, &top
			t.add("kl mean", fmt.Sprintf("%.6f", mean))
			t.add("kl median", fmt.Sprintf("%.6f", median))
			t.add("kl p99", fmt.Sprintf("%.6f", p99))
			t.add("same best id", fmt.Sprintf("%d of %d", d.SameTop, len(d.KL)))
		}
		return write(c.OutOrStdout(), *format, t, r)
	}
	return c
}
