package tokenizer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/skeep-project/skeep/go/internal/shown"
)

// The sentinel errors. Every error of New wraps one of them.
var (
	ErrMissing     = errors.New("tokenizer: required key is absent")      // a required key
	ErrInvalid     = errors.New("tokenizer: invalid vocabulary")          // a key has the wrong kind, length or value
	ErrUnsupported = errors.New("tokenizer: not supported")               // another kind of tokenizer
	ErrPre         = errors.New("tokenizer: pre-tokenizer not supported") // see Pretokenizers and Options.Pre
)

// Error says which metadata key of a vocabulary is wrong and why.
type Error struct {
	File   string // the header's name
	Key    string // metadata key
	Index  int    // element of its array, or -1
	Reason string
	Err    error // one of the sentinels above
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("tokenizer: " + shown.Name(e.Key))
	if e.Index >= 0 {
		fmt.Fprintf(&b, "[%d]", e.Index)
	}
	b.WriteString(": " + e.Reason)
	if e.File != "" {
		b.WriteString(" in " + shown.Name(e.File))
	}
	return b.String()
}

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// PreError says that a vocabulary's pre-tokenizer is absent or unknown. A wrong guess would split text differently than
// in the model's training, so the caller must give the name in Options.Pre. It wraps ErrPre.
type PreError struct {
	File  string   // the header's name
	Name  string   // "" when absent
	Known []string // names that Options.Pre takes
}

func (e *PreError) Error() string {
	what := fmt.Sprintf("%s: unknown pre-tokenizer %s", keyPre, quote(e.Name))
	switch e.Name {
	case "":
		what = keyPre + ": absent, so it is unknown how to split text"
	case "default":
		what = keyPre + `: "default" does not say how to split text`
	}
	if e.File != "" {
		what += " in " + shown.Name(e.File)
	}
	return fmt.Sprintf("tokenizer: %s; choose one of %s", what, strings.Join(e.Known, ", "))
}

// Unwrap returns ErrPre.
func (e *PreError) Unwrap() error { return ErrPre }

// quote is a text of a file's as messages show it.
func quote(s string) string { return shown.Quoted(s, 64) }
