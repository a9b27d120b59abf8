// Package skeep is where bytes live: Storage (whose bytes, until when, in which memory domain),
// Scope (how long allocations live), and View, which joins them with a Format and a Layout into what
// a kernel unwraps once. Materialize is the only copy, Prepack the only relayout; both are traced.
//
// # Lifetimes
//
// Every byte has exactly one owner. A Storage owns its bytes (Allocate), borrows the caller's (Borrow),
// maps a file's (MapFile) or is an alias of a part of another one (Alias). Closing the owner invalidates
// all aliases and views at once: a later access is an *Error that wraps ErrClosed and names the storage
// and the tensor. It is never a read of freed memory, since each access holds a pin while it reads, a step
// of computation until it ends, and the last pin frees. Close itself waits for nobody, so it may stand
// inside of a step; CloseContext waits until the bytes are free. Bytes that are used again at once are
// waited for: the end of a Mark and a Reset wait for pins that were taken through what they end.
//
// Three scopes say when the owner is closed: a ModelScope closes what was made in it in reverse order, a
// ForwardScope invalidates everything at each Reset and reuses one slab, and everything else is Ambient:
// freed when it becomes unreachable. In the first two, garbage collection frees nothing and only reports
// what was forgotten (OnLeak).
//
// # Where the memory shows
//
// Storages appear in the pprof profile "skeep_storage" with the stack that made them: WriteProfile writes
// objects and bytes per domain, which the profile of that name in package runtime/pprof (and in
// net/http/pprof) cannot, since custom profiles hold counts only. Stats sums them up. With
// SKEEP_MEMORY_DEBUG=1 in the environment errors carry the stack that made the storage, and the bytes of
// a ForwardScope become NaN at each Reset.
package skeep
