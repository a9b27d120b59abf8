// Package machine tells what this process may use of the machine: processor cores within affinity and
// container quota, memory within the container's limit, the name of the processor. It reads an fs.FS rooted at /, so that any
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
	ProcessorName string // what the processor calls itself; "" unknown
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
	m.ProcessorName = processorName(text(root, "proc/cpuinfo"))
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
	limit, free, name := memoryLimit(root)
	available = min(available, free)
	if limit < math.MaxInt64 && (total == 0 || limit < total) {
		total, reason = limit, "container memory limit"
		if name == "memory.high" {
			reason += " (memory.high)"
		}
	}
	return total, available, reason
}

// cgroup lists the folders of this process's control group, from its own up to the root of what is mounted, for
// version 2 and for a version 1 controller. Controllers of version 1 may be joined ("cpu,cpuacct"), and where they are
// mounted under which name is for the system to choose: /proc/self/mountinfo tells. Without it the usual places are
// looked at.
func cgroup(root fs.FS, controller string) (v2, v1 []string) {
	mounted := mounts(root)
	for lines := bufio.NewScanner(bytes.NewReader(text(root, "proc/self/cgroup"))); lines.Scan(); {
		f := strings.SplitN(lines.Text(), ":", 3)
		switch {
		case len(f) != 3:
		case f[0] == "0" && f[1] == "":
			at := []mount{{root: "/", point: "sys/fs/cgroup"}}
			if found := mounted(func(m mount) bool { return m.kind == "cgroup2" }); found != nil {
				at = found
			}
			v2 = append(v2, groups(at, f[2])...)
		case slices.Contains(strings.Split(f[1], ","), controller):
			at := []mount{{root: "/", point: "sys/fs/cgroup/" + controller}}
			if f[1] != controller {
				at = append(at, mount{root: "/", point: "sys/fs/cgroup/" + f[1]})
			}
			if found := mounted(func(m mount) bool {
				return m.kind == "cgroup" && slices.Contains(strings.Split(m.options, ","), controller)
			}); found != nil {
				at = found
			}
			v1 = append(v1, groups(at, f[2])...)
		}
	}
	return v2, v1
}

// mount is a hierarchy of control groups: the group root of it is the folder point.
type mount struct{ root, point, kind, options string }

// mounts reads the mounted file systems; the result picks some, nil when there is none.
func mounts(root fs.FS) func(which func(mount) bool) []mount {
	var all []mount
	for lines := bufio.NewScanner(bytes.NewReader(text(root, "proc/self/mountinfo"))); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if len(b) >= 5 && len(a) >= 3 {
			all = append(all, mount{root: unescape(b[3]), point: strings.TrimPrefix(unescape(b[4]), "/"), kind: a[0], options: a[2]})
		}
	}
	return func(which func(mount) bool) (found []mount) {
		for _, m := range all {
			if which(m) {
				found = append(found, m)
			}
		}
		return found
	}
}

// unescape undoes what mountinfo does to spaces and the like: \040.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// groups are the folders of group p and of those around it, as far as they are mounted. A mount whose root is
// another group (a container's, seen from within) shows what is below that; when p is not, its root is the nearest.
func groups(at []mount, p string) (dirs []string) {
	for _, m := range at {
		rest, inside := strings.CutPrefix(path.Clean("/"+p)+"/", strings.TrimSuffix(m.root, "/")+"/")
		if !inside || strings.Contains(p, "..") {
			rest = ""
		}
		for rest = strings.TrimSuffix(rest, "/"); rest != ""; rest = strings.TrimPrefix(path.Dir("/"+rest), "/") {
			dirs = append(dirs, path.Join(m.point, rest))
		}
		dirs = append(dirs, m.point)
	}
	return dirs
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

// memoryLimit returns the lowest limit of the process's control groups, its name, and the least that is free below
// any of them: what counts against a group is also what its other members took, without page cache that can be
// dropped. A group above memory.high is slowed down until it is below, so that is a limit like memory.max.
func memoryLimit(root fs.FS) (limit, free int64, name string) {
	limit, free = math.MaxInt64, math.MaxInt64
	v2, v1 := cgroup(root, "memory")
	take := func(dir, file, now, inactive string) {
		l := int64(number(text(root, dir+"/"+file), 0))
		if l <= 0 || l >= 1<<60 { // version 1 says "none" by a huge number
			return
		}
		used := int64(number(text(root, dir+"/"+now), 0))
		for lines := bufio.NewScanner(bytes.NewReader(text(root, dir+"/memory.stat"))); lines.Scan(); {
			if f := strings.Fields(lines.Text()); len(f) == 2 && f[0] == inactive {
				used -= int64(number([]byte(f[1]), 0))
			}
		}
		free = min(free, max(l-used, 0))
		if l < limit {
			limit, name = l, file
		}
	}
	for _, dir := range v2 {
		take(dir, "memory.max", "memory.current", "inactive_file")
		take(dir, "memory.high", "memory.current", "inactive_file")
	}
	for _, dir := range v1 {
		take(dir, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
	}
	return limit, free, name
}

// processorName is what /proc/cpuinfo calls the first processor.
func processorName(info []byte) string {
	for line := range strings.Lines(string(info)) {
		if key, name, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.Join(strings.Fields(name), " ")
		}
	}
	return ""
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
