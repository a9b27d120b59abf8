// Package embedded holds the small trained model that ships inside skeep, so
// that a program, an example or a test can run a real model without a download.
//
// The model, skeep-tiny, is a llama of 3 layers, width 256 and 2.4 million
// weights over bytes. It adds two numbers of 1 to 3 digits ("347+85=" is
// continued with "432") and writes short sentences ("the small dog sees a red
// ball."). It was trained from scratch by train/train.py on lines that the
// script itself makes, a tenth of the sums held out; train/README.md says how
// well it answers those. The file is GGUF with F16 matrices; its metadata key
// skeep.example holds a prompt to try. It is licensed under Apache-2.0.
package embedded

import (
	_ "embed"
	"hash/fnv"
	"strconv"
	"unsafe"
)

// A string, so that the linker places the file in read-only memory.
//
//go:embed skeep-tiny.gguf
var model string

// Model returns the GGUF file. The slice is the program's own read-only data,
// not a copy: it lives as long as the program, may be read by any number of
// goroutines, and must not be written to.
func Model() []byte {
	return unsafe.Slice(unsafe.StringData(model), len(model))
}

// HeldOut reports whether the sum of a and b, in either order, was kept out of
// the training: bits 16 and up of the 32-bit FNV-1a hash of "a+b", the smaller
// number first, are a multiple of 10.
func HeldOut(a, b int) bool {
	h := fnv.New32a()
	h.Write([]byte(strconv.Itoa(min(a, b)) + "+" + strconv.Itoa(max(a, b))))
	return h.Sum32()>>16%10 == 0
}
