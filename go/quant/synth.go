package quant

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// Shape holds the hyperparameters of a model of the llama family.
type Shape struct {
	Layers, Width  int
	Heads, KVHeads int
	FF             int // width of the feed-forward part
	Vocab          int
	Context        int // training context length in the metadata
}

// shapes are those of models that people know, by size.
var shapes = []Shape{
	{Layers: 5, Width: 64, Heads: 8, KVHeads: 4, FF: 172, Vocab: 512, Context: 512},           // stories 260K
	{Layers: 4, Width: 256, Heads: 8, KVHeads: 4, FF: 768, Vocab: 2048, Context: 2048},        // 4M, the least of whole blocks
	{Layers: 6, Width: 288, Heads: 6, KVHeads: 6, FF: 768, Vocab: 32000, Context: 256},        // stories 15M
	{Layers: 12, Width: 768, Heads: 12, KVHeads: 12, FF: 2048, Vocab: 32000, Context: 1024},   // stories 110M
	{Layers: 22, Width: 2048, Heads: 32, KVHeads: 4, FF: 5632, Vocab: 32000, Context: 2048},   // TinyLlama 1.1B
	{Layers: 26, Width: 3200, Heads: 32, KVHeads: 32, FF: 8640, Vocab: 32000, Context: 2048},  // OpenLLaMA 3B
	{Layers: 32, Width: 4096, Heads: 32, KVHeads: 32, FF: 11008, Vocab: 32000, Context: 4096}, // Llama 2 7B
	{Layers: 32, Width: 4096, Heads: 32, KVHeads: 8, FF: 14336, Vocab: 128256, Context: 8192}, // Llama 3 8B
	{Layers: 40, Width: 5120, Heads: 40, KVHeads: 40, FF: 13824, Vocab: 32000, Context: 4096}, // Llama 2 13B
	{Layers: 80, Width: 8192, Heads: 64, KVHeads: 8, FF: 28672, Vocab: 32000, Context: 4096},  // Llama 2 70B
}

// ShapeFor returns the shape of a well-known model with about params parameters. The number of layers, 1 to 4096, is
// adjusted to come as close to params as possible. A number of parameters that is not 1 to 1e13 is an error that wraps
// ErrArgument.
func ShapeFor(params float64) (Shape, error) {
	if !(params >= 1 && params <= maxParams) {
		return Shape{}, &Error{Row: -1, Column: -1, Reason: fmt.Sprintf("%g parameters, want 1 to %g", params, maxParams), Err: ErrArgument}
	}
	best, distance := shapes[0], math.Inf(1)
	for _, s := range shapes {
		if d := math.Abs(math.Log(float64(s.Params()) / params)); d < distance {
			best, distance = s, d
		}
	}
	none := best
	none.Layers = 0
	perLayer := float64(best.Params()-none.Params()) / float64(best.Layers)
	best.Layers = int(min(max(1, math.Round((params-float64(none.Params()))/perLayer)), maxLayers))
	return best, nil
}

const maxParams = 1e13 // more than a file of maxLayers has

const maxLayers = 4096 // what package arch reads

// Params is the number of parameters, with at most 4096 layers.
func (s Shape) Params() int64 {
	s.Layers = min(s.Layers, maxLayers)
	total := int64(0)
	for _, t := range s.tensors() {
		n, _ := t.Shape.Elements() // checked shapes are small
		total += n
	}
	return total
}

// check says which number is out of range.
func (s Shape) check() error {
	fail := func(format string, args ...any) error {
		return &Error{Row: -1, Column: -1, Reason: fmt.Sprintf(format, args...), Err: ErrArgument}
	}
	for _, x := range []struct {
		name         string
		n, low, high int
	}{
		{"layers", s.Layers, 1, maxLayers}, {"width", s.Width, 1, 1 << 20}, {"heads", s.Heads, 1, 1 << 14},
		{"key-value heads", s.KVHeads, 1, 1 << 14}, {"feed-forward width", s.FF, 1, 1 << 22},
		{"vocabulary", s.Vocab, plainTokens, 1 << 24}, {"context", s.Context, 1, math.MaxInt32},
	} {
		if x.n < x.low || x.n > x.high {
			return fail("%s is %d, want %d to %d", x.name, x.n, x.low, x.high)
		}
	}
	if s.Width%s.Heads != 0 || s.Width/s.Heads%2 != 0 {
		return fail("width %d does not give %d heads of equal, even width", s.Width, s.Heads)
	}
	if s.Heads%s.KVHeads != 0 {
		return fail("%d heads are not a multiple of %d key-value heads", s.Heads, s.KVHeads)
	}
	return nil
}

