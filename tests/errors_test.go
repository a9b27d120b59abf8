package tests

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/exec"
	"github.com/skeep-project/skeep/go/export/irpa"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/load/pack"
	"github.com/skeep-project/skeep/go/model"
	"github.com/skeep-project/skeep/go/quant"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/sample"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/tokenizer"
	"github.com/stretchr/testify/require"
)

var sentinels = map[string]error{
	"arch.ErrInvalid": arch.ErrInvalid, "arch.ErrMissing": arch.ErrMissing, "arch.ErrUnsupported": arch.ErrUnsupported,
	"exec.ErrNoStep":  exec.ErrNoStep,
	"gguf.ErrChanged": gguf.ErrChanged, "gguf.ErrFormat": gguf.ErrFormat, "gguf.ErrInUse": gguf.ErrInUse, "gguf.ErrLimit": gguf.ErrLimit,
	"gguf.ErrNotFound": gguf.ErrNotFound, "gguf.ErrPayload": gguf.ErrPayload, "gguf.ErrSplit": gguf.ErrSplit,
	"gguf.ErrTruncated": gguf.ErrTruncated, "gguf.ErrUnsupported": gguf.ErrUnsupported,
	"irpa.ErrFormat": irpa.ErrFormat, "irpa.ErrLimit": irpa.ErrLimit, "irpa.ErrPayload": irpa.ErrPayload, "irpa.ErrTruncated": irpa.ErrTruncated,
	"irpa.ErrUnsupported": irpa.ErrUnsupported,
	"model.ErrBusy":       model.ErrBusy, "model.ErrMoved": model.ErrMoved, "model.ErrOption": model.ErrOption, "model.ErrRanged": model.ErrRanged,
	"model.ErrUnsupported": model.ErrUnsupported,
	"pack.ErrChanged":      pack.ErrChanged, "pack.ErrDamaged": pack.ErrDamaged, "pack.ErrIgnored": pack.ErrIgnored, "pack.ErrNone": pack.ErrNone,
	"pack.ErrSpace":     pack.ErrSpace,
	"quant.ErrArgument": quant.ErrArgument, "quant.ErrUnsupported": quant.ErrUnsupported,
	"resolver.ErrOverride": resolver.ErrOverride, "resolver.ErrPlan": resolver.ErrPlan, "resolver.ErrProfile": resolver.ErrProfile,
	"sample.ErrLogits": sample.ErrLogits, "sample.ErrParams": sample.ErrParams,
	"skeep.ErrAbsent": skeep.ErrAbsent, "skeep.ErrArgument": skeep.ErrArgument, "skeep.ErrBounds": skeep.ErrBounds, "skeep.ErrBusy": skeep.ErrBusy,
	"skeep.ErrChanged": skeep.ErrChanged, "skeep.ErrClosed": skeep.ErrClosed, "skeep.ErrFault": skeep.ErrFault, "skeep.ErrFormat": skeep.ErrFormat,
	"skeep.ErrIO": skeep.ErrIO, "skeep.ErrIndex": skeep.ErrIndex, "skeep.ErrLayout": skeep.ErrLayout, "skeep.ErrMemory": skeep.ErrMemory,
	"skeep.ErrOverflow": skeep.ErrOverflow, "skeep.ErrOverlap": skeep.ErrOverlap, "skeep.ErrReadOnly": skeep.ErrReadOnly,
	"skeep.ErrShape": skeep.ErrShape, "skeep.ErrUnsupported": skeep.ErrUnsupported, "skeep.ErrValue": skeep.ErrValue,
	"tokenizer.ErrInvalid": tokenizer.ErrInvalid, "tokenizer.ErrMissing": tokenizer.ErrMissing, "tokenizer.ErrPre": tokenizer.ErrPre,
	"tokenizer.ErrUnsupported": tokenizer.ErrUnsupported,
}

