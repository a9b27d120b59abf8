//go:build !cgo

package core

// The compute core is written in C. Without cgo the build ends here, with a name that says what is missing.
var _ = skeep_requires_cgo_and_a_C_compiler
