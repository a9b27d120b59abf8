package model

import (
	"sync"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/exec"
	"github.com/skeep-project/skeep/go/tensor"
)

// Forward computes the logits [in.Rows, vocab] of one step with the operations of c, the same code for every context. It
// calls c.Layer before each layer, passes in's views through c.Input, and reads no element. An error shows in c.Err.
// Several sessions may run it at once.
type Forward func(c exec.Context, n *Network, in Inputs) View

// Inputs is what changes from step to step.
type Inputs struct {
	IDs, Positions View   // of the step's tokens, I32 [T]
	K, V           []View // the caches of each layer, as arch.Layer.Caches says; zero Views in layers without attention
	Rows           int    // of how many of the last tokens logits are wanted, 1 to T
}

// forwards holds the functions of architectures that are not computed by the decoder.
var forwards sync.Map // of Forward, by name

// Register adds an architecture that Open then runs: its metadata and tensors are read as f says, and forward computes
// it; nil is the decoder of this package, which computes all that a Family can say. Errors are those of arch.Register.
// It is safe for concurrent use.
func Register(f arch.Family, forward Forward) error {
	if err := arch.Register(f); err != nil {
		return err
	}
	if forward != nil {
		forwards.Store(f.Name, forward)
	}
	return nil
}

// forwardOf is the function of an architecture.
func forwardOf(architecture string) Forward {
	if f, ok := forwards.Load(architecture); ok {
		return f.(Forward)
	}
	return decoder
}

// Arch is the description of the model. It must not be modified.
func (n *Network) Arch() *arch.Model { return n.arch }

// Weight is a tensor of the model, the zero View if the file does not have it. The head of a model without one of its
// own is the embedding table.
func (n *Network) Weight(id tensor.ID) View {
	if n.arch.TiedHead && id == tensor.IDOf(tensor.Output, -1) {
		id = tensor.IDOf(tensor.TokenEmbed, -1)
	}
	return n.weights[id]
}