// tensors lists the model's tensors, dense.
func (s Shape) tensors() []gguf.TensorSpec {
	var all []gguf.TensorSpec
	add := func(layer int, role tensor.Role, dims ...int64) {
		all = append(all, gguf.TensorSpec{Name: tensor.IDOf(role, layer).String(), Encoding: tensor.EncF32, Shape: tensor.ShapeOf(dims...)})
	}
	width, ff, vocab := int64(s.Width), int64(s.FF), int64(s.Vocab)
	kv := width / int64(max(1, s.Heads)) * int64(s.KVHeads) // Params may be asked of an unchecked shape
	add(-1, tensor.TokenEmbed, vocab, width)
	for i := range s.Layers {
		add(i, tensor.AttnNorm, width)
		add(i, tensor.AttnQ, width, width)
		add(i, tensor.AttnK, kv, width)
		add(i, tensor.AttnV, kv, width)
		add(i, tensor.AttnOutput, width, width)
		add(i, tensor.FFNNorm, width)
		add(i, tensor.FFNGate, ff, width)
		add(i, tensor.FFNUp, ff, width)
		add(i, tensor.FFNDown, width, ff)
	}
	add(-1, tensor.OutputNorm, width)
	add(-1, tensor.Output, vocab, width)
	return all
}

// plainTokens are those of every vocabulary here: unknown, begin, end, and one for each byte.
const plainTokens = 3 + 256

// metadata is all keys of the model, its tokenizer included: bytes, and texts that nobody writes up to the size
// of the vocabulary.
func (s Shape) metadata(name string) []gguf.Pair {
	tokens := []string{"<unk>", "<s>", "</s>"}
	types := []int32{2, 3, 3} // unknown, control
	for b := range 256 {
		tokens, types = append(tokens, fmt.Sprintf("<0x%02X>", b)), append(types, 6) // byte
	}
	for i := len(tokens); i < s.Vocab; i++ {
		tokens, types = append(tokens, fmt.Sprintf("[%d]", i)), append(types, 5) // unused
	}
	count := func(n int) arch.Value { return gguf.NumberOf(uint32(n)) }
	return []gguf.Pair{
		{Key: "general.architecture", Value: gguf.TextOf("llama")},
		{Key: "general.type", Value: gguf.TextOf("model")},
		{Key: "general.name", Value: gguf.TextOf(name)},
		{Key: "llama.block_count", Value: count(s.Layers)},
		{Key: "llama.context_length", Value: count(s.Context)},
		{Key: "llama.embedding_length", Value: count(s.Width)},
		{Key: "llama.feed_forward_length", Value: count(s.FF)},
		{Key: "llama.attention.head_count", Value: count(s.Heads)},
		{Key: "llama.attention.head_count_kv", Value: count(s.KVHeads)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: gguf.NumberOf(float32(1e-5))},
		{Key: "llama.rope.dimension_count", Value: count(s.Width / s.Heads)},
		{Key: "llama.rope.freq_base", Value: gguf.NumberOf(float32(10000))},
		{Key: "llama.vocab_size", Value: count(s.Vocab)},
		{Key: "tokenizer.ggml.model", Value: gguf.TextOf("llama")},
		{Key: "tokenizer.ggml.tokens", Value: gguf.TextsOf(tokens)},
		{Key: "tokenizer.ggml.scores", Value: gguf.NumbersOf(make([]float32, s.Vocab))},
		{Key: "tokenizer.ggml.token_type", Value: gguf.NumbersOf(types)},
		{Key: "tokenizer.ggml.bos_token_id", Value: count(1)},
		{Key: "tokenizer.ggml.eos_token_id", Value: count(2)},
		{Key: "tokenizer.ggml.unknown_token_id", Value: count(0)},
		{Key: "tokenizer.ggml.add_bos_token", Value: gguf.NumberOf(true)},
		{Key: "tokenizer.ggml.add_space_prefix", Value: gguf.NumberOf(false)},
	}
}

// SynthOptions describe a random model.
type SynthOptions struct {
	Shape    Shape
	Type     string         // a mix or a format; formats without an encoder are allowed
	Pure     bool           // use this format for every matrix
	Seed     uint64         // the same seed makes the same file
	Progress func(Progress) // may be nil
}

