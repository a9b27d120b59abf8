package main

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/tokenizer"
	"github.com/spf13/cobra"
)

func tokenizeCommand() *cobra.Command {
	var split, pre string
	var o tokenizer.EncodeOptions
	var decode bool
	c := &cobra.Command{
		Use:   "tokenize [MODEL]",
		Short: "Turn text on standard input into token ids, or ids into text",
		Long: `tokenize reads standard input as one text and prints its token ids on one line. With --split TEXT the input is cut at every
occurrence of TEXT, and the ids of each piece are printed on a line of their own. --decode does the reverse: it reads lines of ids
and prints the text of each line.`,
		Example: "  printf 'Hello' | skeep tokenize model.gguf\n  echo '1 15043' | skeep tokenize model.gguf --decode",
		Args:    cobra.MaximumNArgs(1),
	}
	f := c.Flags()
	f.StringVar(&split, "split", "", "cut the input into several texts at every occurrence of this")
	f.BoolVar(&o.BOS, "bos", false, "add the BOS and EOS tokens that the model file asks for")
	f.BoolVar(&o.Special, "special", false, "recognize special tokens written out in the text; with --decode, print them")
	f.BoolVar(&decode, "decode", false, "read token ids, print text")
	f.StringVar(&pre, "pre", "", "pre-tokenizer to use if the file names none or one that is not known")
	c.MarkFlagsMutuallyExclusive("decode", "split")
	c.MarkFlagsMutuallyExclusive("decode", "bos")
	c.RunE = func(c *cobra.Command, args []string) error {
		if known := tokenizer.Pretokenizers(); pre != "" && !slices.Contains(known, pre) {
			return &tokenizer.PreError{Name: pre, Known: known}
		}
		if _, err := claim(c, modelFile(args)); err != nil {
			return err
		}
		source, err := header(args)
		if err != nil {
			return err
		}
		t, err := tokenizer.New(source, tokenizer.Options{Pre: pre})
		if err != nil {
			return err
		}
		if err := source.Close(); err != nil {
			return err
		}
		in, err := input(c)
		if err != nil {
			return err
		}
		out := bufio.NewWriter(c.OutOrStdout())
		defer out.Flush()
		if decode {
			lines, err := await(c.Context(), func() ([][]int32, error) { return parseLines(in, t.Len()) })
			if err != nil {
				return err
			}
			for _, ids := range lines {
				fmt.Fprintln(out, t.Decode(ids, tokenizer.DecodeOptions{Special: o.Special}))
			}
			return out.Flush()
		}
		if o.EOS = o.BOS; t.AddEOS() {
			fmt.Fprintf(c.ErrOrStderr(), "note: the model file asks for EOS (id %d) at the end of a text; --bos adds it. A text that is to be continued or predicted has no EOS\n", t.EOS())
		}
		texts := []string{in}
		if split != "" {
			texts = strings.Split(in, split)
		}
		for _, text := range texts {
			ids, err := encode(c, t, text, o)
			if err != nil {
				return err
			}
			for i, id := range ids {
				if i > 0 {
					out.WriteByte(' ')
				}
				out.WriteString(strconv.Itoa(int(id)))
			}
			out.WriteByte('\n')
		}
		return out.Flush()
	}
	return c
}

// parseLines reads the ids of each line, all of a vocabulary of n: all are good before the first is shown.
func parseLines(text string, n int) (lines [][]int32, err error) {
	for line := range strings.Lines(text) {
		var ids []int32 // an empty line is an empty text, as it is written
		if line = strings.TrimSpace(line); line != "" {
			if ids, err = parseIDs(line); err == nil {
				err = checkIDs(ids, n)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, ids)
	}
	return lines, nil
}

// header opens MODEL, or the embedded model, for its header and payload.
func header(args []string) (*gguf.File, error) {
	if path, isFile := modelArg(args); isFile {
		return gguf.Open(path, gguf.Options{HeaderOnly: true})
	}
	s, err := load.Bytes(embeddedName, embedded.Model())
	return s.File, err
}
