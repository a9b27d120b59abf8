package skeep

import (
	"github.com/skeep-project/skeep/go/internal/core"
)

// View is one logical tensor in one physical form: Shape and Layout, Format, and the Storage whose
// bytes it reads. It is a plain value (fixed arrays, no pointer but the Storage, which it keeps
// reachable), owns no memory, and is copied freely. It stays valid until its storage, mark or scope
// ends; afterwards every access is ErrClosed. The zero View means "absent".
type View struct {
	desc    core.View
	storage *Storage
}
