// Package door leads package exec to what lies inside of the values of package skeep, whose own methods name no type of
// the core: a program that imports skeep can do nothing with a descriptor or a status.
//
// It stands below both packages, so the types of skeep are parameters here. Package skeep opens the door when it is
// initialized, before package exec is, which imports it.
package door

import (
	"unsafe"

	"github.com/skeep-project/skeep/go/internal/core"
)

// Inside is what package exec asks of package skeep about its types View, Pool and Step.
type Inside[View, Pool, Step any] struct {
	// Pool and Step are what the core knows a pool and a step by; nil of nil.
	Pool func(*Pool) *core.Pool
	Step func(*Step) *core.Step
	// Error is the error of an operation that the core refused. It blames the view that the status names, else the one
	// whose bytes a fault happened at, else the storage that the status names by its number.
	Error func(op string, st core.Status, operands []View) error
	// ValueError is the error of an operation that wrote from into the tensor into, whose format cannot hold the element
	// at the flat position that the status has.
	ValueError func(op string, st core.Status, from, into View) error
}

var inside any

// Open is called by package skeep, once.
func Open[View, Pool, Step any](i *Inside[View, Pool, Step]) { inside = i }

// Enter is the way in, for the types that Open was given.
func Enter[View, Pool, Step any]() *Inside[View, Pool, Step] {
	return inside.(*Inside[View, Pool, Step])
}

// Descriptor is what the core takes for a view of package skeep: each begins with it, which that package asserts. It is a
// cast, as ops ask for some descriptors each: what goes through a function of Inside escapes to the heap.
func Descriptor[View any](v *View) *core.View { return (*core.View)(unsafe.Pointer(v)) }
