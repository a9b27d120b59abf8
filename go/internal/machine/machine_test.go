package machine

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// topology builds a file system with processors of the given core ids and, when not nil, capacities.
func topology(cores []int, capacity []int, more map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	put := func(name, s string) { root[name] = &fstest.MapFile{Data: []byte(s + "\n")} }
	put("sys/devices/system/cpu/online", fmt.Sprintf("0-%d", len(cores)-1))
	for cpu, core := range cores {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", cpu)
		put(dir+"topology/core_id", fmt.Sprint(core))
		put(dir+"topology/physical_package_id", "0")
		if capacity != nil {
			put(dir+"cpu_capacity", fmt.Sprint(capacity[cpu]))
		}
	}
	for name, s := range more {
		put(name, s)
	}
	return root
}

func count(n int) (ids []int) {
	for i := range n {
		ids = append(ids, i)
	}
	return ids
}

func TestThreads(t *testing.T) {
	smt8 := append(count(8), count(8)...)
	sixP := append(append(count(6), count(6)...), 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	group := map[string]string{"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/b/cpu.max": "max 100000", "sys/fs/cgroup/a/cpu.max": "250000 100000"}
	for _, c := range []struct {
		name     string
		root     fstest.MapFS
		affinity []int
		want     int
		reason   string
	}{
		{"4P+4E", topology(count(8), []int{1024, 1024, 1024, 1024, 400, 400, 400, 400}, nil), nil, 4, "4 performance cores"},
		{"1 prime, 3 big, 4 little", topology(count(8), []int{1024, 900, 900, 900, 300, 300, 300, 300}, nil), nil, 4, "4 performance cores"},
		{"8 SMT", topology(smt8, nil, nil), nil, 8, "8 physical cores"},
		{"6P SMT + 8E + 2LP", topology(sixP, nil, map[string]string{"sys/devices/cpu_core/cpus": "0-11", "sys/devices/cpu_atom/cpus": "12-21"}), nil, 6, "6 performance cores"},
		{"20 without SMT", topology(count(20), nil, nil), nil, 20, "20 physical cores"},
		{"quota 2.5", topology(count(8), nil, group), nil, 2, "container quota of 2.5 processors"},
		{"quota 0.5", topology(count(8), nil, map[string]string{"proc/self/cgroup": "3:cpu,cpuacct:/x", "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "50000", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000"}), nil, 1, "container quota of 0.5 processors"},
		{"no quota, version 1", topology(count(8), nil, map[string]string{"proc/self/cgroup": "3:cpu:/", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}), nil, 8, "8 physical cores"},
		{"mask of 3", topology(count(8), nil, nil), []int{1, 4, 5}, 3, "3 physical cores within an affinity of 3 processors"},
		{"mask of slow cores", topology(sixP, nil, map[string]string{"sys/devices/cpu_core/cpus": "0-11"}), []int{14, 15}, 2, "2 efficiency cores within an affinity of 2 processors"},
		{"one core", topology(count(1), nil, nil), nil, 1, "1 physical core"},
		{"nothing known", fstest.MapFS{}, nil, 1, "no processor topology found: 1 thread"},
	} {
		m := Read(c.root, c.affinity)
		require.Equal(t, c.want, m.Threads, c.name)
		require.Equal(t, c.reason, m.ThreadsReason, c.name)
	}
}

func TestMemory(t *testing.T) {
	info := "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 800 kB"
	put := func(files map[string]string) fstest.MapFS {
		root := fstest.MapFS{"proc/meminfo": {Data: []byte(info)}}
		for name, s := range files {
			root[name] = &fstest.MapFile{Data: []byte(s)}
		}
		return root
	}
	for _, c := range []struct {
		name             string
		root             fstest.MapFS
		total, available int64
		reason           string
	}{
		{"bare", put(nil), 1000 << 10, 800 << 10, "installed memory"},
		{"cgroup 2, cache subtracted", put(map[string]string{"proc/self/cgroup": "0::/a", "sys/fs/cgroup/a/memory.max": "500000", "sys/fs/cgroup/a/memory.current": "400000", "sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 300000\n"}), 500000, 400000, "container memory limit"},
		{"cgroup 1", put(map[string]string{"proc/self/cgroup": "5:memory:/", "sys/fs/cgroup/memory/memory.limit_in_bytes": "600000", "sys/fs/cgroup/memory/memory.usage_in_bytes": "700000"}), 600000, 0, "container memory limit"},
		{"no limit, version 1", put(map[string]string{"proc/self/cgroup": "5:memory:/", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}), 1000 << 10, 800 << 10, "installed memory"},
		{"no limit, version 2", put(map[string]string{"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": "max"}), 1000 << 10, 800 << 10, "installed memory"},
	} {
		m := Read(c.root, nil)
		require.Equal(t, c.total, m.Memory, c.name)
		require.Equal(t, c.available, m.Available, c.name)
		require.Equal(t, c.reason, m.MemoryReason, c.name)
	}
}

func TestHere(t *testing.T) {
	m := Here()
	t.Logf("%+v", m)
	require.Positive(t, m.Threads)
	require.Positive(t, m.Memory)
	require.Positive(t, m.Available)
}
