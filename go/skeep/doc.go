// Package skeep is where bytes live: Storage (whose bytes, until when, in which memory domain),
// Scope (how long allocations live), and View, which joins them with a Format and a Layout into what
// a kernel unwraps once. Materialize is the only copy, Prepack the only relayout; both are traced.
package skeep

// Storage: see storage.go.
type Storage struct{}
