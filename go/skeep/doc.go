// Package skeep manages the memory of tensors. A Storage is a range of bytes with an owner, a lifetime and a memory
// domain. A Scope decides how long allocations live. A View combines a Storage with a Format and a Layout; kernels read
// tensors through views. Materialize is the only function that copies a tensor, and Prepack the only one that reorders
// its blocks; both record a trace event.
//
// # Lifetimes
//
// Every byte has exactly one owner. A Storage owns its bytes (Allocate), borrows the caller's bytes (Borrow), maps a
// file (MapFile), or is an alias of a part of another Storage (Alias). Closing the owner invalidates all aliases and
// views at once: a later access returns an *Error that wraps ErrClosed and names the storage and the tensor. Freed
// memory is never read, because every access pins the bytes: a single access while it reads, a Step until it ends. The
// bytes are freed when the last pin is released. Close does not wait, so it may be called inside of a step;
// CloseContext waits until the bytes are freed. Mark.Release and ForwardScope.Reset reuse their bytes at once, so they
// wait for pins on the tensors that they end.
//
// There are three scopes. A ModelScope closes its storages in the reverse order of their creation when it is closed. A
// ForwardScope reuses one slab and invalidates all of its tensors at each Reset. Everything else is Ambient and is
// freed when it becomes unreachable. Garbage collection frees nothing that belongs to a ModelScope or a ForwardScope;
// it only reports what was not closed (OnLeak).
//
// # Memory profiles
//
// Storages appear in the pprof profile "skeep_storage" with the stack that created them. The profile of that name in
// runtime/pprof and net/http/pprof holds counts only, as all custom profiles do; WriteProfile also writes bytes, per
// domain. Stats returns the totals. With SKEEP_MEMORY_DEBUG=1 in the environment, errors carry the stack that created
// the storage, and the bytes of a ForwardScope become NaN at each Reset.
package skeep
