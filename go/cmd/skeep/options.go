package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/internal/machine"
	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/model"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/spf13/cobra"
)

// modelFlags adds the flags that decide forms, places and sizes to a command, and returns what reads
// them into options, with a line that says which profile holds and why.
func modelFlags(c *cobra.Command) func() (o model.Options, profile string, err error) {
	var name, kv string
	var forms, places []string
	var o model.Options
	load := string(model.LoadMap)
	f := c.Flags()
	f.StringVar(&name, "profile", "", "device profile: "+strings.Join(resolver.ProfileNames(), ", ")+", or a JSON file (default: chosen by the memory of this machine)")
	f.StringArrayVar(&forms, "form", nil, "form of the tensors whose name matches a pattern: 'PATTERN=FORM', where FORM is keep, f32, f16, bf16 or a packed encoding such as q4_0, or an order (stored, feed), or both ('q4_0+feed'); may be repeated; any other pattern beats '*', otherwise the last match wins")
	f.StringArrayVar(&places, "place", nil, "memory for the tensors whose name matches a pattern: 'PATTERN=heap|offheap|mapped'; may be repeated; any other pattern beats '*', otherwise the last match wins")
	f.IntVarP(&o.Threads, "threads", "t", 0, "number of compute threads (default: the performance cores that this process may use)")
	f.IntVar(&o.Context, "ctx", 0, "maximum number of tokens in the context (default: the model's own maximum, but not more than 4096)")
	f.IntVar(&o.Chunk, "chunk", 512, "process the prompt in steps of at most this many tokens")
	f.StringVar(&load, "load", load, fmt.Sprintf("how weights get into memory: one of %v", model.LoadModes))
	f.BoolVar(&o.Exact, "exact", false, "compute with F32 activations and an F32 KV cache (slower) instead of 8-bit activations")
	f.StringVar(&kv, "kv", "", "number format of the KV cache: f32, f16 or bf16 (default: set by the profile)")
	f.StringVar(&o.Pre, "pre", "", "pre-tokenizer to use if the file names none or one that is not known")
	return func() (model.Options, string, error) {
		here := machine.Here()
		p, why := resolver.Default(here.Memory)
		if name != "" {
			var err error
			if p, err = readProfile(c, name, here.Memory); err != nil {
				return o, "", err
			}
			why = "given by --profile"
		}
		o.Profile, o.Load = &p, model.LoadMode(load)
		var known bool
		if o.Pack, known = packModes[os.Getenv("SKEEP_PACK")]; !known {
			return o, "", fmt.Errorf("SKEEP_PACK=%s, want auto or off", shown.Name(os.Getenv("SKEEP_PACK")))
		}
		if kv != "" {
			e, err := tensor.ParseEncoding(kv)
			if err != nil {
				return o, "", fmt.Errorf("--kv: %w", err)
			}
			o.KV = &e
		}
		for _, list := range []struct {
			flag  string
			items []string
			set   func(*resolver.Override, string)
		}{
			{"form", forms, func(o *resolver.Override, s string) { o.Form = s }},
			{"place", places, func(o *resolver.Override, s string) { o.Place = s }},
		} {
			for _, item := range list.items {
				glob, value, ok := strings.Cut(item, "=")
				if !ok || value == "" {
					return o, "", fmt.Errorf("--%s %q, want GLOB=VALUE", list.flag, item)
				}
				override := resolver.Override{Pattern: glob}
				list.set(&override, value)
				o.Overrides = append(o.Overrides, override)
			}
		}
		return o, fmt.Sprintf("%s (%s)", p.Name, why), o.Check()
	}
}

// packModes are the words that SKEEP_PACK knows.
var packModes = map[string]model.PackMode{"": model.PackUse, "auto": model.PackMake, "off": model.PackOff}

// isProfileFile tells a profile's file from the name of a built-in one.
func isProfileFile(name string) bool { return strings.ContainsAny(name, "./") }

// readProfile takes a built-in profile's name, or else a JSON file's.
func readProfile(c *cobra.Command, name string, memory int64) (resolver.Profile, error) {
	if isProfileFile(name) {
		return profileFile(c, name, memory)
	}
	return resolver.ProfileNamed(name, memory)
}

// embeddedName is what the embedded model is called where a file's path would stand.
const embeddedName = "embedded model"

// modelArg is the optional MODEL argument.
func modelArg(args []string) (path string, isFile bool) {
	if len(args) == 0 {
		return embeddedName, false
	}
	return args[0], true
}

func openModel(c *cobra.Command, args []string, o model.Options) (*model.Model, error) {
	path, isFile := modelArg(args)
	show, wipe := progress(time.Second)
	if show != nil {
		o.Progress = func(p load.Progress) { show(p.Done, p.Total, strings.TrimSpace(p.Work+" "+shown.Name(p.Tensor))) }
	}
	defer wipe()
	defer debug.FreeOSMemory() // reading a large vocabulary leaves more garbage than tokenizer
	if !isFile {
		return model.OpenBytes(c.Context(), path, embedded.Model(), o)
	}
	return model.Open(c.Context(), path, o)
}