// Synth writes a model with random weights to out. It runs like a real model of its shape and types: the elements of a
// matrix with n columns are normally distributed with variance 1/n, and norms are 1. The blocks of a matrix are drawn
// from a dictionary of a thousand encoded blocks. For formats without an encoder, random blocks with suitable scales
// are made instead. Memory use is bounded. A file that this process has open or mapped is not replaced (gguf.ErrInUse).
// Errors are *TypeError, *Error, those of package gguf, or those of ctx.
func Synth(ctx context.Context, out string, o SynthOptions) (*Report, error) {
	if ctx == nil {
		return nil, needed("context")
	}
	m, err := parseType(o.Type)
	if err != nil {
		return nil, err
	}
	if err := o.Shape.check(); err != nil {
		return nil, err
	}
	h := gguf.Header{Metadata: o.Shape.metadata(fmt.Sprintf("synthetic, %d parameters, seed %d", o.Shape.Params(), o.Seed)), Tensors: o.Shape.tensors()}
	describe(&h, m)
	r := &Report{FileType: m.fileType}
	if r.Decisions, err = m.choose(described{out, h}, o.Pure); err != nil {
		return nil, err
	}
	for i, d := range r.Decisions {
		h.Tensors[i].Encoding = d.To
		r.To += d.Bytes
	}
	pool, err := skeep.NewPool(1)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	s := synth{seed: o.Seed, copier: skeep.Copier{Pool: pool, Layer: -1}, dictionaries: map[dictionaryKey]dictionary{}}
	p := Progress{Total: r.To}
	report := func(tensor string) {
		if p.Tensor = tensor; o.Progress != nil {
			o.Progress(p)
		}
	}
	err = gguf.WriteFile(out, h, func(w *gguf.Writer) error {
		for i, d := range r.Decisions {
			out, err := w.Tensor(d.Name)
			if err != nil {
				return err
			}
			err = s.tensor(uint64(i), d, func(b []byte) error {
				report(d.Name)
				if _, err := out.Write(b); err != nil {
					return err
				}
				p.Done += int64(len(b))
				return ended.Err(ctx)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	report("")
	return r, nil
}

// described is what a file to be written says, for those who read headers.
type described struct {
	name string
	h    gguf.Header
}

var _ arch.Header = described{}

func (d described) Name() string { return d.name }

func (d described) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, kv := range d.h.Metadata {
			if !yield(kv.Key) {
				return
			}
		}
	}
}

func (d described) Value(key string) (arch.Value, bool) {
	for _, kv := range d.h.Metadata {
		if kv.Key == key {
			return kv.Value, true
		}
	}
	return nil, false
}

func (d described) Tensors() []arch.TensorInfo {
	var all []arch.TensorInfo
	for _, t := range d.h.Tensors {
		n, _ := tensor.FormatOf(t.Encoding).Bytes(t.Shape) // dense, and of a checked shape
		all = append(all, arch.TensorInfo{Name: t.Name, Encoding: t.Encoding, Type: uint32(t.Encoding), Shape: t.Shape, Bytes: n})
	}
	return all
}

// synth makes payload.
type synth struct {
	seed         uint64
	copier       skeep.Copier
	dictionaries map[dictionaryKey]dictionary
}

type dictionaryKey struct {
	encoding tensor.Encoding
	columns  int64
}

// dictionary is encoded pieces of rows, each of size bytes and of as many elements as divide a row.
type dictionary struct {
	bytes []byte
	size  int
}

const dictionaryEntries = 1 << 10

// tensor makes the bytes of tensor number i and gives them away in pieces that are reused.
func (s *synth) tensor(i uint64, d Decision, emit func([]byte) error) error {
	if d.Shape.Rank < 2 { // a norm
		var one []byte
		for range d.Shape.Dims[0] {
			one = binary.LittleEndian.AppendUint32(one, math.Float32bits(1))
		}
		return emit(one)
	}
	words, err := s.dictionary(dictionaryKey{d.To, d.Shape.Dims[d.Shape.Rank-1]})
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(s.seed, i+1))
	buf := make([]byte, (1<<20)/words.size*words.size)
	for left := d.Bytes; left > 0; left -= int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), left)]
		for at := 0; at < len(buf); {
			const bits = 10 // of an index
			for x, n := r.Uint64(), 0; n < 6 && at < len(buf); x, n = x>>bits, n+1 {
				at += copy(buf[at:], words.bytes[int(x%dictionaryEntries)*words.size:][:words.size])
			}
		}
		if err := emit(buf); err != nil {
			return err
		}
	}
	return nil
}

