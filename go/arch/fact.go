package arch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/skeep-project/skeep/go/tensor"
)

// Effect says how a metadata key or tensor that could change results is handled.
type Effect uint8

// The effects.
const (
	Read     Effect = iota + 1 // taken into account
	Refused                    // not supported: a file that has it is not run
	Harmless                   // does not change any result
)

var effectNames = [...]string{Read: "read", Refused: "refused", Harmless: "harmless"}

// String is "read", "refused" or "harmless".
func (e Effect) String() string {
	if int(e) >= len(effectNames) {
		return ""
	}
	return effectNames[e]
}

// Fact is a row of a table of facts: how a metadata key, or tensors with a pattern of names, are handled. Keys are read
// only through the table, so a key without a Read row cannot be read.
type Fact struct {
	Name    string   // for keys of an architecture, without its prefix; a * stands for any text
	Aliases []string // other names of the same key
	Effect  Effect
	// Default is the value of a Read key that is absent: a number, or a description if it follows from other keys; nil
	// if the key is required.
	Default any
	Usual   []any  // values of a Refused key that are accepted, since they describe what is computed anyway: float64, bool or string
	Reason  string // what the key or tensor changes, or why it changes nothing
	Source  string // which software or specification defines it
}

// Facts is a table of facts. If several rows match a name, the first one applies.
type Facts []Fact

// Find returns the row that applies to a name.
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

// Refuses reports whether a file with this value must not be run. For an array it checks every element.
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

// FactsOf returns the table of keys under an architecture's prefix: first the keys of its family, then keys of
// unsupported designs. It is nil for an unknown architecture.
func FactsOf(architecture string) Facts {
	f, ok := FamilyOf(architecture)
	if !ok {
		return nil
	}
	return slices.Concat(f.Keys, otherDesigns)
}

// FileFacts returns the table of keys that belong to neither an architecture nor a tokenizer.
func FileFacts() Facts { return slices.Clone(fileKeys) }

// TensorFacts returns the table of tensors that are not part of a family. A tensor that matches no row is refused.
func TensorFacts() Facts { return slices.Clone(otherTensors) }

// UnknownKeys lists, sorted, the keys under the architecture's prefix that are in no table of facts, so that their
// effect is unknown. It is empty for an unknown architecture.
func UnknownKeys(h Header) (keys []string) {
	if h == nil {
		return nil
	}
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

// refuseTensor returns an error for a tensor that the model does not use, or nil if the tensor is harmless.
func refuseTensor(h Header, name string) error {
	x, known := otherTensors.Find(name)
	switch _, role := tensor.ParseID(name); {
	case known && x.Effect == Harmless:
		return nil
	case known:
	case role:
		x.Reason = "this architecture, or this layer of it, does not have such a tensor"
	default:
		x.Reason = "its purpose is unknown"
	}
	return &Error{File: h.Name(), Tensor: name, Reason: x.Reason, Err: ErrUnsupported}
}
