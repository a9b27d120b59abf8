// Command golden writes the vectors that tests of decoders and encoders compare with.
//
//	go run ./tests/golden [-dir FOLDER] [-searched] [-own] ENCODING…
//
// Of an encoding it writes, all numbers little-endian,
//
//	NAME.random.f32     what NAME.random.blocks decodes to, float32: random blocks, all of whose elements are finite
//	NAME.edge.f32       the same of NAME.edge.blocks, blocks that somebody chose; only where these are
//	NAME.quant.blocks   what NAME.quant.f32 is encoded to: rows of very different magnitude, a block of zeros, a constant one,
//	                    and an outlier
//	index.json          a line: GGUF's number of the type, elements and bytes of a block, rows and columns; and with -searched
//	                    row_rms_error_over_rms, which no encoder may exceed in any row, instead of NAME.quant.blocks
//
// Inputs that are there stay; those of a new encoding follow from its name. An encoding that has vectors keeps its line and its
// kinds of vectors. Outputs are computed by the Python package gguf where it knows the encoding, else (or with -own) by this
// project's portable decoder and encoder: then the vectors say that nothing changes, not that it is right.
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skeep-project/skeep/go/tensor"
)

func main() {
	dir := flag.String("dir", "go/internal/core/testdata/golden", "the folder of the vectors")
	searched := flag.Bool("searched", false, "a new encoding's encoder searches: bound its errors instead of fixing its blocks")
	alone := flag.Bool("own", false, "do without Python")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	c := codecs{python{}, own{}}
	if *alone {
		c = codecs{own{}}
	}
	os.Setenv("SKEEP_ISA", "portable") // before the core looks
	for _, name := range flag.Args() {
		if err := golden(*dir, name, *searched, c); err != nil {
			fmt.Fprintf(os.Stderr, "golden: %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

// golden writes the vectors of one encoding.
func golden(dir, encoding string, searched bool, c codec) error {
	id, err := tensor.ParseEncoding(encoding)
	if err != nil {
		return err
	}
	e, _ := id.Info()
	if e.BlockElements == 0 {
		return errUnknown
	}
	index, err := readIndex(dir)
	if err != nil {
		return err
	}
	l, known := index.line(e)
	files := map[string][]byte{}
	for _, kind := range []string{"random", "edge"} {
		blocks, err := input(dir, l.Name+"."+kind+".blocks")
		if err != nil {
			return err
		}
		if blocks == nil && kind == "random" {
			if blocks, err = randomBlocks(e, l.Rows*l.Cols/e.BlockElements); err != nil {
				return err
			}
		}
		if blocks == nil {
			continue
		}
		files[l.Name+"."+kind+".blocks"] = blocks
		if files[l.Name+"."+kind+".f32"], err = c.decode(e, blocks); err != nil {
			return err
		}
	}
	if !known {
		if err := quantized(&l, e, files, searched, c); err != nil {
			return err
		}
		if err := index.add(l); err != nil {
			return err
		}
		files["index.json"] = index.text()
	} else if _, err := os.Stat(filepath.Join(dir, l.Name+".quant.blocks")); err == nil {
		values, err := os.ReadFile(filepath.Join(dir, l.Name+".quant.f32"))
		if err != nil {
			return err
		}
		if files[l.Name+".quant.blocks"], err = c.encode(e, values, l.Cols); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// quantized adds the vectors of the encoder of a new encoding, when it has one.
func quantized(l *line, e tensor.EncodingInfo, files map[string][]byte, searched bool, c codec) error {
	values := quantInputs(*l, e)
	blocks, err := c.encode(e, values, l.Cols)
	if errors.Is(err, errUnknown) {
		return nil
	} else if err != nil {
		return err
	}
	files[l.Name+".quant.f32"] = values
	if !searched {
		files[l.Name+".quant.blocks"] = blocks
		return nil
	}
	back, err := c.decode(e, blocks)
	if err != nil {
		return err
	}
	for r := range l.Rows {
		row := 4 * l.Cols
		l.Errors = append(l.Errors, relativeError(values[r*row:(r+1)*row], back[r*row:(r+1)*row]))
	}
	return nil
}

// relativeError is √(Σ(want-got)²/Σwant²), in six digits, rounded up.
func relativeError(want, got []byte) float64 {
	var d, s float64
	for i := range len(want) / 4 {
		w, g := float(want, i), float(got, i)
		d, s = d+(w-g)*(w-g), s+w*w
	}
	return math.Ceil(1e6*math.Sqrt(d/s)) / 1e6
}

func float(b []byte, i int) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
}

// input is a file's content, nil when there is none.
func input(dir, name string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

func source(e tensor.EncodingInfo) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(e.Name))
	return rand.New(rand.NewPCG(h.Sum64(), uint64(e.ID)))
}

// randomBlocks are blocks of any bits whose elements are finite.
func randomBlocks(e tensor.EncodingInfo, n int) ([]byte, error) {
	r := source(e)
	all := make([]byte, 0, n*e.BlockBytes)
	for len(all) < n*e.BlockBytes {
		block := make([]byte, e.BlockBytes)
		for i := range block {
			block[i] = byte(r.Uint32())
		}
		values, err := own{}.decode(e, block)
		if err != nil {
			return nil, err
		}
		finite := true
		for i := range e.BlockElements {
			finite = finite && !math.IsInf(float(values, i), 0) && !math.IsNaN(float(values, i))
		}
		if finite {
			all = append(all, block...)
		}
	}
	return all, nil
}

// quantInputs are rows of magnitudes from 10⁻³ to 10⁴, with one block of zeros, one of a constant and one outlier.
func quantInputs(l line, e tensor.EncodingInfo) []byte {
	r := source(e)
	values := make([]float32, l.Rows*l.Cols)
	for i := range values {
		values[i] = float32(r.NormFloat64() * math.Pow(10, float64(i/l.Cols)-3))
	}
	for i := range e.BlockElements {
		values[l.Cols+i] = 0
		values[2*l.Cols+i] = 0.01
	}
	values[5*l.Cols+l.Cols/2] *= 50
	out := make([]byte, 0, 4*len(values))
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

// line is an encoding's entry of index.json.
type line struct {
	Type       tensor.Encoding `json:"type"`
	Name       string          `json:"name"`
	BlockElems int             `json:"block_elems"`
	BlockBytes int             `json:"block_bytes"`
	Rows       int             `json:"rows"`
	Cols       int             `json:"cols"`
	Errors     []float64       `json:"row_rms_error_over_rms,omitempty"`
}

// index is index.json, line by line as it stands in the file.
type index struct{ lines []json.RawMessage }

func readIndex(dir string) (*index, error) {
	b, err := input(dir, "index.json")
	if err != nil || b == nil {
		return &index{}, err
	}
	var x index
	return &x, json.Unmarshal(b, &x.lines)
}

// line is the entry of an encoding, or a new one: eight rows of three blocks.
func (x *index) line(e tensor.EncodingInfo) (l line, known bool) {
	for _, raw := range x.lines {
		if json.Unmarshal(raw, &l) == nil && l.Type == e.ID {
			return l, true
		}
	}
	cols := 3 * e.BlockElements
	if e.BlockElements == 1 {
		cols = 96
	}
	return line{Type: e.ID, Name: strings.ToLower(e.Name), BlockElems: e.BlockElements, BlockBytes: e.BlockBytes, Rows: 8, Cols: cols}, false
}

func (x *index) add(l line) error {
	raw, err := json.Marshal(l)
	x.lines = append(x.lines, raw)
	return err
}

func (x *index) text() []byte {
	lines := make([]string, len(x.lines))
	for i, raw := range x.lines {
		lines[i] = string(raw)
	}
	return []byte("[\n" + strings.Join(lines, ",\n") + "\n]\n")
}
