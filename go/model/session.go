package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"sync/atomic"

	"github.com/skeep-project/skeep/go/exec"
	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/sample"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/tokenizer"
)

// ContextError says that tokens do not fit into the remaining context. Nothing was computed.
type ContextError struct {
	Position int // number of tokens in the sequence so far
	Tokens   int // number of tokens to be added
	Context  int // maximum number of positions
}

func (e *ContextError) Error() string {
	return fmt.Sprintf("model: %d more tokens do not fit after %d: the context has %d positions", e.Tokens, e.Position, e.Context)
}

// ErrRanged is the error of ranging a second time over the result of one Session.Generate call: its tokens are already
// part of the sequence.
var ErrRanged = errors.New("model: a generation can be ranged over only once")

// ErrBusy is returned by a call that would change a session while another call on it is running, either in another
// goroutine or from within the callback of Score. Nothing was computed. It wraps skeep.ErrBusy.
var ErrBusy = fmt.Errorf("model: session: %w", skeep.ErrBusy)

var errNoTokens = fmt.Errorf("%w: no tokens", ErrOption)

// ErrMoved ends a generation when other code has changed its sequence since the last token: an Append, Rewind, Score or
// another generation of the same session. The sequence stays as that code left it.
var ErrMoved = errors.New("model: the sequence was changed during this generation")

// RewindError says that a layer with a sliding window no longer holds positions that the next token would attend to.
// The session is unchanged. It wraps ErrOption.
type RewindError struct {
	Position int // tokens in the sequence
	To       int // tokens that Rewind was asked to keep
	Window   int // window of the layer
	First    int // first position that the next token would attend to
	Oldest   int // oldest position that the layer's caches still hold
}

func (e *RewindError) Error() string {
	return fmt.Sprintf("%v: rewind from %d to %d: the window of %d would begin at position %d, but the oldest position still cached is %d",
		ErrOption, e.Position, e.To, e.Window, e.First, e.Oldest)
}

// Unwrap returns ErrOption.
func (e *RewindError) Unwrap() error { return ErrOption }

// Session is one sequence: its KV caches, its position, and the memory of its steps. It must be used by one goroutine
// at a time; several sessions of one model may run concurrently. Calling Append, Score or Rewind while one of them is
// running is ErrBusy. The zero Session is closed.
type Session struct {
	m         *Model
	scope     *skeep.ModelScope
	eager     *exec.Eager
	kv        caches
	in        Inputs // whole buffers of a chunk's length
	numbers   []int32
	logits    []float32
	position  int
	reached   int         // positions that steps stored or tried to: what lies a ring's capacity before may be overwritten
	changes   uint64      // times that the sequence became another
	busy      atomic.Bool // while a call may change the sequence
	closed    atomic.Bool
	computing sync.Mutex // held by a step: Close waits for it
}

// begin makes the caller the only one that changes the sequence, until it calls end.
func (s *Session) begin() error {
	if s.busy.Swap(true) {
		return ErrBusy
	}
	return nil
}

func (s *Session) end() { s.busy.Store(false) }

// openFor refuses what comes behind Close, the model's or its own.
func (s *Session) openFor(op string) error {
	if s.m != nil {
		if err := s.m.openFor(op); err != nil {
			return err
		}
	}
	if s.m == nil || s.closed.Load() {
		return &skeep.Error{Op: op, Storage: "session", Err: skeep.ErrClosed}
	}
	return nil
}