var typedErrors = []error{
	&arch.Error{}, &arch.MissingTensorsError{}, &arch.UnknownArchError{}, &exec.Error{}, &exec.OperandError{}, &gguf.Error{}, &irpa.Error{}, &load.OverflowError{},
	&model.ContextError{}, &model.RewindError{}, &pack.Error{}, &quant.Error{}, &quant.TypeError{}, &resolver.BudgetError{}, &resolver.RefusedError{},
	&skeep.Error{}, &skeep.ValueError{}, &tensor.EncodingError{}, &tensor.LayoutError{}, &tensor.ShapeError{}, &tokenizer.Error{},
	&tokenizer.PreError{},
}

// listed are the names in api.txt that fit an expression.
func listed(t *testing.T, expression string) (names []string) {
	text, err := os.ReadFile("api.txt")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1]+"."+m[2])
	}
	require.NotEmpty(t, names)
	return names
}

// Every sentinel reads right alone, behind the name of what it is about: "closed", "index out of range".
func TestSentinels(t *testing.T) {
	for _, name := range listed(t, `(?m)^(\w+): var (Err\w+)`) {
		require.Contains(t, sentinels, name, "a sentinel that is not looked at")
	}
	for name, err := range sentinels {
		text := err.Error()
		require.Regexp(t, `^[a-z][^\n]*[^\n.!?]$`, text, name)
		require.NotRegexp(t, `^(it|the|this|there|an?) `, text, name)
		once(t, text)
	}
}

// once requires that no part of a sentence stands twice.
func once(t *testing.T, text string) {
	t.Helper()
	parts := strings.Split(text, ": ")
	require.Equal(t, slices.Compact(slices.Clone(parts)), parts, text)
}

// Every typed error is one line, whatever the names of files, keys and tensors are that it tells: they come from
// outside. What the project words itself (reasons, details, names of operations and operands) holds no newline.
func TestTypedErrors(t *testing.T) {
	var looked []string
	for _, err := range typedErrors {
		v := reflect.ValueOf(err).Elem()
		name := v.Type().String()
		looked = append(looked, name)
		require.NotPanics(t, func() { _ = err.Error() }, name)
		for i := range v.NumField() {
			f := v.Type().Field(i)
			own := slices.Contains([]string{"Reason", "Detail", "Op", "Known"}, f.Name) || name == "exec.OperandError"
			switch f := v.Field(i); {
			case !f.CanSet():
			case f.Kind() == reflect.String && own:
				f.SetString("own")
			case f.Kind() == reflect.String:
				f.SetString("a\nb")
			case f.Type() == reflect.TypeFor[[]string]() && !own:
				f.Set(reflect.ValueOf([]string{"a\nb"}))
			case f.Type() == reflect.TypeFor[error]():
				f.Set(reflect.ValueOf(errors.New("cause")))
			}
		}
		require.NotContains(t, err.Error(), "\n", name)
		once(t, err.Error())
	}
	require.ElementsMatch(t, listed(t, `(?m)^(\w+): func \(\*?(\w+)\) Error\(\) string`), looked)
}

// An error within an error names no operation twice.
func TestErrorsWithinErrors(t *testing.T) {
	layout := &tensor.LayoutError{Op: "narrow", Axis: 1, Reason: "no such index"}
	inner := &skeep.Error{Op: "narrow", Storage: "file", Tensor: "w", Err: layout}
	require.EqualError(t, inner, `skeep: narrow: storage "file", tensor "w": axis 1: no such index`)
	require.EqualError(t, &exec.Error{Op: "narrow", Layer: 2, Err: inner}, `exec: layer 2: narrow: storage "file", tensor "w": axis 1: no such index`)
	closed := &skeep.Error{Op: "materialize", Storage: "file", Err: fmt.Errorf("%w: %w", skeep.ErrBusy, os.ErrDeadlineExceeded), Detail: "1 use is left"}
	require.EqualError(t, &exec.Error{Op: "add", Layer: -1, Err: closed}, `exec: add: materialize: storage "file": busy: i/o timeout (1 use is left)`)
}
