// Package coretest is what tests of the C core need and nobody else does: the bodies of single kernels, memory between
// guard pages, regions that look at their pool, and facts of C that no operation shows. Tests alone import it.
package coretest