// NewSession makes a session with an empty sequence. Its caches and the slab of its steps are placed as the resolution
// says. The caller should Close it; Model.Close closes the sessions that are still open.
func (m *Model) NewSession() (s *Session, err error) {
	if err := m.begin("session"); err != nil {
		return nil, err
	}
	defer m.running.RUnlock()
	s = &Session{m: m, scope: skeep.NewModelScope("session", skeep.WithTrace(m.trace), skeep.WithHeapLimit(m.memory)),
		numbers: make([]int32, m.kv.Chunk)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
			s = nil
		}
	}()
	kv, _ := m.resolution.Decision(resolver.NeedKV)
	slab, _ := m.resolution.Decision(resolver.NeedSlab)
	place := s.scope.Placing(kv.Spec)
	s.kv.k, s.kv.v = make([]View, len(m.arch.Layers)), make([]View, len(m.arch.Layers))
	for i := range m.arch.Layers {
		k, v, ok := m.arch.Layers[i].Caches(m.kv)
		if !ok {
			continue
		}
		if s.kv.k[i], err = place.Alloc(m.net.layers[i].kName, m.kvFormat, k); err != nil {
			return s, err
		}
		if s.kv.v[i], err = place.Alloc(m.net.layers[i].vName, m.kvFormat, v); err != nil {
			return s, err
		}
	}
	chunk := tensor.ShapeOf(int64(m.kv.Chunk))
	if s.in.IDs, err = s.scope.Alloc("ids", tensor.Dense(tensor.I32), chunk); err != nil {
		return s, err
	}
	if s.in.Positions, err = s.scope.Alloc("positions", tensor.Dense(tensor.I32), chunk); err != nil {
		return s, err
	}
	m.remember(s)
	s.eager, err = exec.NewEager(exec.Options{Pool: m.pool, Slab: slab.Spec, SlabBytes: m.plan.SlabBytes(), HeapLimit: m.memory, Exact: m.exact, Trace: m.trace,
		Roots: len(m.scope.Storages()) + len(s.scope.Storages()) + 256}) // weights, caches, slabs and what overflows them
	return s, err
}

// Close waits for a running step and then frees the session's memory; later calls on the session fail. Closing again,
// or after the model was closed, does nothing and returns nil. It may run concurrently with Model.Close.
func (s *Session) Close() (err error) {
	s.computing.Lock()
	defer s.computing.Unlock()
	if s.closed.Swap(true) || s.m == nil {
		return nil
	}
	if s.eager != nil {
		err = s.eager.Close()
	}
	err = errors.Join(err, s.scope.Close())
	s.m.forget(s)
	return err
}

// Copies counts the operands that had to be decoded into a copy because no kernel reads their format.
func (s *Session) Copies() int64 {
	if s.eager == nil {
		return 0
	}
	return s.eager.Copies()
}

// Position is the number of tokens of the sequence so far.
func (s *Session) Position() int { return s.position }

// Rewind shortens the sequence to its first n tokens. The caches of a layer with a sliding window are ring buffers: a
// position that was overwritten is lost, even if the step that overwrote it failed and even after an earlier Rewind. If
// the next token would attend to a lost position, Rewind returns a *RewindError and changes nothing. Rewind(0) starts a
// new sequence and is always possible.
func (s *Session) Rewind(n int) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	if err := s.openFor("rewind"); err != nil {
		return err
	}
	if n < 0 || n > s.position {
		return fmt.Errorf("%w: rewind to %d of %d tokens", ErrOption, n, s.position)
	}
	if n == 0 {
		s.move(0)
		s.reached = 0
		return nil
	}
	for i := range s.m.arch.Layers {
		l := &s.m.arch.Layers[i]
		if l.Heads == 0 || l.Window == 0 {
			continue
		}
		if first, oldest := max(0, n-l.Window+1), s.reached-l.Capacity(s.m.kv); first < min(oldest, n) {
			return &RewindError{Position: s.position, To: n, Window: l.Window, First: first, Oldest: oldest}
		}
	}
	s.move(n)
	return nil
}

// move makes n tokens the whole sequence.
func (s *Session) move(n int) {
	s.position = n
	s.changes++
}

// Append adds ids to the end of the sequence, in steps of at most Options.Chunk tokens, and returns the logits of the
// last one. The logits are valid until the next call and must not be modified. Ids that do not fit are a *ContextError
// and ids outside of the vocabulary are an error; in both cases nothing is computed. After any other error the sequence
// has the tokens of the steps that succeeded, and can be continued. Errors of a step are *exec.Error, which name op and
// layer and wrap a *skeep.Error, which names tensor and file; a model file that was truncated or changed is
// skeep.ErrFault or skeep.ErrChanged. If ctx ends, the error wraps ctx.Err and the cause.
func (s *Session) Append(ctx context.Context, ids ...int32) ([]float32, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	if err := s.check(ctx, "append", ids); err != nil {
		return nil, err
	}
	for len(ids) > 0 {
		if err := ended.Err(ctx); err != nil {
			return nil, err
		}
		n := min(len(ids), s.m.kv.Chunk)
		if err := s.step(ids[:n], 1); err != nil {
			return nil, err
		}
		ids = ids[n:]
	}
	return s.logits, nil
}

