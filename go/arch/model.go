package arch

import (
	"fmt"
	"slices"

	"github.com/skeep-project/skeep/go/tensor"
)

// Layer is the geometry of one layer. A layer without attention has Heads = 0, one without a
// feed-forward part FF = 0.
type Layer struct {
	Heads, KVHeads    int
	KeyDim, ValueDim  int               // of one head
	FF                int               // width of the feed-forward part; of one expert when Model.Experts > 0
	Window            int               // a position sees so many up to itself; 0 = all
	Rope              tensor.RopeParams // AttnFactor is all that cosine and sine are multiplied by
	AttnScale         float32           // of q·k
	AttnSoftcap       float32           // 0 = none
	QKNorm, PostNorms bool              // norms of queries and keys; norms behind attention and feed-forward
}

// Model is what a file's metadata say of a model. It is not modified after Describe.
type Model struct {
	Arch         string
	Name         string // general.name, or ""
	Context      int    // positions it was trained for
	Width        int    // of the residual stream
	Vocab        int
	Layers       []Layer
	Eps          float32 // of the RMS norms
	EmbedScale   float32 // of embeddings; 1 = none
	Activation   tensor.GLUForm
	FinalSoftcap float32 // of logits; 0 = none
	Experts      int     // 0: the feed-forward part is dense
	ExpertsUsed  int
	TiedHead     bool // the embedding table is the head too

	// Tensors is every tensor that the family knows of, in the order of the model; optional ones also
	// when absent.
	Tensors []Tensor
	// Unused names the file's tensors that the model does not read and that change nothing, in file order.
	Unused []string

	index map[tensor.ID]int
}

// Tensor is a tensor of a model.
type Tensor struct {
	ID       tensor.ID
	Shape    tensor.Shape // rows first
	Optional bool
	Index    int // into Header.Tensors; -1 when the file does not hold it
}

// Find is the model's tensor of an ID, ok only when the file holds it.
func (m *Model) Find(id tensor.ID) (t Tensor, ok bool) {
	i, ok := m.index[id]
	if !ok || m.Tensors[i].Index < 0 {
		return Tensor{}, false
	}
	return m.Tensors[i], true
}

// Architectures lists the values of general.architecture that Describe knows, sorted.
func Architectures() []string {
	names := make([]string, 0, len(families))
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Describe reads the hyperparameters of a model and finds its tensors; it reads no payload. A key or tensor that
// would change results in a way that no code here computes is refused (see FactsOf, FileFacts, TensorFacts), so what is
// described is the whole model. Errors: *UnknownArchError, *Error naming a key or tensor, *MissingTensorsError.
func Describe(h Header) (*Model, error) {
	r := &reader{h: h}
	r.refuse("", fileKeys)
	name := r.text("general.architecture", true)
	if r.err != nil {
		return nil, r.err
	}
	f, ok := families[name]
	if !ok {
		return nil, &UnknownArchError{File: h.Name(), Arch: name, Known: Architectures()}
	}
	r.prefix, r.keys = name+".", f.keys
	r.refuse(r.prefix, FactsOf(name))
	m := &Model{Arch: name, Name: r.text("general.name", false), Activation: f.activation, EmbedScale: 1}
	r.model(m, f)
	if f.facts != nil && r.err == nil {
		f.facts(m, r)
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := m.find(h, f.tensors); err != nil {
		return nil, err
	}
	return m, nil
}

// find lists the tensors of the family's rows and looks for them in the file.
func (m *Model) find(h Header, rows []row) error {
	byName := make(map[string]int, len(h.Tensors()))
	for i, t := range h.Tensors() {
		byName[t.Name] = i
	}
	m.index = map[tensor.ID]int{}
	var missing []string
	add := func(r *row, layer int, dims []int) error {
		if len(dims) == 0 {
			return nil
		}
		t := Tensor{ID: tensor.IDOf(r.role, layer), Optional: r.optional, Index: -1}
		t.ID.Kind = r.kind
		t.Shape.Rank = uint8(len(dims))
		for i, d := range dims {
			t.Shape.Dims[i] = int64(d)
		}
		name := t.ID.String()
		if i, ok := byName[name]; ok {
			t.Index = i
			if got := h.Tensors()[i].Shape; got != t.Shape {
				return &Error{File: h.Name(), Tensor: name, Err: ErrInvalid,
					Reason: fmt.Sprintf("shape is %s, the metadata ask for %s", got, t.Shape)}
			}
			delete(byName, name)
		} else if !r.optional {
			missing = append(missing, name)
		}
		m.index[t.ID] = len(m.Tensors)
		m.Tensors = append(m.Tensors, t)
		return nil
	}
	// Those of the model, then layer by layer.
	for layer := -1; layer < len(m.Layers); layer++ {
		l := &Layer{}
		if layer >= 0 {
			l = &m.Layers[layer]
		}
		for i := range rows {
			if r := &rows[i]; r.role.PerLayer() == (layer >= 0) {
				if err := add(r, layer, r.dims(m, l)); err != nil {
					return err
				}
			}
		}
	}
	if len(missing) > 0 {
		return &MissingTensorsError{File: h.Name(), Names: missing}
	}
	for _, t := range h.Tensors() {
		if _, unused := byName[t.Name]; unused {
			if err := refuseTensor(h, t.Name); err != nil {
				return err
			}
			m.Unused = append(m.Unused, t.Name)
		}
	}
	_, untied := m.Find(tensor.IDOf(tensor.Output, -1))
	m.TiedHead = !untied
	return nil
}
