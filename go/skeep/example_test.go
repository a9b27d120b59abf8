package skeep_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/skeep-project/skeep/go/exec"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// A mapped file's tensors are read where they lie; closing the file ends all of them.
func ExampleMapFile() {
	dir, err := os.MkdirTemp("", "skeep")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "numbers")
	if err := os.WriteFile(path, []byte{1, 2, 3, 4, 5, 6}, 0o600); err != nil {
		log.Fatal(err)
	}
	if err := os.Chdir(dir); err != nil {
		log.Fatal(err)
	}

	file, err := skeep.MapFile("numbers")
	if err != nil {
		log.Fatal(err)
	}
	v, err := file.View("counts", 0, tensor.Dense(tensor.I8), tensor.ShapeOf(2, 3))
	if err != nil {
		log.Fatal(err)
	}
	n, err := v.GetInt(1, 2)
	fmt.Println(n, err)

	fmt.Println(file.Close())
	_, err = v.GetInt(1, 2)
	fmt.Println(errors.Is(err, skeep.ErrClosed))
	// Output:
	// 6 <nil>
	// <nil>
	// true
}

// Bytes that are in memory already, such as an embedded model, are borrowed.
func ExampleBorrow() {
	s, err := skeep.Borrow("constants", []byte{0, 0, 128, 63}, skeep.ReadOnly())
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	one, err := s.View("one", 0, tensor.Dense(tensor.F32), tensor.ShapeOf())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(one.Get())
	// Output: 1 <nil>
}

// Each step of a model takes its tensors from one slab and gives them back together.
func ExampleForwardScope() {
	step, err := skeep.NewForwardScope("step", 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	defer step.Close()
	for token := range 2 {
		x, err := step.Alloc("x", tensor.Dense(tensor.F32), tensor.ShapeOf(2, 2))
		if err != nil {
			log.Fatal(err)
		}
		if err := x.WriteFloat32s([]float32{1, 2, 3, float32(token)}); err != nil {
			log.Fatal(err)
		}
		fmt.Println(x.Get(1, 1))
		if err := step.Reset(nil); err != nil {
			log.Fatal(err)
		}
		_, err = x.Get(1, 1)
		fmt.Println(err != nil)
	}
	fmt.Println(step.Used(), step.Peak())
	// Output:
	// 0 <nil>
	// true
	// 1 <nil>
	// true
	// 0 64
}

// What lives as long as a model is closed with it, the latest first.
func ExampleModelScope() {
	model := skeep.NewModelScope("model")
	kv, err := model.Alloc("kv", tensor.Dense(tensor.F16), tensor.ShapeOf(1, 4, 32, 64))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(kv)
	fmt.Println(model.Close(), kv.Live())
	// Output:
	// F16 [1 4 32 64]
	// <nil> false
}

// A copy decodes, and shows in the trace with its bytes.
func ExampleMaterialize() {
	pool, err := skeep.NewPool(2)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	rec := trace.NewRecorder(16)
	model := skeep.NewModelScope("model", skeep.WithTrace(rec))
	defer model.Close()
	packed, err := model.Alloc("w", tensor.FormatOf(tensor.Q8_0), tensor.ShapeOf(2, 64))
	if err != nil {
		log.Fatal(err)
	}
	dense, err := skeep.Materialize(pool, "w as F32", packed, tensor.Dense(tensor.F32), model)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(dense, rec.Total(trace.Materialize).Bytes)
	// Output: F32 [2 64] 512
}

// A weight is packed, re-ordered for the kernels, multiplied, and put back: the order of its blocks changes no number.
func ExamplePrepack() {
	if err := reordered(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Q4_0 [33 64] row_panel16i4v1
	// as stored: 1376, in feed order: 1376
	// back in order row_major, element (32, 63) is 7
}

func reordered() error {
	pool, err := skeep.NewPool(2)
	if err != nil {
		return err
	}
	defer pool.Close()
	model := skeep.NewModelScope("model")
	defer model.Close()
	numbers, err := model.Alloc("w", tensor.Dense(tensor.F32), tensor.ShapeOf(33, 64)) // two panels of 16 rows, and a row
	if err != nil {
		return err
	}
	values := make([]float32, 33*64)
	for i := range values {
		values[i] = float32(i%16 - 8) // what Q4_0 can hold
	}
	if err := numbers.WriteFloat32s(values); err != nil {
		return err
	}
	stored, err := skeep.Copier{Pool: pool, Layer: -1}.Encode("w packed", numbers, tensor.FormatOf(tensor.Q4_0), model)
	if err != nil {
		return err
	}
	feed, err := skeep.Prepack(pool, "w in feed order", stored, tensor.Feed, model)
	if err != nil {
		return err
	}
	fmt.Println(feed)

	x, err := model.Alloc("x", tensor.Dense(tensor.F32), tensor.ShapeOf(1, 64))
	if err != nil {
		return err
	}
	if err := x.WriteFloat32s(values[:64]); err != nil {
		return err
	}
	c, err := exec.NewEager(exec.Options{Pool: pool, Exact: true})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Begin(); err != nil {
		return err
	}
	a, b := c.MatMulT(x, stored), c.MatMulT(x, feed)
	if err := c.End(); err != nil {
		return err
	}
	want, err := a.Get(0, 32)
	if err != nil {
		return err
	}
	got, err := b.Get(0, 32)
	if err != nil {
		return err
	}
	fmt.Printf("as stored: %v, in feed order: %v\n", want, got)

	back, err := skeep.Prepack(pool, "w again", feed, tensor.Order{}, model)
	if err != nil {
		return err
	}
	element, err := back.Get(32, 63)
	if err != nil {
		return err
	}
	fmt.Printf("back in order %v, element (32, 63) is %v\n", back.Layout().Order, element)
	return nil
}
