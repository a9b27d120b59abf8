// Package tensor defines how tensors are described: element types, encodings, shapes, layouts, names and roles. It is
// pure Go and independent of storage and kernels. All other packages of the module use its types.
//
// All types are plain values, safe for concurrent reads.
package tensor
