package gguf_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/tensor"
)

// A model file of one key and one tensor, [2 3] in F32.
var file = "GGUF\x03\x00\x00\x00" + // magic, version
	"\x01\x00\x00\x00\x00\x00\x00\x00" + "\x01\x00\x00\x00\x00\x00\x00\x00" + // a tensor, a key
	"\x0c\x00\x00\x00\x00\x00\x00\x00general.name" + "\x08\x00\x00\x00" + "\x04\x00\x00\x00\x00\x00\x00\x00tiny" +
	"\x01\x00\x00\x00\x00\x00\x00\x00w" + "\x02\x00\x00\x00" + // name, rank
	"\x03\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00\x00\x00\x00\x00" + // columns, rows
	"\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + // type, offset
	strings.Repeat("\x00", 27) + // up to a multiple of 32
	"\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\x40\x00\x00\xa0\x40\x00\x00\xc0\x40"

func ExampleRead() {
	f, err := gguf.Read(strings.NewReader(file), int64(len(file)), gguf.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if v, ok := f.Value("general.name"); ok {
		name, _ := v.Text()
		fmt.Println(name)
	}
	for _, t := range f.Tensors() {
		at, _ := f.Extent(t.Name)
		fmt.Println(t.Name, t.TypeName(), t.Shape, t.Bytes, "bytes at", at.Offset)
	}
	// Output:
	// tiny
	// w F32 [2 3] 24 bytes at 128
}

// A damaged file is an error that names what and where; with HeaderOnly it is listed all the same.
func ExampleOptions() {
	fsys := fstest.MapFS{"cut.gguf": {Data: []byte(file[:len(file)-4])}}
	_, err := gguf.OpenFS(fsys, "cut.gguf", gguf.Options{})
	fmt.Println(err)

	f, err := gguf.OpenFS(fsys, "cut.gguf", gguf.Options{HeaderOnly: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	fmt.Println(len(f.Tensors()), f.Truncated() != nil)
	// Output:
	// gguf: tensor "w": bytes 128 to 152 reach past end of file (size 148), which is 4 bytes short in cut.gguf
	// 1 true
}

// The payload of each tensor is streamed, in the order of the header.
func ExampleWriteFile() {
	dir, err := os.MkdirTemp("", "gguf")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "tiny.gguf")
	h := gguf.Header{
		Metadata: []gguf.Pair{
			{Key: "general.name", Value: gguf.TextOf("tiny")},
			{Key: "tokens", Value: gguf.TextsOf([]string{"a", "b"})},
		},
		Tensors: []gguf.TensorSpec{{Name: "w", Encoding: tensor.Q8_0, Shape: tensor.ShapeOf(2, 32)}},
	}
	err = gguf.WriteFile(path, h, func(w *gguf.Writer) error {
		out, err := w.Tensor("w")
		for row := 0; row < 2 && err == nil; row++ {
			_, err = out.Write(make([]byte, 34))
		}
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := gguf.Open(path, gguf.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	t, _ := f.Tensor("w")
	fmt.Println(f.Version(), t.Name, t.TypeName(), t.Shape, t.Bytes)
	// Output: 3 w Q8_0 [2 32] 68
}
