package model

import (
	"errors"
	"fmt"
	"os"

	"github.com/skeep-project/skeep/go/exec"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// located adds to the error of a step, which tells that a mapped file has changed, what of the model is gone when the
// file became shorter: the first tensor that it no longer holds, and its layer.
func (m *Model) located(err error) error {
	var op *exec.Error
	var at *skeep.Error
	if !errors.Is(err, skeep.ErrChanged) || !errors.As(err, &op) || !errors.As(err, &at) || at.Tensor != "" {
		return err
	}
	now, statErr := os.Stat(at.Storage)
	if statErr != nil { // moved away: its pages are still mapped, and nothing can be said of its length
		return err
	}
	first := int64(-1)
	for _, d := range m.resolution.Decisions {
		v, ok := m.weights.View(d.Name)
		if !ok || v.Domain() != tensor.Mapped || v.Storage().Name() != at.Storage || v.Position()+v.Bytes() <= now.Size() {
			continue
		}
		if first < 0 || v.Position() < first {
			first, at.Tensor = v.Position(), d.Name
			at.Detail = fmt.Sprintf("%d of its %d bytes are left", max(0, now.Size()-first), v.Bytes())
		}
	}
	if id, ok := tensor.ParseID(at.Tensor); ok {
		op.Layer = int(id.Layer)
	}
	return err
}