// Score is Append that calls each (unless it is nil) with the logits of every id, in order. The logits are valid during
// that call. Calling Append, Score, Rewind or a generation of the same session within each is ErrBusy and changes
// nothing. If each closes the session, Score ends with an error that wraps skeep.ErrClosed.
func (s *Session) Score(ctx context.Context, ids []int32, each func(i int, logits []float32) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	if err := s.check(ctx, "score", ids); err != nil {
		return err
	}
	for done := 0; done < len(ids); {
		if err := ended.Err(ctx); err != nil {
			return err
		}
		n := min(len(ids)-done, s.m.kv.Chunk, 64) // bounds the memory of logits
		if err := s.step(ids[done:done+n], n); err != nil {
			return err
		}
		for i := range n {
			if each == nil {
				continue
			}
			if err := each(done+i, s.logits[i*s.m.arch.Vocab:][:s.m.arch.Vocab]); err != nil {
				return err
			}
			if err := s.openFor("score"); err != nil {
				return err
			}
		}
		done += n
	}
	return nil
}

func (s *Session) check(ctx context.Context, op string, ids []int32) error {
	if ctx == nil {
		return noContext(op, "session")
	}
	if err := s.openFor(op); err != nil {
		return err
	}
	if len(ids) == 0 {
		return errNoTokens
	}
	if len(ids) > s.m.kv.Context-s.position {
		return &ContextError{Position: s.position, Tokens: len(ids), Context: s.m.kv.Context}
	}
	for i, id := range ids {
		if id < 0 || int(id) >= s.m.arch.Vocab {
			return fmt.Errorf("%w: id %d at index %d is outside of the vocabulary of %d tokens", ErrOption, id, i, s.m.arch.Vocab)
		}
	}
	return nil
}

// step computes len(ids) ≤ chunk tokens and leaves the logits of the last rows in s.logits.
func (s *Session) step(ids []int32, rows int) error {
	if err := s.m.begin("step"); err != nil {
		return err
	}
	defer s.m.running.RUnlock()
	s.computing.Lock()
	defer s.computing.Unlock()
	if err := s.openFor("step"); err != nil {
		return err
	}
	in := Inputs{K: s.kv.k, V: s.kv.v, Rows: rows}
	if err := s.write(s.in.IDs, ids, &in.IDs); err != nil {
		return err
	}
	positions := s.numbers[:len(ids)]
	for i := range positions {
		positions[i] = int32(s.position + i)
	}
	if err := s.write(s.in.Positions, positions, &in.Positions); err != nil {
		return err
	}
	if err := s.eager.Begin(); err != nil {
		return err
	}
	s.reached = max(s.reached, s.position+len(ids))
	logits := s.m.forward(s.eager, s.m.net, in)
	if err := s.eager.End(); err != nil {
		if formats := wider[s.m.kvFormat.Encoding]; formats != "" && ofOp(err, "kv_store") && errors.Is(err, skeep.ErrValue) {
			return fmt.Errorf("%w; a KV cache in %s can hold it: set Options.KV, or --kv %s", err, formats, formats)
		}
		return s.m.located(err)
	}
	if n := rows * s.m.arch.Vocab; cap(s.logits) < n {
		s.logits = make([]float32, n)
	} else {
		s.logits = s.logits[:n]
	}
	if err := logits.CopyTo(s.logits); err != nil {
		return err
	}
	s.move(s.position + len(ids))
	return nil
}

// ofOp reports whether an op of that name failed.
func ofOp(err error, op string) bool {
	var e *exec.Error
	return errors.As(err, &e) && e.Op == op
}

// wider says which formats of caches hold larger numbers than one.
var wider = map[tensor.Encoding]string{tensor.EncF16: "bf16|f32", tensor.EncBF16: "f32"}

// write puts numbers at the beginning of a buffer, and in part the view of them.
func (s *Session) write(buffer View, numbers []int32, part *View) (err error) {
	if *part, err = buffer.Narrow(0, 0, int64(len(numbers))); err != nil {
		return err
	}
	return part.WriteInt32s(numbers)
}

// Stop is the reason why generation ended.
type Stop string

// The reasons.
const (
	StopEOS     Stop = "eos"    // the model generated a token that ends the text
	StopLength  Stop = "length" // GenerateOptions.MaxTokens was reached
	StopContext Stop = "ctx"    // the context is full
)

// Token is one generated token.
type Token struct {
	ID   int32
	Text string // complete characters only; the start of an incomplete one comes with a later token
	Stop Stop   // "" unless this is the last token; an EOS token has no text
}

