package machine

import (
	"fmt"
	"maps"
	"strings"
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

// The number of threads follows from the cores that this process may use, and the reason says which.
// Case F01.
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

// tree is the files of one machine, a line each: path, a space, content in which \n ends lines.
func tree(files string) fstest.MapFS {
	root := fstest.MapFS{}
	for line := range strings.Lines(files) {
		if name, content, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			root[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(content, `\n`, "\n") + "\n")}
		}
	}
	return root
}

// Control groups as systems mount them: joined controllers under either name, containers that see their own group as
// the root or not, both versions side by side, nested groups.
func TestControlGroups(t *testing.T) {
	for _, c := range []struct {
		name       string
		files      string
		memory     int64
		available  int64
		threads    int
		memoryWhy  string
		threadsWhy string
	}{
		{"version 1, joined controllers, named as mounted", `
			proc/self/cgroup 12:memory:/user.slice/job\n4:cpu,cpuacct:/user.slice/job\n1:name=systemd:/user.slice
			proc/self/mountinfo 33 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:13 - cgroup cgroup rw,cpu,cpuacct\n34 24 0:29 / /sys/fs/cgroup/memory rw,nosuid shared:14 - cgroup cgroup rw,memory
			sys/fs/cgroup/cpu,cpuacct/user.slice/job/cpu.cfs_quota_us 300000
			sys/fs/cgroup/cpu,cpuacct/user.slice/job/cpu.cfs_period_us 100000
			sys/fs/cgroup/memory/user.slice/memory.limit_in_bytes 4194304
			sys/fs/cgroup/memory/user.slice/memory.usage_in_bytes 1048576
			sys/fs/cgroup/memory/user.slice/job/memory.limit_in_bytes 9223372036854771712
		`, 4 << 20, 3 << 20, 3, "container memory limit", "container quota of 3 processors"},
		{"version 1, joined in the other order", `
			proc/self/cgroup 4:cpu,cpuacct:/job
			proc/self/mountinfo 33 24 0:28 / /sys/fs/cgroup/cpuacct,cpu rw shared:13 - cgroup cgroup rw,cpuacct,cpu
			sys/fs/cgroup/cpuacct,cpu/job/cpu.cfs_quota_us 200000
			sys/fs/cgroup/cpuacct,cpu/job/cpu.cfs_period_us 100000
		`, 8 << 20, 6 << 20, 2, "installed memory", "container quota of 2 processors"},
		{"version 1, joined, mounts not told", `
			proc/self/cgroup 4:cpu,cpuacct:/job
			sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us 200000
			sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us 100000
		`, 8 << 20, 6 << 20, 2, "installed memory", "container quota of 2 processors"},
		{"version 1, a container that sees the host's path", `
			proc/self/cgroup 7:memory:/docker/0123abcd\n4:cpuacct,cpu:/docker/0123abcd
			proc/self/mountinfo 33 24 0:28 /docker/0123abcd /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n34 24 0:29 /docker/0123abcd /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory
			sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us 100000
			sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us 100000
			sys/fs/cgroup/memory/memory.limit_in_bytes 2097152
			sys/fs/cgroup/memory/memory.usage_in_bytes 1572864
			sys/fs/cgroup/memory/memory.stat cache 1048576\ntotal_inactive_file 524288
		`, 2 << 20, 1 << 20, 1, "container memory limit", "container quota of 1 processors"},
		{"version 2, memory.high below memory.max", `
			proc/self/cgroup 0::/system.slice/run.service
			proc/self/mountinfo 25 24 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
			sys/fs/cgroup/system.slice/run.service/memory.max 5242880
			sys/fs/cgroup/system.slice/run.service/memory.high 4194304
			sys/fs/cgroup/system.slice/run.service/memory.current 1048576
			sys/fs/cgroup/system.slice/run.service/cpu.max max 100000
		`, 4 << 20, 3 << 20, 8, "container memory limit (memory.high)", "8 physical cores"},
		{"version 2, memory.high of a group further out", `
			proc/self/cgroup 0::/a/b/c
			sys/fs/cgroup/a/b/c/memory.max 5242880
			sys/fs/cgroup/a/b/c/memory.high max
			sys/fs/cgroup/a/b/memory.max max
			sys/fs/cgroup/a/memory.high 3145728
			sys/fs/cgroup/a/memory.current 1048576
			sys/fs/cgroup/a/cpu.max 150000 100000
			sys/fs/cgroup/a/b/cpu.max 400000 100000
		`, 3 << 20, 2 << 20, 1, "container memory limit (memory.high)", "container quota of 1.5 processors"},
		{"version 2, neighbors took what a looser group allows", `
			proc/self/cgroup 0::/pod/one
			sys/fs/cgroup/pod/one/memory.max 3145728
			sys/fs/cgroup/pod/one/memory.current 1048576
			sys/fs/cgroup/pod/memory.max 4194304
			sys/fs/cgroup/pod/memory.current 3670016
		`, 3 << 20, 512 << 10, 8, "container memory limit", "8 physical cores"},
		{"version 2 in a namespace, the group outside of what is mounted", `
			proc/self/cgroup 0::/../../other
			proc/self/mountinfo 25 24 0:22 / /sys/fs/cgroup ro - cgroup2 cgroup rw
			sys/fs/cgroup/memory.max 2097152
			sys/fs/cgroup/memory.current 0
		`, 2 << 20, 2 << 20, 8, "container memory limit", "8 physical cores"},
		{"both versions, the second elsewhere", `
			proc/self/cgroup 9:memory:/\n0::/x
			proc/self/mountinfo 25 24 0:22 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
			sys/fs/cgroup/unified/cpu.max 250000 100000
		`, 8 << 20, 6 << 20, 2, "installed memory", "container quota of 2.5 processors"},
	} {
		root := topology(count(8), nil, map[string]string{"proc/meminfo": "MemTotal: 8192 kB\nMemAvailable: 6144 kB"})
		maps.Copy(root, tree(c.files))
		m := Read(root, nil)
		require.Equal(t, c.memory, m.Memory, c.name)
		require.Equal(t, c.available, m.Available, c.name)
		require.Equal(t, c.memoryWhy, m.MemoryReason, c.name)
		require.Equal(t, c.threads, m.Threads, c.name)
		require.Equal(t, c.threadsWhy, m.ThreadsReason, c.name)
	}
	root := topology(count(8), nil, map[string]string{
		"proc/self/cgroup":    "9:memory:/x y",
		"proc/self/mountinfo": `26 24 0:23 / /control\040groups/memory rw - cgroup cgroup rw,memory`,
		"control groups/memory/x y/memory.limit_in_bytes": "1048576",
	})
	require.EqualValues(t, 1<<20, Read(root, nil).Memory, "a blank in a path")
}

func TestTheProcessorCallsItselfByItsModel(t *testing.T) {
	require.Equal(t, "Some CPU @ 2 GHz", Read(fstest.MapFS{"proc/cpuinfo": {Data: []byte("processor\t: 0\nmodel name\t: Some  CPU @ 2 GHz \nprocessor\t: 1\nmodel name\t: other\n")}}, nil).ProcessorName)
	require.Empty(t, Read(fstest.MapFS{"proc/cpuinfo": {Data: []byte("processor\t: 0\nBogoMIPS\t: 50.00\n")}}, nil).ProcessorName)
}

func TestHere(t *testing.T) {
	m := Here()
	t.Logf("%+v", m)
	require.Positive(t, m.Threads)
	require.Positive(t, m.Memory)
	require.Positive(t, m.Available)
}
