// Command skeep runs, explains and inspects GGUF models. Exit status 0 means done (or "yes"), 1 a
// verdict of "no", 2 a usage error or failure. Data goes to stdout, progress and notes to stderr.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/spf13/cobra"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := interruptible()
	defer stop()
	root, out := rootCommand(), &checkedWriter{ctx: ctx, to: os.Stdout}
	root.SetOut(out)
	notes := shownWriter{os.Stderr}
	root.SetErr(notes)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = out.err
	}
	if err == nil {
		return 0
	}
	if errors.Is(out.err, syscall.EPIPE) {
		return 2 // who read has enough, and needs no word
	}
	err = shown.Error(told(ctx, err))
	if !errorsGoInto(os.Args[1:]) {
		fmt.Fprintln(notes, "skeep:", err)
	}
	if errors.As(err, new(verdict)) {
		return 1
	}
	return 2
}

// verdict is the error of a command whose answer is "no".
type verdict struct{ error }

func (v verdict) Unwrap() error { return v.error }

// refusal makes a strict profile's refusal the answer "no".
func refusal(err error) error {
	var refused *resolver.RefusedError
	var budget *resolver.BudgetError
	if errors.As(err, &refused) || errors.As(err, &budget) {
		return verdict{err}
	}
	return err
}

// isas are the words that SKEEP_ISA knows.
var isas = []string{"portable", "avx2", "avx512", "neon"}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "skeep",
		Short: "One logical tensor, many physical forms: run GGUF models",
		Long: `skeep runs language models stored in GGUF files. For every weight it decides in which form to use it and where in
memory to put it, and prints each decision with its reason before it reads any tensor data. Packed (quantized) weights are then
multiplied as they are, from the pages of the file or from a copy whose blocks are in the order that the processor is fastest from.`,
		Example: `  skeep run                                    the built-in model adds two numbers
  skeep run model.gguf -p "Once upon a time"   generate text with your own model
  skeep explain model.gguf                     where every tensor will be kept, and why`,
		PersistentPreRunE: func(_ *cobra.Command, args []string) error {
			if i := slices.Index(args, ""); i >= 0 {
				return fmt.Errorf("argument %d is empty", i+1)
			}
			if isa := os.Getenv("SKEEP_ISA"); isa != "" && !slices.Contains(isas, isa) {
				return fmt.Errorf("SKEEP_ISA=%s, want %s", shown.Name(isa), strings.Join(isas, ", "))
			}
			if words := os.Getenv("SKEEP_MACHINE"); !core.MachineWords(words) {
				return fmt.Errorf("SKEEP_MACHINE=%s, want some of ahead=BYTES (at most 1048576), panels=1|2, feed=avx2|avx512, stored=avx2|avx512, with commas between them", shown.Name(words))
			}
			return nil
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(runCommand(), inspectCommand(), explainCommand(), planCommand(), dumpCommand(), tokenizeCommand(), kernelsCommand(), perplexityCommand(),
		benchCommand(), quantizeCommand(), synthCommand(), packCommand(), cacheCommand())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return errors.New(shown.Line(err.Error())) })
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultCompletionCmd()
	strict(root)
	return root
}
