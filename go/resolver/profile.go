// Package resolver decides for every tensor of a model in which form it is loaded (packed as stored, repacked,
// dequantized or skipped) and in which kind of memory, and states the reason. It needs only the file's header. Its
// functions are pure: they read no payload and allocate no tensor memory; the kernel table and the properties of the
// machine are arguments. No other package makes these decisions.
package resolver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/skeep-project/skeep/go/internal/argument"
	"github.com/skeep-project/skeep/go/tensor"
)

// Profile describes the limits of a class of devices. The zero value of a field means "no limit" or "off".
type Profile struct {
	Name      string          `json:"name"`
	Budget    int64           `json:"budget"`    // bytes of private memory; see CountMapped
	Strict    bool            `json:"strict"`    // refuse a model instead of dequantizing or exceeding the budget
	Map       bool            `json:"map"`       // weights may be file pages
	Threshold int64           `json:"threshold"` // bytes from which memory is off-heap; below it is Go heap
	KV        tensor.Encoding `json:"-"`         // of the KV cache
	KVName    string          `json:"kv"`        // the same, by name
	// CountMapped says that file pages count against the budget, too, although they can be evicted.
	CountMapped bool `json:"count_mapped"`
	// Sequences is how many sessions a plan expects at the same time, unless that is given; 0: one.
	Sequences int64 `json:"sequences"`
}

// DefaultThreshold is the size from which memory is allocated outside of the Go heap. Smaller pieces have no measurable
// cost for the garbage collector, while each would cost a C allocation.
const DefaultThreshold = 256 << 10

// profiles is the table of built-in profiles.
var profiles = []Profile{
	{Name: "mobile_2gb", Budget: 2 << 30, Strict: true, Map: true, Threshold: DefaultThreshold, KV: tensor.EncF16},
	{Name: "edge", Budget: 4 << 30, Map: true, Threshold: DefaultThreshold, KV: tensor.EncF16},
	{Name: "desktop", Map: true, Threshold: DefaultThreshold, KV: tensor.EncF16},
	{Name: "native", Map: true, Threshold: DefaultThreshold, KV: tensor.EncF32},
	{Name: "server", Map: true, Threshold: DefaultThreshold, KV: tensor.EncF16, Sequences: 16},
}

// ErrProfile is wrapped by every error about a profile.
var ErrProfile = errors.New("resolver: unusable profile")

// ProfileNames lists the built-in profiles.
func ProfileNames() (names []string) {
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return names
}

// ProfileNamed returns a built-in profile. memory (bytes, 0 = unknown) becomes the budget of a profile that has none of
// its own.
func ProfileNamed(name string, memory int64) (Profile, error) {
	for _, p := range profiles {
		if p.Name == strings.ToLower(name) {
			if p.Budget == 0 {
				p.Budget = memory
			}
			p.KVName = p.KV.String()
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("%w: unknown profile %q, want one of %s", ErrProfile, name, strings.Join(ProfileNames(), ", "))
}

// Default returns the profile for a machine with memory bytes (0 = unknown), and the reason.
func Default(memory int64) (Profile, string) {
	name, why := "desktop", "more than 4 GiB of memory"
	switch {
	case memory == 0:
		why = "the machine's memory is unknown"
	case memory <= 2<<30:
		name, why = "mobile_2gb", "at most 2 GiB of memory"
	case memory <= 4<<30:
		name, why = "edge", "at most 4 GiB of memory"
	}
	p, err := ProfileNamed(name, memory)
	if err != nil {
		panic(err) // the table above has these names
	}
	return p, why
}

// ReadProfile reads a profile from JSON. Fields: name, budget (bytes, or a text such as "2G"), strict, map,
// count_mapped, threshold (like budget), sequences, kv (f32, f16, bf16); docs/profile.schema.json describes them. An unknown or repeated field, null, and data after the object are errors. An absent field has the value of the
// desktop profile. Every error wraps ErrProfile or is an error of r.
func ReadProfile(r io.Reader, memory int64) (Profile, error) {
	if r == nil {
		return Profile{}, argument.Nil("resolver: read profile", "reader")
	}
	p, err := ProfileNamed("desktop", memory)
	if err != nil {
		return Profile{}, err
	}
	p.Name = "custom"
	if err := p.read(r); err != nil {
		return Profile{}, err
	}
	if p.Name == "" {
		return Profile{}, fmt.Errorf("%w: the name is empty", ErrProfile)
	}
	if p.KV, err = tensor.ParseEncoding(p.KVName); err != nil {
		return Profile{}, fmt.Errorf("%w: kv: %w", ErrProfile, err)
	}
	if p.Budget == 0 && memory > 0 { // a device has memory; what is left out is the machine's
		return Profile{}, fmt.Errorf("%w: budget is 0, want at least 1", ErrProfile)
	}
	return p, p.check()
}

// check says which number is negative.
func (p *Profile) check() error {
	for _, f := range []struct {
		name  string
		value int64
	}{{"budget", p.Budget}, {"threshold", p.Threshold}, {"sequences", p.Sequences}} {
		if f.value < 0 {
			return fmt.Errorf("%w: %s is %d, want at least 0", ErrProfile, f.name, f.value)
		}
	}
	return nil
}

// read sets fields from r, which must hold exactly one JSON object.
func (p *Profile) read(r io.Reader) error {
	const bytes = "a number of bytes, such as 2147483648 or \"2G\""
	fields := map[string]struct {
		into any
		want string
	}{
		"name": {&p.Name, "a text"}, "budget": {(*size)(&p.Budget), bytes}, "strict": {&p.Strict, "true or false"},
		"map": {&p.Map, "true or false"}, "count_mapped": {&p.CountMapped, "true or false"}, "sequences": {&p.Sequences, "a number of sessions"}, "threshold": {(*size)(&p.Threshold), bytes}, "kv": {&p.KVName, "a text: f32, f16 or bf16"},
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", ErrProfile, fmt.Errorf(format, args...))
	}
	b, err := io.ReadAll(io.LimitReader(r, maxProfile+1))
	switch {
	case err != nil:
		return fmt.Errorf("resolver: profile: %w", err)
	case len(b) > maxProfile:
		return bad("more than %d bytes", maxProfile)
	case len(strings.TrimSpace(string(b))) == 0:
		return bad("empty, want a JSON object")
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	first, err := d.Token()
	if err != nil {
		return bad("not JSON: %w", err)
	}
	if first != json.Delim('{') {
		if first == nil {
			first = "null"
		}
		return bad("it begins with %v, want a JSON object", first)
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return bad("not JSON: %w", err)
		}
		name := key.(string) // as every key of an object is
		f, known := fields[name]
		switch {
		case !known:
			return bad("unknown field %q", name)
		case seen[name]:
			return bad("field %q occurs twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return bad("field %q: not JSON: %w", name, err)
		}
		if string(value) == "null" || json.Unmarshal(value, f.into) != nil {
			if len(value) > 40 {
				value = append(value[:40:40], "…"...)
			}
			return bad("field %q is %s, want %s", name, value, f.want)
		}
	}
	if _, err := d.Token(); err != nil {
		return bad("not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return bad("something follows the object, at byte %d", d.InputOffset())
	}
	return nil
}

// size is a number of bytes in JSON, or a text as ParseSize reads it.
type size int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *size) UnmarshalJSON(b []byte) (err error) {
	if len(b) == 0 || b[0] != '"' {
		return json.Unmarshal(b, (*int64)(n))
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	v, err := ParseSize(text)
	*n = size(v)
	return err
}

// maxProfile bounds the bytes of a profile.
const maxProfile = 1 << 20
