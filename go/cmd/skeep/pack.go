package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/load/pack"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/spf13/cobra"
)

type packResult struct {
	File    name     `json:"file"`
	Bytes   int64    `json:"bytes"`
	Weights int      `json:"weights"`
	Orders  []string `json:"orders"`
	Made    bool     `json:"made"` // now, else it was there
	Seconds float64  `json:"seconds"`
}

// packOptions are those of a command: notes go to standard error, progress where somebody looks.
func packOptions(c *cobra.Command) (o pack.Options, wipe func(), err error) {
	if o.Folder, err = pack.Default(); err != nil {
		return o, nil, err
	}
	show, wipe := progress(time.Second)
	o.Note = func(text string) {
		wipe()
		fmt.Fprintln(c.ErrOrStderr(), "note:", text)
	}
	if show != nil {
		o.Progress = func(p pack.Progress) {
			show(p.Done, p.Total, map[bool]string{true: "packing", false: "reading"}[p.Packing])
		}
	}
	return o, wipe, nil
}

func packCommand() *cobra.Command {
	var beside bool
	var threads int
	c := &cobra.Command{
		Use:   "pack MODEL",
		Short: "Write the weights of a model in the order that kernels read fastest, to be mapped from then on",
		Long: `pack writes a file with the weights of MODEL in feed order into the pack cache (see skeep cache path), or next to the model. From then
on, run maps it: the load copies nothing, and all processes share one copy in memory. A pack serves every copy of the model with the same
bytes, and no other one. The model itself is not changed. The exit status is 1 when this machine reads no weight of it faster so.`,
		Example: "  skeep pack model.gguf\n  skeep pack model.gguf --beside\n  SKEEP_CACHE=/fast/disk skeep pack model.gguf",
		Args:    cobra.ExactArgs(1),
	}
	format := outputFlag(c, "table")
	c.Flags().BoolVar(&beside, "beside", false, "write it next to the model")
	c.Flags().IntVarP(&threads, "threads", "t", 0, "number of threads that re-order blocks (default: as many as there are processors)")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if _, err := claim(c, modelFile(args)); err != nil {
			return err
		}
		f, err := gguf.Open(args[0], gguf.Options{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		o, wipe, err := packOptions(c)
		if err != nil {
			return err
		}
		o.Beside, o.Threads = beside, threads
		r, err := pack.Make(c.Context(), f, o)
		wipe()
		switch {
		case errors.Is(err, pack.ErrNone):
			return verdict{err}
		case err != nil:
			return err
		}
		if s := r.Elapsed.Seconds(); r.Made {
			fmt.Fprintf(c.ErrOrStderr(), "packed in %.2f s (%s/s)\n", s, resolver.Size(int64(float64(r.Bytes)/s)))
		} else {
			fmt.Fprintln(c.ErrOrStderr(), "it was packed before")
		}
		t := table{columns: []string{"file", "size", "weights", "orders"}}
		t.add(r.Path, resolver.Size(r.Bytes), r.Weights, strings.Join(r.Orders, ", "))
		return write(c.OutOrStdout(), *format, t, packResult{name(r.Path), r.Bytes, r.Weights, r.Orders, r.Made, r.Elapsed.Seconds()})
	}
	return c
}

type cachedPack struct {
	File   name     `json:"file"`
	Bytes  int64    `json:"bytes"`
	Used   string   `json:"used"` // last
	Model  name     `json:"model"`
	Orders []string `json:"orders"`
	Error  string   `json:"error,omitempty"` // why it cannot be used
}

func cacheCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "cache",
		Short: "Look after the packs of models: list, check and remove them",
		Long: `The pack cache is a folder with the weights of models in the order that kernels read fastest (see skeep pack). It is SKEEP_CACHE, or else
skeep in the user's cache directory. Its packs have at most SKEEP_CACHE_LIMIT bytes together (32G unless set): making another one removes those
that were not used for the longest time. Removing a pack disturbs nobody who has it mapped.`,
		Example: "  skeep cache ls\n  skeep cache verify\n  skeep cache rm --all",
	}
	c.AddCommand(cacheListCommand(), cacheRemoveCommand(), cacheVerifyCommand(), &cobra.Command{
		Use: "path", Short: "Print the folder of the packs", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := pack.Default()
			if err == nil {
				_, err = fmt.Fprintln(c.OutOrStdout(), shown.Name(f.Path))
			}
			return err
		},
	})
	return c
}

