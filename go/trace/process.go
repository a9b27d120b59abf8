package trace

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
)

// Process is the memory of this process in bytes, as the operating system and the Go runtime report it. Resident =
// Anonymous + File + Shared.
type Process struct {
	GoHeap    int64 // live and not yet swept objects of the Go heap
	Resident  int64
	Peak      int64 // largest Resident so far
	Anonymous int64 // private memory: Go heap, C heap, stacks
	File      int64 // resident pages of mapped files
	Shared    int64
	Huge      int64 // of Anonymous, what is in huge pages; 0 also where the system does not say
}

// Probe measures the memory of this process, from /proc/self/status, smaps_rollup and the Go runtime's metrics.
func Probe() (Process, error) { return probe(os.DirFS("/proc/self")) }

// probe reads from proc, a folder with a `status` file in the format of proc(5), and maybe `smaps_rollup`.
func probe(proc fs.FS) (Process, error) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	p := Process{GoHeap: int64(sample[0].Value.Uint64())}
	status, err := fs.ReadFile(proc, "status")
	if err != nil {
		return p, fmt.Errorf("trace: process memory: %w", err)
	}
	fields := map[string]*int64{"VmRSS": &p.Resident, "VmHWM": &p.Peak, "RssAnon": &p.Anonymous, "RssFile": &p.File, "RssShmem": &p.Shared}
	found := 0
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		key, rest, _ := strings.Cut(lines.Text(), ":")
		to, wanted := fields[key]
		if !wanted {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return p, fmt.Errorf("trace: process memory: field %s: %w", key, err)
		}
		*to = kib << 10
		found++
	}
	if found != len(fields) {
		return p, fmt.Errorf("trace: process memory: %d of %d fields found in status", found, len(fields))
	}
	if maps, err := fs.ReadFile(proc, "smaps_rollup"); err == nil {
		_, rest, _ := strings.Cut(string(maps), "\nAnonHugePages:")
		line, _, _ := strings.Cut(rest, " kB")
		kib, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		p.Huge = kib << 10
	}
	return p, nil
}
