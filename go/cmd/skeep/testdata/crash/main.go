// Command crash lends memory to skeep, takes it away behind skeep's back, and multiplies by it: what a
// broken host does. It ends by SIGSEGV within a C kernel. Its argument is the number of threads.
package main

import (
	"os"
	"strconv"

	_ "github.com/ianlancetaylor/cgosymbolizer"
	"github.com/skeep-project/skeep/go/exec"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"golang.org/x/sys/unix"
)

const rows, columns = 512, 256

func main() {
	threads, err := strconv.Atoi(os.Args[1])
	must(err)
	memory, err := unix.Mmap(-1, 0, rows*columns*4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	must(err)
	weights, err := skeep.Borrow("weights", memory)
	must(err)
	f32 := tensor.Dense(tensor.F32)
	w, err := weights.View("w", 0, f32, tensor.ShapeOf(rows, columns))
	must(err)
	x, err := skeep.Ambient().Alloc("x", f32, tensor.ShapeOf(1, columns))
	must(err)
	pool, err := skeep.NewPool(threads)
	must(err)
	e, err := exec.NewEager(exec.Options{Pool: pool, SlabBytes: 1 << 20})
	must(err)
	must(e.Begin())
	e.MatMulT(x, w)
	must(e.Err())
	must(unix.Mprotect(memory, unix.PROT_NONE))
	e.MatMulT(x, w)
	must(e.End())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