// dictionary makes entries for rows of so many columns.
func (s *synth) dictionary(k dictionaryKey) (dictionary, error) {
	if d, ok := s.dictionaries[k]; ok {
		return d, nil
	}
	info, _ := k.encoding.Info()
	elements := int64(info.BlockElements)
	if elements == 1 {
		elements = gcd(k.columns, 256)
	}
	r := rand.New(rand.NewPCG(s.seed, uint64(k.columns)<<16|uint64(k.encoding)))
	f := tensor.FormatOf(k.encoding)
	shape := tensor.ShapeOf(dictionaryEntries, elements)
	deviation := 1 / math.Sqrt(float64(k.columns))
	var view skeep.View
	var err error
	if skeep.Encodable(f) {
		view, err = s.normal(r, f, shape, deviation)
	} else {
		view, err = s.scaled(r, f, shape, deviation)
	}
	if err != nil {
		return dictionary{}, err
	}
	d := dictionary{bytes: make([]byte, view.Bytes()), size: int(view.Bytes() / dictionaryEntries)}
	if _, err := view.Storage().ReadAt(d.bytes, 0); err != nil && err != io.EOF {
		return dictionary{}, err
	}
	s.dictionaries[k] = d
	return d, nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// normal encodes normally distributed numbers.
func (s *synth) normal(r *rand.Rand, f tensor.Format, shape tensor.Shape, deviation float64) (skeep.View, error) {
	dense, err := skeep.Ambient().Alloc("synthetic", tensor.Dense(tensor.F32), shape)
	if err != nil {
		return skeep.View{}, err
	}
	values := make([]float32, shape.Dims[0]*shape.Dims[1])
	for i := range values {
		values[i] = float32(r.NormFloat64() * deviation)
	}
	if err := dense.WriteFloat32s(values); err != nil {
		return skeep.View{}, err
	}
	return s.copier.Encode("synthetic", dense, f, skeep.Ambient())
}

// scaled makes random blocks and gives each the scale at which its root mean square is the deviation.
func (s *synth) scaled(r *rand.Rand, f tensor.Format, shape tensor.Shape, deviation float64) (skeep.View, error) {
	const one = 0x3c00 // as a half
	_, size := f.Block()
	blocks := make([]byte, dictionaryEntries*size)
	for i := range blocks {
		blocks[i] = byte(r.Uint32())
	}
	for i := 0; i < len(blocks); i += size {
		putScale(f.Encoding, blocks[i:], one)
	}
	v, err := skeep.Ambient().Alloc("synthetic", f, shape)
	if err != nil {
		return skeep.View{}, err
	}
	if _, err := v.Storage().WriteAt(blocks, 0); err != nil {
		return skeep.View{}, err
	}
	dense, err := s.copier.Materialize("synthetic", v, tensor.Dense(tensor.F32), skeep.Ambient())
	if err != nil {
		return skeep.View{}, err
	}
	values := make([]float32, shape.Dims[0]*shape.Dims[1])
	if err := dense.CopyTo(values); err != nil {
		return skeep.View{}, err
	}
	for i := range int64(dictionaryEntries) {
		squares := 0.0
		for _, x := range values[i*shape.Dims[1]:][:shape.Dims[1]] {
			squares += float64(x) * float64(x)
		}
		scale := deviation / math.Sqrt(squares/float64(shape.Dims[1]))
		putScale(f.Encoding, blocks[i*int64(size):], half(scale))
	}
	_, err = v.Storage().WriteAt(blocks, 0)
	return v, err
}

// putScale writes the scale of a block that is decoded only: a half at the beginning, but in IQ1_M's the top
// nibbles of its last four words.
func putScale(e tensor.Encoding, block []byte, scale uint16) {
	if e != tensor.IQ1_M {
		binary.LittleEndian.PutUint16(block, scale)
		return
	}
	for i, at := range []int{49, 51, 53, 55} {
		block[at] = block[at]&15 | byte(scale>>(4*i)&15)<<4
	}
}

// half is a positive number as a half, cut.
func half(x float64) uint16 {
	fraction, exponent := math.Frexp(x) // in [1/2, 1)
	if exponent < -13 {                 // subnormal
		return uint16(math.Ldexp(x, 24))
	}
	return uint16(exponent+14)<<10 | uint16(fraction*2048)&0x3ff
}
