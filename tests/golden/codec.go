package main

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strconv"

	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// A codec decodes blocks to little-endian floats and encodes rows of them. It answers errUnknown for an encoding that it
// does not do.
type codec interface {
	decode(e tensor.EncodingInfo, blocks []byte) ([]byte, error)
	encode(e tensor.EncodingInfo, values []byte, columns int) ([]byte, error)
}

var (
	errUnknown = errors.New("unknown encoding")
	errMissing = errors.New("python3 has no package gguf: pip install gguf, or -own for the vectors of this project")
)

// python is the package gguf: an implementation that shares nothing with this project.
type python struct{}

//go:embed reference.py
var script string

func (python) decode(e tensor.EncodingInfo, blocks []byte) ([]byte, error) {
	return runPython(blocks, "decode", int(e.ID), e.BlockBytes)
}

func (python) encode(e tensor.EncodingInfo, values []byte, columns int) ([]byte, error) {
	return runPython(values, "encode", int(e.ID), columns)
}

func runPython(in []byte, what string, numbers ...int) ([]byte, error) {
	args := []string{"-c", script, what}
	for _, n := range numbers {
		args = append(args, strconv.Itoa(n))
	}
	c := exec.Command("python3", args...)
	var stderr bytes.Buffer
	c.Stdin, c.Stderr = bytes.NewReader(in), &stderr
	out, err := c.Output()
	if err == nil {
		return out, nil
	}
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.As(err, &exit) && exit.ExitCode() == 4:
		return nil, errMissing
	case exit != nil && exit.ExitCode() == 3:
		return nil, errUnknown
	}
	return nil, fmt.Errorf("python3: %w: %s", err, stderr.Bytes())
}

// own is this project's readable decoder and its encoder.
type own struct{}

func (own) decode(e tensor.EncodingInfo, blocks []byte) ([]byte, error) {
	n := len(blocks) / e.BlockBytes * e.BlockElements
	v, err := view(blocks, e, n/e.BlockElements, e.BlockElements)
	if err != nil {
		return nil, err
	}
	defer v.Storage().Close()
	values := make([]float32, n)
	if err := v.CopyTo(values); err != nil {
		return nil, err
	}
	out := make([]byte, 0, 4*n)
	for _, x := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out, nil
}

func (own) encode(e tensor.EncodingInfo, values []byte, columns int) ([]byte, error) {
	rows := len(values) / 4 / columns
	f32, _ := tensor.EncF32.Info()
	x, err := view(values, f32, rows, columns)
	if err != nil {
		return nil, err
	}
	defer x.Storage().Close()
	blocks := make([]byte, rows*columns/e.BlockElements*e.BlockBytes)
	y, err := view(blocks, e, rows, columns)
	if err != nil {
		return nil, err
	}
	defer y.Storage().Close()
	pool, err := skeep.NewPool(1)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if err := (skeep.Copier{Pool: pool}).EncodeTo(x, y); errors.Is(err, skeep.ErrUnsupported) {
		return nil, errUnknown
	} else if err != nil {
		return nil, err
	}
	return blocks, nil
}

// view is a matrix over bytes, whose storage the caller closes.
func view(bytes []byte, e tensor.EncodingInfo, rows, columns int) (skeep.View, error) {
	s, err := skeep.Borrow(e.Name, bytes)
	if err != nil {
		return skeep.View{}, err
	}
	return s.View(e.Name, 0, tensor.Format{DType: e.DType, Encoding: e.ID}, tensor.ShapeOf(int64(rows), int64(columns)))
}

// codecs asks one after the other.
type codecs []codec

func (list codecs) decode(e tensor.EncodingInfo, blocks []byte) ([]byte, error) {
	return list.first(func(c codec) ([]byte, error) { return c.decode(e, blocks) })
}

func (list codecs) encode(e tensor.EncodingInfo, values []byte, columns int) ([]byte, error) {
	return list.first(func(c codec) ([]byte, error) { return c.encode(e, values, columns) })
}

func (list codecs) first(do func(codec) ([]byte, error)) ([]byte, error) {
	for _, c := range list {
		if out, err := do(c); !errors.Is(err, errUnknown) {
			return out, err
		}
	}
	return nil, errUnknown
}
