package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/internal/output"
	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/load/pack"
	"github.com/spf13/cobra"
)

// named is a file, and the flag or argument that names it.
type named struct {
	what, path string
	part       bool // it is another part of the split set that is named
	model      bool // to be written: it must be whole before it has its name
}

func (n named) String() string {
	if n.path == "" {
		return n.what // a standard stream
	}
	return n.what + " " + shown.Name(n.path)
}

// conflictError says that a file would be written that is read, or written otherwise, by the same command. It wraps
// output.ErrInUse.
type conflictError struct {
	written, other named
	read           bool // the other is
}

func (e *conflictError) Error() string {
	if e.other.part {
		return fmt.Sprintf("%s is a part of %s: %s", e.written, e.other.what, shown.Name(e.other.path))
	}
	if e.read {
		return fmt.Sprintf("%s is the input itself: %s", e.written, e.other)
	}
	return fmt.Sprintf("%s and %s are the same file", e.written, e.other)
}

func (e *conflictError) Unwrap() error { return output.ErrInUse }

// modelFile is the MODEL argument as a file that is read, if there is one.
func modelFile(args []string) []named {
	if path, isFile := modelArg(args); isFile {
		return []named{{what: "MODEL", path: path}}
	}
	return nil
}

// claim checks, before anything is opened, that nothing a command writes is something that it reads: the files that
// it names, the other parts of a split set, a profile, standard input; nor a pack, which a run may map; nor written twice. It returns where the
// writes lead, nil for those without a path. Standard output and standard error are writes of every command.
func claim(c *cobra.Command, reads []named, writes ...named) ([]*output.Target, error) {
	type file struct {
		named
		info os.FileInfo
	}
	var in, out []file
	if p := c.Flag("profile"); p != nil && isProfileFile(p.Value.String()) {
		reads = append(reads, named{what: "--profile", path: p.Value.String()})
	}
	for _, r := range reads {
		for _, path := range gguf.PartPaths(r.path) {
			if info, err := os.Stat(path); err == nil { // what is not there is told by who opens it
				in = append(in, file{named{what: r.what, path: path, part: path != r.path}, info})
			}
		}
	}
	for _, s := range []struct {
		f    *os.File
		what string
		list *[]file
	}{{os.Stdin, "standard input", &in}, {os.Stdout, "standard output", &out}, {os.Stderr, "standard error", &out}} {
		if info, err := s.f.Stat(); err == nil && info.Mode().IsRegular() {
			*s.list = append(*s.list, file{named{what: s.what}, info})
		}
	}
	for _, o := range out {
		for _, i := range in {
			if os.SameFile(o.info, i.info) {
				return nil, &conflictError{o.named, i.named, true}
			}
		}
	}
	targets := make([]*output.Target, len(writes))
	for k, w := range writes {
		if w.path == "" {
			continue
		}
		if w.path == "-" {
			return nil, fmt.Errorf("%s, want the name of a file: /dev/stdout is standard output", w)
		}
		t, err := output.Find(w.path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.what, err)
		}
		if w.model && t.Streams() {
			return nil, fmt.Errorf("%s: %s is a device, a pipe or an open stream, want a regular file", w.what, shown.Name(w.path))
		}
		if pack.Is(w.path) {
			return nil, fmt.Errorf("%s is a file of the pack cache, which skeep cache rm removes: %w", w, output.ErrInUse)
		}
		for _, i := range in {
			if t.Is(i.info) {
				return nil, &conflictError{w, i.named, true}
			}
		}
		for _, o := range out {
			if !t.Streams() && t.Is(o.info) {
				return nil, &conflictError{w, o.named, false}
			}
		}
		for j, other := range targets[:k] {
			if other != nil && t.Same(*other) {
				return nil, &conflictError{w, writes[j], false}
			}
		}
		targets[k] = &t
	}
	return targets, nil
}

// errorsGoInto reports whether standard error is a file that a word of the command line names, alone or behind a
// flag, or that standard input is: what is written there would spoil a model. It asks of words, not of what they
// mean, since what a command line means may be what is wrong with it.
func errorsGoInto(words []string) bool {
	to, err := os.Stderr.Stat()
	if err != nil || !to.Mode().IsRegular() {
		return false
	}
	if in, err := os.Stdin.Stat(); err == nil && os.SameFile(in, to) {
		return true
	}
	for _, word := range words {
		_, behind, _ := strings.Cut(word, "=")
		for _, name := range []string{word, behind} {
			for _, path := range gguf.PartPaths(name) {
				if info, err := os.Stat(path); err == nil && os.SameFile(info, to) {
					return true
				}
			}
		}
	}
	return false
}
