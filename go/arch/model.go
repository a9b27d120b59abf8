package arch

import (
	"fmt"

	"github.com/skeep-project/skeep/go/internal/argument"
	"github.com/skeep-project/skeep/go/tensor"
)

// Layer is the geometry of one layer. A layer without attention has Heads = 0; a layer without a feed-forward part has
// FF = 0.
type Layer struct {
	Heads, KVHeads    int
	KeyDim, ValueDim  int               // of one head
	FF                int               // width of the feed-forward part; of one expert when Model.Experts > 0
	Window            int               // sliding window: a position attends to this many positions up to itself; 0 = all
	Rope              tensor.RopeParams // AttnFactor is the complete factor of cosine and sine; Dims is 0 without rotation
	AttnScale         float32           // of q·k
	AttnSoftcap       float32           // 0 = none
	QKNorm, PostNorms bool              // has norms of queries and keys; has norms or scales after attention and feed-forward

	// What Measure finds in architectures that Describe does not know.
	Latent bool            // values are the first ValueDim elements of the keys, and have no cache of their own
	Shared bool            // reads the caches of an earlier layer, and has none
	State  [2]tensor.Shape // of each sequence, F32: what a convolution and a recurrence remember; rank 0 = nothing
}

// Geometry is the sizes of a model that its memory depends on, beside its weights.
type Geometry struct {
	Arch        string
	Context     int // number of positions that the model was trained for
	Width       int // of the residual stream
	Vocab       int
	Layers      []Layer
	Experts     int // number of experts; 0: the feed-forward part is dense
	ExpertsUsed int
}

// Model is the description of a model from its file's metadata. It is immutable.
type Model struct {
	Geometry
	Name         string  // general.name, or ""
	Eps          float32 // of the RMS norms
	EmbedScale   float32 // of embeddings; 1 = none
	Activation   tensor.GLUForm
	FinalSoftcap float32 // of logits; 0 = none
	// Factors of what each part of a layer adds to the residual stream, and of logits; 1 = none.
	ResidualScale, LogitScale float32
	ShortContext              int  // sequences of more positions rotate by the long factors, if there are some
	TiedHead                  bool // the embedding table is also the output head

	// Tensors lists every tensor that the family defines, in the order of the model, including absent optional ones.
	Tensors []Tensor
	// Unused lists the names of tensors in the file that the model does not use and that do not change results, in file
	// order.
	Unused []string

	index map[tensor.ID]int
}

// Tensor is a tensor that a model defines.
type Tensor struct {
	ID       tensor.ID
	Shape    tensor.Shape // rows first
	Optional bool
	Index    int // into Header.Tensors; -1 if it is not in the file
}

// Find returns the tensor with an ID. ok is false if the file does not contain it.
func (m *Model) Find(id tensor.ID) (t Tensor, ok bool) {
	i, ok := m.index[id]
	if !ok || m.Tensors[i].Index < 0 {
		return Tensor{}, false
	}
	return m.Tensors[i], true
}

// Describe reads the hyperparameters of a model and finds its tensors. It reads no payload. A key or tensor that would
// change results in an unsupported way is an error (see FactsOf, FileFacts, TensorFacts), so the description is
// complete. Errors are *UnknownArchError, *Error, which names a key or tensor, or *MissingTensorsError.
func Describe(h Header) (*Model, error) {
	if h == nil {
		return nil, argument.Nil("arch: describe", "header")
	}
	r := &reader{h: h}
	r.refuse("", fileKeys)
	name := r.text("general.architecture", true)
	if r.err != nil {
		return nil, r.err
	}
	f, ok := FamilyOf(name)
	if !ok {
		return nil, &UnknownArchError{File: h.Name(), Arch: name, Known: Architectures()}
	}
	r.prefix, r.keys = name+".", f.Keys
	r.refuse(r.prefix, FactsOf(name))
	m := &Model{Geometry: Geometry{Arch: name}, Name: r.text("general.name", false), Activation: f.Activation, EmbedScale: 1, ResidualScale: 1, LogitScale: 1}
	r.model(m, f)
	if r.err != nil {
		return nil, r.err
	}
	if err := m.find(h, f.Tensors); err != nil {
		return nil, err
	}
	return m, nil
}

// find lists the tensors of the family's rows and looks for them in the file.
func (m *Model) find(h Header, rows []Row) error {
	byName := make(map[string]int, len(h.Tensors()))
	for i, t := range h.Tensors() {
		byName[t.Name] = i
	}
	m.index = map[tensor.ID]int{}
	var missing []string
	add := func(r *Row, layer int, dims []int) error {
		if len(dims) == 0 {
			return nil
		}
		t := Tensor{ID: tensor.IDOf(r.Role, layer), Optional: r.Optional, Index: -1}
		t.ID.Kind = r.Kind
		t.Shape.Rank = uint8(len(dims))
		for i, d := range dims {
			t.Shape.Dims[i] = int64(d)
		}
		name := t.ID.String()
		if i, ok := byName[name]; ok {
			t.Index = i
			if got := h.Tensors()[i].Shape; got != t.Shape {
				return &Error{File: h.Name(), Tensor: name, Err: ErrInvalid,
					Reason: fmt.Sprintf("shape is %s, but the metadata require %s", got, t.Shape)}
			}
			delete(byName, name)
		} else if !r.Optional {
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
			if r := &rows[i]; r.Role.PerLayer() == (layer >= 0) {
				if err := add(r, layer, r.Dims(m, l)); err != nil {
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
	for i := range m.Layers {
		_, m.Layers[i].QKNorm = m.Find(tensor.IDOf(tensor.AttnQNorm, i))
		_, post := m.Find(tensor.IDOf(tensor.PostFFNNorm, i))
		_, behind := m.Find(tensor.IDOf(tensor.PostAttnNorm, i))
		m.Layers[i].PostNorms = post || behind || m.ResidualScale != 1
	}
	return nil
}
