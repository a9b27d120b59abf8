// Package resolver decides, from a header alone, in which form and where every tensor of a model will
// live, and says why. Its functions are pure: no payload byte is read, no memory is asked for, and
// what they know of kernels and of the machine comes in as data. Nobody else decides.
package resolver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/skeep-project/skeep/go/tensor"
)

// Profile is what a class of devices allows. The zero value of a field means "no limit" or "off".
type Profile struct {
	Name      string          `json:"name"`
	Budget    int64           `json:"budget"`    // bytes for everything, mapped pages included; 0 = the machine's memory
	Strict    bool            `json:"strict"`    // refuse instead of dequantizing, and refuse what is over budget
	Map       bool            `json:"map"`       // weights may be file pages
	Threshold int64           `json:"threshold"` // bytes from which memory is off-heap; below it is Go heap
	KV        tensor.Encoding `json:"-"`         // of the KV cache
	KVName    string          `json:"kv"`        // the same, by name
}

// DefaultThreshold is the size from which memory is taken off the Go heap: smaller pieces cost the
// collector nothing that could be measured, and a C allocation each would.
const DefaultThreshold = 256 << 10

// profiles is the table of built-in profiles.
var profiles = []Profile{
	{Name: "mobile_2gb", Budget: 2 << 30, Strict: true, Map: true, Threshold: DefaultThreshold, KV: tensor.EncF16},
	{Name: "edge", Budget: 4 << 30, Map: true, Threshold: DefaultThreshold, KV: tensor.EncF16},
	{Name: "desktop", Map: true, Threshold: DefaultThreshold, KV: tensor.EncF16},
	{Name: "native", Map: true, Threshold: DefaultThreshold, KV: tensor.EncF32},
}

// ErrProfile is wrapped by every complaint about a profile.
var ErrProfile = errors.New("resolver: unusable profile")

// ProfileNames lists the built-in profiles.
func ProfileNames() (names []string) {
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return names
}

// ProfileNamed returns a built-in profile. memory (bytes, 0 unknown) becomes the budget of a profile
// that has none of its own.
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
	return Profile{}, fmt.Errorf("%w: no profile %q, there are %s", ErrProfile, name, strings.Join(ProfileNames(), ", "))
}

// Default is the profile for a machine with that much memory (bytes, 0 unknown), and the reason.
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

// ReadProfile reads a profile from JSON. Fields: name, budget (bytes), strict, map, threshold (bytes), kv
// (f32, f16, bf16); an unknown field is an error, an absent one is the desktop profile's.
func ReadProfile(r io.Reader, memory int64) (Profile, error) {
	p, err := ProfileNamed("desktop", memory)
	if err != nil {
		return Profile{}, err
	}
	p.Name = "custom"
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Profile{}, fmt.Errorf("%w: %w", ErrProfile, err)
	}
	if p.KV, err = tensor.ParseEncoding(p.KVName); err != nil {
		return Profile{}, fmt.Errorf("%w: kv: %w", ErrProfile, err)
	}
	for _, f := range []struct {
		name  string
		value int64
	}{{"budget", p.Budget}, {"threshold", p.Threshold}} {
		if f.value < 0 {
			return Profile{}, fmt.Errorf("%w: %s is %d, want at least 0", ErrProfile, f.name, f.value)
		}
	}
	return p, nil
}
