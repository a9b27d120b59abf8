package pack

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/export/irpa"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// Tensor is a weight that a pack holds: the blocks of the model's file, in another order.
type Tensor struct {
	Name     string
	Encoding tensor.Encoding
	Shape    tensor.Shape
	Order    tensor.Order
	Bytes    int64
	Offset   int64 // within the pack
}

// Wanted lists the weights of a model that kernels of this machine read faster in another order than the file's, in the order
// in which the file has them. It reads only the header. What a run wants beyond that (overrides, a profile, how much memory there is) has no
// influence: a pack is for all runs. Errors are those of packages arch and resolver.
func Wanted(f *gguf.File) ([]Tensor, error) {
	if f == nil {
		return nil, isNil("wanted", "file")
	}
	m, err := arch.Describe(f)
	if err != nil {
		return nil, err
	}
	r, err := resolver.Resolve(resolver.Request{
		Header: f, Profile: resolver.Profile{Name: "pack", Map: true}, Platform: resolver.Platform{CanMap: true}, Kernels: skeep.Kernels(),
		Processor: skeep.Processor(), Available: math.MaxInt64, Unused: m.Unused,
	})
	if err != nil {
		return nil, err
	}
	var list []Tensor
	for _, t := range f.Tensors() {
		if d, ok := r.Decision(t.Name); ok && d.Form.Reordered() {
			list = append(list, Tensor{Name: t.Name, Encoding: t.Encoding, Shape: t.Shape, Order: d.Form.Order, Bytes: t.Bytes})
		}
	}
	at := func(t Tensor) gguf.Extent {
		e, _ := f.Extent(t.Name) // of a file that is too short: told by who reads it
		return e
	}
	slices.SortStableFunc(list, func(a, b Tensor) int {
		x, y := at(a), at(b)
		return cmp.Or(cmp.Compare(x.Part, y.Part), cmp.Compare(x.Offset, y.Offset))
	})
	return list, nil
}

// orders lists which encoding is in which order.
func orders(list []Tensor) (names []string) {
	for _, t := range list {
		names = append(names, t.Encoding.String()+" "+t.Order.String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

const (
	extension = ".irpa"
	entryName = "skeep.pack" // of the entry that says what the others are
	page      = 4096
	large     = 1 << 20 // bytes from which on a blob begins at a page of its own
)

// fileName is the name of the pack of a model with size bytes and a key.
func fileName(size int64, key string, list []Tensor) string {
	sum := sha256.Sum256([]byte(key + "\n" + strings.Join(orders(list), "\n")))
	return fmt.Sprintf("%s%s%s", namePrefix(size), hex.EncodeToString(sum[:16]), extension)
}

// namePrefix is what the names of all packs of models with size bytes begin with.
func namePrefix(size int64) string { return fmt.Sprintf("%d-", size) }

// isPack reports whether a name is that of a pack.
func isPack(name string) bool {
	size, rest, ok := strings.Cut(strings.TrimSuffix(name, extension), "-")
	return ok && strings.HasSuffix(name, extension) && len(rest) == 32 && size != "" &&
		strings.Trim(size, "0123456789") == "" && strings.Trim(rest, "0123456789abcdef") == ""
}

// record is the entry of a pack that says what the others are. All digests are SHA-256 in hexadecimal.
type record struct {
	Version   int      `json:"version"`
	ByteOrder string   `json:"byte_order"`
	Key       string   `json:"key"`
	Orders    []string `json:"orders"`
	Source    []source `json:"source"` // when it was packed, part by part
	Head      string   `json:"head"`   // digest of the bytes before the first blob
	Blobs     []string `json:"blobs"`  // digests of the blobs before this one, in their order
	Self      string   `json:"self"`   // digest of this text with zeros here
}

// source is one file of a model.
type source struct {
	Name string `json:"name"`
	stamp
	Digest string `json:"sha256"`
}

const (
	recordVersion = 1
	byteOrder     = "little"
)

// blank is a digest that is not known yet; it is as long as each other one.
var blank = strings.Repeat("0", 2*sha256.Size)

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// text is the record as it stands in a file, signed with its own digest.
func (r record) text() ([]byte, error) {
	r.Self = blank
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	r.Self = digest(b)
	return json.Marshal(r)
}

// parse reads a record that is to the byte as text writes it.
func parse(b []byte) (r record, err error) {
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("entry %s is not the JSON that it should be: %w", entryName, err)
	}
	if want, err := r.text(); err != nil || string(want) != string(b) {
		return r, fmt.Errorf("entry %s was altered: it has another digest than it says", entryName)
	}
	return r, nil
}

// metadata says in an archive what a blob is, so that nobody has to know the encoding by heart.
type metadata struct {
	Encoding string  `json:"encoding"`
	Elements int     `json:"block_elements"`
	Bytes    int     `json:"block_bytes"`
	Shape    []int64 `json:"shape"` // rows first
	Order    string  `json:"order"`
}

// layout plans a pack with a record of so many bytes. The same weights give the same plan.
func layout(list []Tensor, recordBytes int) (*irpa.Plan, error) {
	entries := make([]irpa.Entry, 0, len(list)+1)
	for _, t := range list {
		elements, bytes := tensor.FormatOf(t.Encoding).Block()
		m, err := json.Marshal(metadata{t.Encoding.String(), elements, bytes, t.Shape.Dims[:t.Shape.Rank], t.Order.String()})
		if err != nil {
			return nil, err
		}
		e := irpa.Entry{Name: t.Name, Kind: irpa.Data, Metadata: m, Length: t.Bytes}
		if t.Bytes > large {
			e.Alignment = page
		}
		entries = append(entries, e)
	}
	return irpa.Layout(append(entries, irpa.Entry{Name: entryName, Kind: irpa.Data, Length: int64(recordBytes)}))
}
