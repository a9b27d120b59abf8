// Package tensor says what a tensor is, without its bytes: element types, encodings, shapes,
// layouts, names and roles. It is pure Go, knows no storage and no kernel, and every other package
// of the module speaks in its words.
//
// All types are plain values that are safe for concurrent use when not written to.
package tensor
