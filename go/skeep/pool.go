package skeep

import (
	"fmt"
	"runtime"

	"github.com/skeep-project/skeep/go/internal/core"
)

// Pool is the worker threads of the C core and their scratch, of NewPool until its Close. Goroutines may share one, also
// while one of them closes it: operations of several of them run one on the workers, one more on its caller alone, and
// others wait. The zero Pool is closed; what
// needs a pool and is given nil is refused with an error that wraps ErrArgument.
type Pool struct{ c *core.Pool }

// NewPool starts so many threads, the caller counted, 1024 at most; 0 is one per processor that it may run on. Close
// ends them; a pool that becomes unreachable before is reported as a Leak. Errors wrap ErrArgument or ErrMemory.
func NewPool(threads int) (*Pool, error) {
	if threads < 0 || threads > core.MaxThreads {
		return nil, &Error{Op: "start", Storage: "pool", Err: ErrArgument, Detail: fmt.Sprintf("%d threads, want 0 to %d", threads, core.MaxThreads)}
	}
	c, st := core.NewPool(threads, 0)
	if st.Code != core.OK {
		return nil, statusError("start", "pool", "", st, nil)
	}
	var pcs [24]uintptr
	stack, n := pcs[:runtime.Callers(2, pcs[:])], c.Threads()
	c.OnDrop(func() { Leak{Storage: "pool", Threads: n, Created: stackText(stack)}.report() })
	return &Pool{c}, nil
}

// Threads is how many threads work on an operation, the caller included; 0 when the pool is nil or closed. It waits for
// nobody.
func (p *Pool) Threads() int { return p.inside().Threads() }

// Close waits for the operations that have begun and ends the threads. Later operations (Materialize, an op of package
// exec, a load, …) are refused with an *Error of the storage "pool" that wraps ErrClosed. Any number of goroutines may call
// it, also again: each returns once the threads have ended.
func (p *Pool) Close() { p.inside().Close() }

// inside is what the core knows the pool by.
func (p *Pool) inside() *core.Pool {
	switch {
	case p == nil:
		return nil
	case p.c == nil:
		return unmadePool
	}
	return p.c
}

// unmadePool is what the zero Pool holds: it is closed.
var unmadePool = new(core.Pool)
