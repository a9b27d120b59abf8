// Package machine tells what this process may use of the machine: processor cores within affinity and
// container quota, memory within the container's limit. It reads an fs.FS rooted at /, so that any
// topology can be tested on any machine.
package machine

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine holds the facts. Memory is in bytes.
type Machine struct {
	Threads       int    // how many threads compute best: physical performance cores within affinity and quota
	ThreadsReason string // why that many, for people
	Memory        int64  // installed, or the container's limit when lower; 0 unknown
	Available     int64  // that can be had now without swapping; 0 unknown
	MemoryReason  string
}

// Here reads the machine this process runs on.
func Here() Machine {
	var set unix.CPUSet
	var affinity []int
	if unix.SchedGetaffinity(0, &set) == nil {
		for cpu := range len(set) * 64 {
			if set.IsSet(cpu) {
				affinity = append(affinity, cpu)
			}
		}
	}
	return Read(os.DirFS("/"), affinity)
}

// Read takes the facts from root, a file system laid out like / of Linux, for a process that may run on
// the given processors (nil: all that are online).
func Read(root fs.FS, affinity []int) Machine {
	var m Machine
	m.Threads, m.ThreadsReason = threads(root, affinity)
	m.Memory, m.Available, m.MemoryReason = memory(root)
	return m
}

// A core is one physical core that the process may use.
type core struct{ pkg, id int }

func threads(root fs.FS, affinity []int) (int, string) {
	const cpus = "sys/devices/system/cpu"
	online := list(text(root, cpus+"/online"))
	usable := affinity
	if usable == nil {
		usable = online
	}
	if len(usable) == 0 {
		return 1, "no processor topology found: 1 thread"
	}
	// Performance cores: Intel names them in a list, ARM gives each processor a capacity.
	var performance func(cpu int) bool
	hybrid := false
	if named := list(text(root, "sys/devices/cpu_core/cpus")); len(named) > 0 {
		hybrid = true
		performance = func(cpu int) bool { return slices.Contains(named, cpu) }
	} else {
		largest := 0
		capacity := map[int]int{}
		for _, cpu := range usable {
			capacity[cpu] = number(text(root, fmt.Sprintf("%s/cpu%d/cpu_capacity", cpus, cpu)), 0)
			largest = max(largest, capacity[cpu])
		}
		// Three quarters: the "prime" and "big" cores of a phone differ less than that, the small ones more.
		performance = func(cpu int) bool { return capacity[cpu]*4 >= largest*3 }
	}
	seen := map[core]bool{}
	slow := 0
	for _, cpu := range usable {
		if !performance(cpu) {
			slow++
			continue
		}
		dir := fmt.Sprintf("%s/cpu%d/topology/", cpus, cpu)
		seen[core{number(text(root, dir+"physical_package_id"), 0), number(text(root, dir+"core_id"), cpu)}] = true
	}
	n := len(seen)
	reason := cores(n, "physical")
	switch {
	case n == 0: // the mask holds slow cores only: they are what there is
		n = len(usable)
		reason = cores(n, "efficiency")
	case slow > 0 || hybrid:
		reason = cores(n, "performance")
	}
	if affinity != nil && len(affinity) < len(online) {
		reason += fmt.Sprintf(" within an affinity of %d processors", len(affinity))
	}
	if quota := cpuQuota(root); quota < float64(n) {
		n = max(1, int(quota))
		reason = fmt.Sprintf("container quota of %.4g processors", quota)
	}
	return n, reason
}

func cores(n int, kind string) string {
	if n == 1 {
		return "1 " + kind + " core"
	}
	return fmt.Sprintf("%d %s cores", n, kind)
}

