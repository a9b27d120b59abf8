package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/tokenizer"
	"github.com/spf13/cobra"
)

// await is what work gives, or the reason why ctx ended: reading from a terminal, opening a pipe, or splitting a long
// text takes no notice of that. What foreign input can make wait goes through here.
func await[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := work()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ended.Err(ctx)
	}
}

// maxText bounds the texts that commands take: they lie in memory as a whole, and an input may have no end.
const maxText = 256 << 20

// readText is all of r, which messages call by name.
func readText(name string, r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err == nil && len(b) > maxText {
		err = fmt.Errorf("%s: the text is larger than the maximum of %s", name, resolver.Size(maxText))
	}
	if err != nil {
		return "", err
	}
	return string(b), nil
}

// input is all of standard input.
func input(c *cobra.Command) (string, error) {
	return await(c.Context(), func() (string, error) { return readText("standard input", c.InOrStdin()) })
}

// textFile is all of a file, which may be a pipe.
func textFile(c *cobra.Command, path string) (string, error) {
	return await(c.Context(), func() (string, error) {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close() // only read
		return readText(shown.Name(path), f)
	})
}

// encode is Encode of a text that may be long.
func encode(c *cobra.Command, t *tokenizer.Tokenizer, text string, o tokenizer.EncodeOptions) ([]int32, error) {
	return await(c.Context(), func() ([]int32, error) { return t.Encode(text, o), nil })
}

// profileFile reads a profile from a regular file, as the reader of models does: opening a pipe would wait.
func profileFile(c *cobra.Command, path string, memory int64) (resolver.Profile, error) {
	p, err := await(c.Context(), func() (p resolver.Profile, err error) {
		if st, err := os.Stat(path); err != nil {
			return p, err
		} else if !st.Mode().IsRegular() {
			return p, errors.New("not a regular file")
		}
		f, err := os.Open(path)
		if err != nil {
			return p, err
		}
		defer f.Close() // only read
		return resolver.ReadProfile(f, memory)
	})
	if err != nil {
		err = fmt.Errorf("--profile %s: %w", shown.Name(path), err)
	}
	return p, err
}
