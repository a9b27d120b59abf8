package skeep

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/skeep-project/skeep/go/internal/argument"
)

// WriteProfile writes the open storages in the format of go tool pprof: one sample per storage with its
// bytes, the stack that made it, and the labels storage, domain and scope. Sample types are objects
// (count) and space (bytes, the default). The format is gzipped profile.proto of github.com/google/pprof.
func WriteProfile(w io.Writer) error {
	if w == nil {
		return argument.Nil("skeep: write profile", "writer")
	}
	records.Lock()
	live := make([]*record, 0, len(records.live))
	for r := range records.live {
		live = append(live, r)
	}
	records.Unlock()

	z := gzip.NewWriter(w)
	_, err := z.Write(encodeProfile(live, time.Now()))
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return fmt.Errorf("skeep: write profile: %w", err)
	}
	return nil
}

var (
	domainNames = [...]string{"heap", "offheap", "mapped", "device"}
	scopeNames  = [...]string{"ambient", "model", "forward"}
)

// proto is a protocol buffer message under construction: varint fields and length-delimited ones.
type proto []byte

func (p *proto) number(field int, n uint64) {
	*p = binary.AppendUvarint(*p, uint64(field)<<3)
	*p = binary.AppendUvarint(*p, n)
}

func (p *proto) bytes(field int, b []byte) {
	*p = binary.AppendUvarint(*p, uint64(field)<<3|2)
	*p = binary.AppendUvarint(*p, uint64(len(b)))
	*p = append(*p, b...)
}

// packed is a repeated varint field.
func (p *proto) packed(field int, n []uint64) {
	var b []byte
	for _, v := range n {
		b = binary.AppendUvarint(b, v)
	}
	p.bytes(field, b)
}

// index numbers distinct keys from 0 in order of their first use.
type index[K comparable] map[K]uint64

func (x index[K]) of(key K) (n uint64, isNew bool) {
	n, found := x[key]
	if !found {
		n = uint64(len(x))
		x[key] = n
	}
	return n, !found
}

// encodeProfile writes profile.proto. Field numbers are those of its message definitions.
func encodeProfile(live []*record, now time.Time) []byte {
	const ( // message Profile
		sampleType, sampleField, locationField, functionField   = 1, 2, 4, 5
		stringTable, timeNanos, periodType, period, defaultType = 6, 9, 11, 12, 14
	)
	var p proto
	strings, table := index[string]{}, []string{}
	str := func(s string) uint64 {
		n, isNew := strings.of(s)
		if isNew {
			table = append(table, s)
		}
		return n
	}
	str("") // string 0 is empty by definition
	valueType := func(field int, kind, unit string) {
		var v proto
		v.number(1, str(kind))
		v.number(2, str(unit))
		p.bytes(field, v)
	}
	valueType(sampleType, "objects", "count")
	valueType(sampleType, "space", "bytes")
	valueType(periodType, "space", "bytes")
	p.number(period, 1)
	p.number(defaultType, str("space"))
	p.number(timeNanos, uint64(now.UnixNano()))

	functions, locations := index[string]{}, index[uintptr]{}
	for _, r := range live {
		var stack []uint64
		for _, pc := range r.stack() {
			at, isNew := locations.of(pc)
			if isNew {
				p.bytes(locationField, encodeLocation(at+1, pc, func(f runtime.Frame) uint64 {
					n, isNew := functions.of(f.Function)
					if isNew {
						var fn proto
						fn.number(1, n+1)
						fn.number(2, str(f.Function))
						fn.number(3, str(f.Function))
						fn.number(4, str(f.File))
						p.bytes(functionField, fn)
					}
					return n + 1
				}))
			}
			stack = append(stack, at+1)
		}
		var s proto
		s.packed(1, stack)
		s.packed(2, []uint64{1, uint64(r.bytes)})
		for _, l := range [][2]string{{"storage", r.name}, {"domain", domainNames[r.spec.Domain]}, {"scope", scopeNames[r.spec.Scope]}} {
			var label proto
			label.number(1, str(l[0]))
			label.number(2, str(l[1]))
			s.bytes(3, label)
		}
		p.bytes(sampleField, s)
	}
	for _, s := range table {
		p.bytes(stringTable, []byte(s))
	}
	return p
}

// encodeLocation is message Location of one return address, with the functions that were inlined there.
func encodeLocation(id uint64, pc uintptr, function func(runtime.Frame) uint64) []byte {
	var l proto
	l.number(1, id)
	l.number(3, uint64(pc))
	frames := runtime.CallersFrames([]uintptr{pc})
	for {
		f, more := frames.Next()
		if f.Function != "" {
			var line proto
			line.number(1, function(f))
			line.number(2, uint64(f.Line))
			l.bytes(4, line)
		}
		if !more {
			return l
		}
	}
}
