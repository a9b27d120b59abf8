package arch

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/skeep-project/skeep/go/internal/argument"
)

// Override returns a header that is h with other metadata: set maps whole keys ("llama.attention.head_count_kv") to
// what they should say. The text of a value is true or false, an integer, another number, several of one of these
// separated by commas, or else a string. So everything that Measure assumes can be stated. h is not changed.
func Override(h Header, set map[string]string) (Header, error) {
	if h == nil {
		return nil, argument.Nil("arch: override", "header")
	}
	o := &overridden{Header: h, set: make(map[string]Value, len(set))}
	for key, text := range set {
		if key == "" || text == "" {
			return nil, &Error{Key: key, Reason: "an override needs a key and a value", Err: ErrInvalid}
		}
		v, err := parseValue(text)
		if err != nil {
			return nil, &Error{Key: key, Reason: fmt.Sprintf("override %q: %v", text, err), Err: ErrInvalid}
		}
		o.set[key] = v
	}
	return o, nil
}

type overridden struct {
	Header
	set map[string]Value
}

func (o *overridden) Value(key string) (Value, bool) {
	if v, ok := o.set[key]; ok {
		return v, true
	}
	return o.Header.Value(key)
}

func (o *overridden) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range o.Header.Keys() {
			if _, set := o.set[key]; !set && !yield(key) {
				return
			}
		}
		for key := range o.set {
			if !yield(key) {
				return
			}
		}
	}
}

var errMixed = errors.New("a list of values of different kinds")

func parseValue(text string) (Value, error) {
	parts := strings.Split(text, ",")
	all := make(list, len(parts))
	for i, part := range parts {
		all[i] = parseScalar(strings.TrimSpace(part))
	}
	if len(all) == 1 {
		return all[0], nil
	}
	if slices.ContainsFunc(all, func(s scalar) bool { return s.kind != all[0].kind }) {
		if slices.ContainsFunc(all, func(s scalar) bool { return s.kind != Int64 && s.kind != Float64 }) {
			return nil, errMixed
		}
		for i := range all {
			all[i].kind = Float64
		}
	}
	return all, nil
}

func parseScalar(text string) scalar {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return scalar{kind: Int64, integer: n, number: float64(n)}
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil {
		return scalar{kind: Float64, number: x}
	}
	if text == "true" || text == "false" {
		return scalar{kind: Bool, truth: text == "true"}
	}
	return scalar{kind: String, text: text}
}

// scalar is a Value that was written as text; list is several.
type scalar struct {
	kind    Kind
	integer int64
	number  float64
	truth   bool
	text    string
}

type list []scalar

func (s scalar) Kind() Kind             { return s.kind }
func (s scalar) Int() (int64, bool)     { return s.integer, s.kind == Int64 }
func (s scalar) Uint() (uint64, bool)   { return uint64(s.integer), s.kind == Int64 && s.integer >= 0 }
func (s scalar) Float() (float64, bool) { return s.number, s.kind == Int64 || s.kind == Float64 }
func (s scalar) Bool() (bool, bool)     { return s.truth, s.kind == Bool }
func (s scalar) Text() (string, bool)   { return s.text, s.kind == String }
func (s scalar) Array() (Values, bool)  { return nil, false }

func (l list) Kind() Kind             { return Array }
func (l list) Int() (int64, bool)     { return 0, false }
func (l list) Uint() (uint64, bool)   { return 0, false }
func (l list) Float() (float64, bool) { return 0, false }
func (l list) Bool() (bool, bool)     { return false, false }
func (l list) Text() (string, bool)   { return "", false }
func (l list) Array() (Values, bool)  { return listValues{l}, true }

// listValues are the elements of a list.
type listValues struct{ all list }

func (v listValues) Elem() Kind        { return v.all[0].kind }
func (v listValues) Len() int          { return len(v.all) }
func (v listValues) At(i int) Value    { return v.all[i] }
func (v listValues) Text(i int) string { return v.all[i].text }