// GenerateOptions configure a generation. With the zero value it is greedy and ends at the end of the text or of the
// context.
type GenerateOptions struct {
	Sample    sample.Params
	MaxTokens int // 0: limited by the context only; a negative number is ErrOption
}

// Generate continues text in a new session, which is closed when the loop ends in any way: see Session.Generate. Each
// range over the result is a new generation.
func (m *Model) Generate(ctx context.Context, text string, o GenerateOptions) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		s, err := m.NewSession()
		if err != nil {
			yield(Token{}, err)
			return
		}
		defer s.Close() // for loops that are left, also by a panic or runtime.Goexit
		for t, err := range s.Generate(ctx, m.tokenizer.Encode(text, tokenizer.EncodeOptions{BOS: true}), o) {
			if !yield(t, err) {
				return
			}
		}
		if err := s.Close(); err != nil {
			yield(Token{}, err)
		}
	}
}

// Generate appends ids and then generates one token after another, until the text ends, o.MaxTokens tokens were
// generated, or the context is full. The last token has a Stop. An error ends the iteration. Canceling ctx ends it
// between two steps with an error that wraps ctx.Err and the cause. The result can be ranged over once: a second range
// yields ErrRanged and computes nothing. The loop body may read or close the session. If other code changes the
// sequence, the iteration ends with ErrMoved.
func (s *Session) Generate(ctx context.Context, ids []int32, o GenerateOptions) iter.Seq2[Token, error] {
	var ranged atomic.Bool
	return func(yield func(Token, error) bool) {
		if ranged.Swap(true) {
			yield(Token{}, ErrRanged)
			return
		}
		if o.MaxTokens < 0 {
			yield(Token{}, fmt.Errorf("%w: GenerateOptions.MaxTokens is %d, want 0 or more", ErrOption, o.MaxTokens))
			return
		}
		if err := s.openFor("generate"); err != nil {
			yield(Token{}, err)
			return
		}
		sampler, err := sample.New(o.Sample)
		if err != nil {
			yield(Token{}, err)
			return
		}
		text := s.m.tokenizer.NewDecoder(tokenizer.DecodeOptions{Continue: true})
		suppressed := s.m.tokenizer.Suppressed()
		var buffer []byte
		var changes uint64
		for n := 1; ; n++ {
			if n > 1 && s.changes != changes {
				yield(Token{}, ErrMoved)
				return
			}
			logits, err := s.Append(ctx, ids...)
			if err != nil {
				yield(Token{}, err)
				return
			}
			changes = s.changes
			for _, id := range suppressed {
				logits[id] = float32(math.Inf(-1))
			}
			id, err := sampler.Next(logits[:s.m.tokenizer.Len()])
			if err != nil {
				yield(Token{}, fmt.Errorf("model: position %d: %w", s.position-1, err))
				return
			}
			t := Token{ID: id}
			switch {
			case s.m.tokenizer.IsEOG(id):
				t.Stop = StopEOS
			case n == o.MaxTokens:
				t.Stop = StopLength
			case s.position == s.m.kv.Context:
				t.Stop = StopContext
			}
			buffer = buffer[:0]
			if t.Stop != StopEOS {
				buffer = text.Append(buffer, id)
			}
			if t.Stop != "" {
				buffer = text.Flush(buffer)
			}
			t.Text = string(buffer)
			if !yield(t, nil) || t.Stop != "" {
				return
			}
			ids = append(ids[:0:0], id)
		}
	}
}

// Memory is the memory use of a model and a session by kind, and the resident memory of the process.
type Memory struct {
	Heap           int64 `json:"heap"`            // Go heap objects
	OffHeap        int64 `json:"offheap"`         // C-allocated
	Mapped         int64 `json:"mapped"`          // file pages in the address space
	MappedResident int64 `json:"mapped_resident"` // mapped bytes that are in the page cache now, of whichever process
	Slab           int64 `json:"slab"`            // the slab of the session's steps, part of OffHeap
	SlabPeak       int64 `json:"slab_peak"`       // the most that one layer has needed so far, in one half of the slab
	KV             int64 `json:"kv"`              // the session's caches
	Resident       int64 `json:"resident"`        // of the whole process
	Private        int64 `json:"private"`         // of that, what belongs to this process alone; the rest is pages of files
	Huge           int64 `json:"huge"`            // of that, what is in huge pages
}
