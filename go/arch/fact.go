package arch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/skeep-project/skeep/go/tensor"
)

// Effect is what becomes of a metadata key, or of a tensor, that could change results.
type Effect uint8

// The effects.
const (
	Read     Effect = iota + 1 // taken into account
	Refused                    // no code here computes it: a file that states it is not run
	Harmless                   // changes no result of what is computed here
)

var effectNames = [...]string{Read: "read", Refused: "refused", Harmless: "harmless"}

// String is "read", "refused" or "harmless".
func (e Effect) String() string {
	if int(e) >= len(effectNames) {
		return ""
	}
	return effectNames[e]
}

// Fact is a row of a table of facts: a metadata key or a form of tensors' names, and what becomes of it. A key
// cannot be read unless its row says so, since reading goes through the table.
type Fact struct {
	Name    string   // of a family's key: without the architecture's prefix. One * stands for any text
	Aliases []string // other names that writers give the same key
	Effect  Effect
	// Default is what an absent key that is read stands for: a number, or words if it follows from others;
	// nil if it is required.
	Default any
	Usual   []any  // of a refused key: float64, bool or string values that ask for what is computed anyway
	Reason  string // what it changes, or why it changes nothing
	Source  string // who writes or defines it
}

// Facts is a table; of several rows for one name the first holds.
type Facts []Fact

// Find is the row of a name.
func (f Facts) Find(name string) (row Fact, ok bool) {
	i := slices.IndexFunc(f, func(x Fact) bool { return matches(x.Name, name) || slices.Contains(x.Aliases, name) })
	if i < 0 {
		return Fact{}, false
	}
	return f[i], true
}

func matches(pattern, name string) bool {
	begin, end, star := strings.Cut(pattern, "*")
	if !star {
		return name == pattern
	}
	return len(name) >= len(begin)+len(end) && strings.HasPrefix(name, begin) && strings.HasSuffix(name, end)
}

// Refuses reports whether a file that states the value is not to be run. Of an array every element counts.
func (x Fact) Refuses(v Value) bool {
	if x.Effect != Refused {
		return false
	}
	if a, ok := v.Array(); ok {
		for i := range a.Len() {
			if x.Refuses(a.At(i)) {
				return true
			}
		}
		return false
	}
	return !slices.ContainsFunc(x.Usual, func(usual any) bool {
		switch usual := usual.(type) {
		case float64:
			n, ok := v.Float()
			return ok && n == usual
		case bool:
			b, ok := v.Bool()
			return ok && b == usual
		case string:
			s, ok := v.Text()
			return ok && s == usual
		}
		return false
	})
}

// FactsOf is the table of keys under an architecture's prefix: those of its family, then those of designs that no
// family here has. It is nil for an unknown architecture.
func FactsOf(architecture string) Facts {
	f, ok := families[architecture]
	if !ok {
		return nil
	}
	return slices.Concat(f.keys, otherDesigns)
}

// FileFacts is the table of keys that are no architecture's and no tokenizer's.
func FileFacts() Facts { return slices.Clone(fileKeys) }

// TensorFacts is the table of tensors beside those of the family. One that no row knows is refused.
func TensorFacts() Facts { return slices.Clone(otherTensors) }

// UnknownKeys lists the keys under the architecture's own prefix that no row knows, sorted: nobody can say what
// they change. It is empty for an unknown architecture.
func UnknownKeys(h Header) (keys []string) {
	r := &reader{h: h}
	name := r.text("general.architecture", false)
	facts := FactsOf(name)
	for key := range h.Keys() {
		if own, ok := strings.CutPrefix(key, name+"."); ok && facts != nil {
			if _, known := facts.Find(own); !known {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// words is a value for messages.
func words(v Value) string {
	if s, ok := v.Text(); ok {
		return fmt.Sprintf("%.32q", s)
	}
	if b, ok := v.Bool(); ok {
		return strconv.FormatBool(b)
	}
	if x, ok := v.Float(); ok {
		return strconv.FormatFloat(x, 'g', -1, 32)
	}
	return v.Kind().String()
}

// refuse fails with the first key, in order of names, that asks for what no code here computes.
func (r *reader) refuse(prefix string, facts Facts) {
	for _, key := range slices.Sorted(r.h.Keys()) {
		name, own := strings.CutPrefix(key, prefix)
		x, known := facts.Find(name)
		if !own || !known {
			continue
		}
		if v, _ := r.h.Value(key); x.Refuses(v) {
			r.fail(ErrUnsupported, key, "%s: %s", words(v), x.Reason)
		}
	}
}

// refuseTensor says why a tensor that the model does not read ends its use, nil when it is harmless.
func refuseTensor(h Header, name string) error {
	x, known := otherTensors.Find(name)
	switch _, role := tensor.ParseID(name); {
	case known && x.Effect == Harmless:
		return nil
	case known:
	case role:
		x.Reason = "a part of models that this architecture, or this layer of it, does not have"
	default:
		x.Reason = "nobody here knows what it is for"
	}
	return &Error{File: h.Name(), Tensor: name, Reason: x.Reason, Err: ErrUnsupported}
}
