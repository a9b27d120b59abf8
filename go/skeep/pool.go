package skeep

import (
	"fmt"
	"runtime"

	"github.com/skeep-project/skeep/go/internal/core"
)

// Pool holds worker threads of the C core and their scratch memory. It is safe for concurrent use, Close included. Of
// several operations at the same time, one runs on the workers, one runs on its calling thread alone, and the others
// wait. The zero Pool is closed. A function that needs a pool and is given nil returns an error that wraps ErrArgument.
type Pool struct{ c *core.Pool }

// NewPool makes a pool in which the given number of threads work on an operation, the caller included: at most 1024; 0
// means one for each processor that the process may run on. The caller must Close it; a pool that becomes unreachable
// before that is reported as a Leak. Errors wrap ErrArgument or ErrMemory.
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

// PoolBytes is how much scratch memory a pool of 1 to 1024 threads has; it is not among the bytes that Stats counts.
func PoolBytes(threads int) int64 { return core.PoolBytes(min(max(1, threads), core.MaxThreads)) }

// Threads is how many threads work on an operation, the caller included; 0 when the pool is nil or closed. It does not
// wait.
func (p *Pool) Threads() int { return p.inside().Threads() }

// Close waits for running operations and then ends the threads. Later operations (Materialize, an op of package exec, a
// load, …) return an *Error of the storage "pool" that wraps ErrClosed. Close may be called several times and by
// several goroutines; each call returns when the threads have ended.
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
