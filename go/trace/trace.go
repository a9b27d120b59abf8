// Package trace records what happens to tensors: every op, every copy and repacking with its byte count, every stage of
// a load. It keeps exact totals per kind and a bounded number of events, and writes them for the Perfetto UI. It also
// measures the memory of the process.
package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/skeep-project/skeep/go/internal/argument"
)

// Kind says what an event is about.
type Kind uint8

// The kinds of events.
const (
	Op          Kind = iota // an operation of a step
	Quantize                // an activation quantized for integer products
	Materialize             // a copy into a described form
	Prepack                 // blocks copied in another order
	Map                     // a file, or a range of it, mapped
	Allocate                // a storage made
	Close                   // a storage closed
	Load                    // a stage of a model load
	Step                    // one whole step
	Overflow                // an allocation that did not fit its slab
	Requantize              // a tensor encoded into a packed format
	kinds
)

var kindNames = [kinds]string{"op", "quantize", "materialize", "prepack", "map", "allocate", "close", "load", "step", "overflow", "requantize"}

func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Event is one recorded event. Its strings are kept, not copied: pass long-lived strings.
type Event struct {
	Kind    Kind
	Name    string    // the op, or the storage
	Tensor  string    // the tensor, if there is just one
	Kernel  string    // the kernel that ran, for ops
	Detail  string    // the reason or the formats, e.g. "Q4_0 row-major -> F32"
	Layer   int32     // -1 outside of layers
	Bytes   int64     // moved, copied, mapped or allocated
	Start   time.Time // zero: unknown
	Elapsed time.Duration
}

// Total holds the sums over the events of one kind.
type Total struct {
	Count   int64
	Bytes   int64
	Elapsed time.Duration
}

// Recorder collects events. Totals are exact; of the events themselves only the latest are kept, up to the capacity. A
// nil *Recorder is valid and records nothing. Safe for concurrent use; Emit does not allocate.
type Recorder struct {
	mu     sync.Mutex
	ring   []Event
	next   int // where the next event goes
	seen   int64
	totals [kinds]Total
	failed string
}

// NewRecorder keeps the latest capacity events, at most 2²⁴; 0 keeps totals only.
func NewRecorder(capacity int) *Recorder {
	return &Recorder{ring: make([]Event, 0, min(max(capacity, 0), 1<<24))}
}

// Emit records e. On a nil Recorder it does nothing.
func (r *Recorder) Emit(e Event) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen++
	if e.Kind < kinds {
		t := &r.totals[e.Kind]
		t.Count++
		t.Bytes += e.Bytes
		t.Elapsed += e.Elapsed
	}
	switch {
	case cap(r.ring) == 0:
	case len(r.ring) < cap(r.ring):
		r.ring = append(r.ring, e)
	default:
		r.ring[r.next] = e
		r.next = (r.next + 1) % len(r.ring)
	}
}

// Fail records that the traced run ended with err; WritePerfetto writes it. On a nil Recorder it does nothing.
func (r *Recorder) Fail(err error) {
	if r == nil || err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err.Error()
}

// Enabled reports whether events are recorded, so that callers can avoid the work of describing one.
func (r *Recorder) Enabled() bool { return r != nil }

// Total returns the sums of one kind.
func (r *Recorder) Total(k Kind) Total {
	if r == nil || k >= kinds {
		return Total{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.totals[k]
}

// Events returns the kept events, oldest first, and how many older ones were dropped.
func (r *Recorder) Events() (events []Event, dropped int64) {
	if r == nil {
		return nil, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	events = append(events, r.ring[r.next:]...)
	events = append(events, r.ring[:r.next]...)
	return events, r.seen - int64(len(events))
}

// WritePerfetto writes the kept events in the JSON trace format that ui.perfetto.dev and chrome://tracing open: one
// track per kind, microseconds since the first event. The field otherData states how many older events were dropped
// and, under "failed", the error given to Fail.
func (r *Recorder) WritePerfetto(w io.Writer) error {
	if w == nil {
		return argument.Nil("trace: write", "writer")
	}
	type slice struct {
		Name  string         `json:"name"`
		Cat   string         `json:"cat,omitempty"`
		Phase string         `json:"ph"`
		Time  float64        `json:"ts"`
		Dur   *float64       `json:"dur,omitempty"`
		PID   int            `json:"pid"`
		TID   int            `json:"tid"`
		Args  map[string]any `json:"args,omitempty"`
	}
	events, dropped := r.Events()
	out := struct {
		Unit   string         `json:"displayTimeUnit"`
		Other  map[string]any `json:"otherData"`
		Events []slice        `json:"traceEvents"`
	}{Unit: "ms", Other: map[string]any{"dropped": dropped}, Events: []slice{}}
	if r != nil {
		r.mu.Lock()
		if r.failed != "" {
			out.Other["failed"] = r.failed
		}
		r.mu.Unlock()
	}
	for k, name := range kindNames {
		out.Events = append(out.Events, slice{Name: "thread_name", Phase: "M", PID: 1, TID: k + 1, Args: map[string]any{"name": name}})
	}
	var origin time.Time
	for _, e := range events {
		if !e.Start.IsZero() && (origin.IsZero() || e.Start.Before(origin)) {
			origin = e.Start
		}
	}
	for _, e := range events {
		s := slice{Name: e.Name, Cat: e.Kind.String(), Phase: "i", PID: 1, TID: int(e.Kind) + 1, Args: map[string]any{}}
		if !e.Start.IsZero() {
			s.Time = float64(e.Start.Sub(origin).Nanoseconds()) / 1e3
		}
		if e.Elapsed > 0 {
			us := float64(e.Elapsed.Nanoseconds()) / 1e3
			s.Phase, s.Dur = "X", &us
		}
		for _, a := range []struct{ key, value string }{{"tensor", e.Tensor}, {"kernel", e.Kernel}, {"detail", e.Detail}} {
			if a.value != "" {
				s.Args[a.key] = a.value
			}
		}
		if e.Bytes != 0 {
			s.Args["bytes"] = e.Bytes
		}
		if e.Layer >= 0 {
			s.Args["layer"] = e.Layer
		}
		out.Events = append(out.Events, s)
	}
	return json.NewEncoder(w).Encode(out)
}
