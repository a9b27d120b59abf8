package exec_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/skeep-project/skeep/go/exec"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// A weight is multiplied as it lies in a file. The README shows this function.
func product(path string, values []float32) (err error) {
	pool, err := skeep.NewPool(0) // compute threads, as many as there are processors
	if err != nil {
		return err
	}
	defer pool.Close()
	file, err := skeep.MapFile(path) // pages of the file, no copy
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }() // w is refused from then on: skeep.ErrClosed
	w, err := file.View("w", 0, tensor.FormatOf(tensor.Q4_0), tensor.ShapeOf(64, 96))
	if err != nil {
		return err
	}
	x, err := skeep.Ambient().Alloc("x", tensor.Dense(tensor.F32), tensor.ShapeOf(1, 96))
	if err == nil {
		err = x.WriteFloat32s(values)
	}
	if err != nil {
		return err
	}
	c, err := exec.NewEager(exec.Options{Pool: pool})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Begin(); err != nil {
		return err
	}
	y := c.MatMulT(x, w)            // y = x · wᵀ, in the slab: valid until the next Begin
	if err := c.End(); err != nil { // the first error of all operations since Begin
		return err
	}
	first, err := y.Get(0, 0)
	if err != nil {
		return err
	}
	fmt.Println(y.Shape(), first)
	return nil
}

func Example() {
	path := filepath.Join(os.TempDir(), "skeep-example.bin")
	defer os.Remove(path)
	block := append([]byte{0x00, 0x3c}, bytes.Repeat([]byte{0x99}, 16)...) // 32 weights: scale 1, codes 9 - 8
	values := make([]float32, 96)
	for i := range values {
		values[i] = 1
	}
	err := os.WriteFile(path, bytes.Repeat(block, 64*96/32), 0o600)
	if err == nil {
		err = product(path, values)
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output: [1 64] 96
}