func memory(root fs.FS) (total, available int64, reason string) {
	for lines := bufio.NewScanner(bytes.NewReader(text(root, "proc/meminfo"))); lines.Scan(); {
		key, rest, _ := strings.Cut(lines.Text(), ":")
		kib := int64(number([]byte(strings.TrimSuffix(strings.TrimSpace(rest), " kB")), 0))
		switch key {
		case "MemTotal":
			total = kib << 10
		case "MemAvailable":
			available = kib << 10
		}
	}
	reason = "installed memory"
	limit, used := memoryLimit(root)
	if limit > 0 && (total == 0 || limit < total) {
		total, reason = limit, "container memory limit"
		available = min(available, max(limit-used, 0))
	}
	return total, available, reason
}

// cgroup lists the folders of this process's control group, from its own up to the root, for version 2
// and for a version 1 controller.
func cgroup(root fs.FS, controller string) (v2, v1 []string) {
	up := func(base, p string) (dirs []string) {
		for p = strings.Trim(p, "/"); ; p = path.Dir(p) {
			if p == "." {
				p = ""
			}
			dirs = append(dirs, path.Join(base, p))
			if p == "" {
				return dirs
			}
		}
	}
	for lines := bufio.NewScanner(bytes.NewReader(text(root, "proc/self/cgroup"))); lines.Scan(); {
		f := strings.SplitN(lines.Text(), ":", 3)
		switch {
		case len(f) != 3:
		case f[0] == "0" && f[1] == "":
			v2 = up("sys/fs/cgroup", f[2])
		case slices.Contains(strings.Split(f[1], ","), controller):
			v1 = up("sys/fs/cgroup/"+controller, f[2])
		}
	}
	return v2, v1
}

func cpuQuota(root fs.FS) float64 {
	quota := math.Inf(1)
	v2, v1 := cgroup(root, "cpu")
	for _, dir := range v2 {
		f := strings.Fields(string(text(root, dir+"/cpu.max")))
		if len(f) == 2 && f[0] != "max" {
			quota = ratio(quota, f[0], f[1])
		}
	}
	for _, dir := range v1 {
		quota = ratio(quota, string(text(root, dir+"/cpu.cfs_quota_us")), string(text(root, dir+"/cpu.cfs_period_us")))
	}
	return quota
}

// ratio returns the lower of old and a/b, old when a/b is no positive number (a quota of -1 is none).
func ratio(old float64, a, b string) float64 {
	x, errA := strconv.ParseFloat(strings.TrimSpace(a), 64)
	y, errB := strconv.ParseFloat(strings.TrimSpace(b), 64)
	if errA != nil || errB != nil || !(x > 0) || !(y > 0) {
		return old
	}
	return min(old, x/y)
}

// memoryLimit returns the lowest limit of the process's control groups and what counts against it now,
// without page cache that can be dropped.
func memoryLimit(root fs.FS) (limit, used int64) {
	v2, v1 := cgroup(root, "memory")
	take := func(dir, max, now, inactive string) {
		l := int64(number(text(root, dir+"/"+max), 0))
		if l <= 0 || l >= 1<<60 || (limit > 0 && l >= limit) { // version 1 says "none" by a huge number
			return
		}
		limit, used = l, int64(number(text(root, dir+"/"+now), 0))
		for lines := bufio.NewScanner(bytes.NewReader(text(root, dir+"/memory.stat"))); lines.Scan(); {
			if f := strings.Fields(lines.Text()); len(f) == 2 && f[0] == inactive {
				used -= int64(number([]byte(f[1]), 0))
			}
		}
	}
	for _, dir := range v2 {
		take(dir, "memory.max", "memory.current", "inactive_file")
	}
	for _, dir := range v1 {
		take(dir, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
	}
	return limit, used
}

func text(root fs.FS, name string) []byte {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return nil // absent files are absent facts
	}
	return b
}

func number(b []byte, otherwise int) int {
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return otherwise
	}
	return n
}

// list parses the kernel's list format: "0-3,8".
func list(b []byte) (cpus []int) {
	for part := range strings.SplitSeq(strings.TrimSpace(string(b)), ",") {
		from, to, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		z := a
		if isRange {
			if z, err = strconv.Atoi(to); err != nil {
				continue
			}
		}
		for ; a <= z && a < 1<<16; a++ {
			cpus = append(cpus, a)
		}
	}
	return cpus
}