func cacheListCommand() *cobra.Command {
	c := &cobra.Command{Use: "ls", Short: "List the packs, those that were used last first", Args: cobra.NoArgs}
	format := outputFlag(c, "table")
	c.RunE = func(c *cobra.Command, _ []string) error {
		f, list, err := cached()
		if err != nil {
			return err
		}
		rows, sum := []cachedPack{}, int64(0)
		t := table{columns: []string{"file", "size", "used", "model", "orders"}}
		for _, i := range list {
			row := cachedPack{File: name(filepath.Base(i.Path)), Bytes: i.Bytes, Used: i.Used.Format(time.DateTime), Model: name(i.Source), Orders: i.Orders}
			orders := strings.Join(i.Orders, ", ")
			if i.Err != nil {
				row.Error = shown.Line(i.Err.Error())
				orders = "unusable: " + row.Error
			}
			rows, sum = append(rows, row), sum+i.Bytes
			t.add(filepath.Base(i.Path), resolver.Size(i.Bytes), row.Used, i.Source, orders)
		}
		if *format == "table" {
			fmt.Fprintf(c.ErrOrStderr(), "%s: %d packs, %s of at most %s\n", shown.Name(f.Path), len(rows), resolver.Size(sum), resolver.Size(f.Limit))
		}
		return write(c.OutOrStdout(), *format, t, map[string]any{"folder": name(f.Path), "limit": f.Limit, "bytes": sum, "packs": rows})
	}
	return c
}

// cached is the folder of the packs, and what is in it.
func cached() (pack.Folder, []pack.Info, error) {
	f, err := pack.Default()
	if err != nil {
		return f, nil, err
	}
	list, err := f.List()
	return f, list, err
}

func cacheRemoveCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{Use: "rm PACK...", Short: "Remove packs, by the names that ls prints", Example: "  skeep cache rm --all"}
	c.Flags().BoolVar(&all, "all", false, "remove all packs")
	c.RunE = func(_ *cobra.Command, args []string) error {
		f, list, err := cached()
		switch {
		case err != nil:
			return err
		case all == (len(args) > 0):
			return errors.New("want the names of packs, or --all")
		case all:
			for _, i := range list {
				args = append(args, filepath.Base(i.Path))
			}
		}
		return f.Remove(args...)
	}
	return c
}

func cacheVerifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "verify [PACK...]", Short: "Read packs as a whole and compare them with their digests; without PACK, all of them",
		Long: `verify finds every byte of a pack that was altered since it was made, and says where. PACK is a name that ls prints, or the path of a pack
that is elsewhere. A start with a pack compares its tables only. The exit status is 1 when one is damaged; remove it then.`,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		f, list, err := cached()
		if err != nil {
			return err
		}
		for k, arg := range args {
			if !strings.ContainsRune(arg, filepath.Separator) {
				args[k] = filepath.Join(f.Path, arg)
			}
		}
		if len(args) == 0 {
			for _, i := range list {
				args = append(args, i.Path)
			}
		}
		damaged := 0
		for _, path := range args {
			show, wipe := progress(time.Second)
			var told func(done, total int64)
			if show != nil {
				told = func(done, total int64) { show(done, total, shown.Name(filepath.Base(path))) }
			}
			err := pack.Verify(c.Context(), path, told)
			wipe()
			switch {
			case errors.Is(err, pack.ErrDamaged):
				damaged++
				fmt.Fprintln(c.ErrOrStderr(), shown.Line(err.Error()))
			case err != nil:
				return err
			default:
				fmt.Fprintf(c.OutOrStdout(), "%s: as it was made\n", shown.Name(path))
			}
		}
		if damaged > 0 {
			return verdict{fmt.Errorf("%d of %d packs are damaged", damaged, len(args))}
		}
		return nil
	}
	return c
}
