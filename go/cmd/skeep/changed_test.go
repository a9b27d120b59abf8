package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/quant"
	"github.com/stretchr/testify/require"
)

// Commands that read payloads tell that the file was cut meanwhile, naming it and the tensor; and a context's end
// with its cause.
func TestCutFilesEndCommands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, os.WriteFile(path, embedded.Model(), 0o600))
	f, err := gguf.Open(path, gguf.Options{})
	require.NoError(t, err)
	defer f.Close()
	tensor := f.Tensors()[len(f.Tensors())-1].Name
	commands := map[string]func(ctx context.Context) error{
		"dump": func(ctx context.Context) error { return dump(ctx, io.Discard, f, tensor, "", "raw") },
		"inspect": func(ctx context.Context) error {
			rows, err := payloadFindings(ctx, f, tensor)
			if err == nil && len(*rows) > 0 {
				err = errors.New((*rows)[0].What)
			}
			return err
		},
		"quantize": func(ctx context.Context) error {
			_, err := quant.File(ctx, f, filepath.Join(t.TempDir(), "out.gguf"), quant.Options{Type: "Q8_0", Threads: 1})
			return err
		},
		"split": func(ctx context.Context) error {
			_, err := gguf.Split(ctx, f, filepath.Join(t.TempDir(), "out"), gguf.PartLimits{Tensors: 20})
			return err
		},
	}
	why := errors.New("the window was closed")
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	for name, run := range commands {
		require.NoError(t, run(context.Background()), name)
		err := run(ended)
		require.ErrorIs(t, err, context.Canceled, name)
		require.ErrorIs(t, err, why, name)
	}
	require.NoError(t, os.Truncate(path, int64(len(embedded.Model())-1)))
	for name, run := range commands {
		err := run(context.Background())
		require.ErrorContains(t, err, "changed since its header was read", name)
		require.ErrorContains(t, err, path, name)
		if name != "inspect" {
			require.ErrorIs(t, err, gguf.ErrChanged, name)
		}
	}
}
