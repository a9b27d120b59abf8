// Package pack keeps the weights of models in files beside them, in the orders that kernels read fastest. Such a pack is made
// once and mapped from then on: no work at load, and one copy in memory, which all processes share and the system may drop.
//
// A pack is an IREE parameter archive. Its name has the size of the model and the digest of two things: the model's bytes, and
// the orders of the weights. So a pack serves every copy of a model and no other one, and when an order changes, older packs are
// no longer found. Packs are in a folder that all models share, or next to their model; docs/pack.md says what is trusted and why.
package pack

import (
	"errors"

	"github.com/skeep-project/skeep/go/internal/argument"
	"github.com/skeep-project/skeep/go/internal/shown"
)

// The sentinel errors of this package. Errors of the operating system and of packages gguf and skeep are returned as well.
var (
	ErrNone    = errors.New("no pack")            // there is none for this model and machine, or nothing to be packed
	ErrIgnored = errors.New("pack not used")      // a file with the right name that is damaged, foreign, or of another version
	ErrSpace   = errors.New("no room for a pack") // the disk, or the limit of the folder
	ErrDamaged = errors.New("pack is damaged")    // by Verify
	ErrChanged = errors.New("file changed while it was read")
)

// Error says which file is meant, and why. Err is a sentinel error of this package or an I/O error.
type Error struct {
	Path   string // of the pack, its folder or the model
	Reason string
	Err    error
}

func (e *Error) Error() string { return "pack: " + shown.Name(e.Path) + ": " + e.Reason }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// isNil is the error for something that is nil; it wraps skeep.ErrArgument.
func isNil(function, what string) error { return argument.Nil("pack: "+function, what) }

// Options say where packs are, and who is told what. The zero Options are the usual ones.
type Options struct {
	Folder   Folder            // of the packs of all models; without a path, that of Default
	Beside   bool              // Make: next to the model instead of in the folder
	Threads  int               // Make: how many re-order blocks; 0: as many as the process has processors
	Unread   bool              // Find: do not read a model to find its pack; one that the index does not know has none
	Progress func(Progress)    // called from one goroutine while a model is read; may be nil
	Note     func(text string) // what people should know; may be nil
}

// Progress says how much of a model has been read.
type Progress struct {
	Packing     bool  // blocks are re-ordered and written; else the model is only read, to know whether it is the same
	Done, Total int64 // bytes of the model
}

func (o *Options) note(text string) {
	if o.Note != nil {
		o.Note(text)
	}
}

func (o *Options) report(p Progress) {
	if o.Progress != nil {
		o.Progress(p)
	}
}
