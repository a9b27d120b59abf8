package model

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// mappedAt sums, by the name of a file, the sizes of this process's mappings of it and what is resident of them.
func mappedAt(t *testing.T) (size, resident map[string]int64) {
	f, err := os.Open("/proc/self/smaps")
	require.NoError(t, err)
	defer f.Close()
	size, resident = map[string]int64{}, map[string]int64{}
	name := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if strings.Contains(fields[0], "-") && !strings.HasSuffix(fields[0], ":") {
			name = fields[len(fields)-1]
			continue
		}
		into := map[string]map[string]int64{"Size:": size, "Rss:": resident}[fields[0]]
		if into == nil {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		require.NoError(t, err)
		into[name] += kib << 10
	}
	return size, resident
}

// Case D18. What is mapped, what of it is in memory, and what is private are lines of their own, and agree with the system: within a page
// for each file.
func TestMemoryAgreesWithTheSystem(t *testing.T) {
	path, o := packable(t)
	before := skeep.Stats().Bytes[tensor.Mapped]
	m, err := Open(t.Context(), path, o)
	require.NoError(t, err)
	defer m.Close()
	s := session(t, m)
	_, err = s.Append(t.Context(), 1, 2, 3)
	require.NoError(t, err)
	got, err := s.Memory()
	require.NoError(t, err)
	size, resident := mappedAt(t)
	page := int64(os.Getpagesize())
	files := []string{path, m.Pack().File}
	require.InDelta(t, size[files[0]]+size[files[1]], got.Mapped-before, float64(2*page))
	cached := int64(0)
	for _, name := range files {
		require.Positive(t, resident[name], name)
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		f, err := os.Open(name)
		require.NoError(t, err)
		mapping, err := unix.Mmap(int(f.Fd()), 0, len(b), unix.PROT_READ, unix.MAP_SHARED)
		require.NoError(t, err)
		in := make([]byte, (int64(len(b))+page-1)/page)
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(mapping))), uintptr(len(b)), uintptr(unsafe.Pointer(unsafe.SliceData(in))))
		require.Zero(t, errno)
		for _, one := range in {
			cached += int64(one&1) * page
		}
		require.NoError(t, unix.Munmap(mapping))
		require.NoError(t, f.Close())
	}
	again, err := s.Memory() // reading the files may have brought pages in
	require.NoError(t, err)
	require.InDelta(t, cached, again.MappedResident, float64(2*page))
	require.Equal(t, got.Resident >= got.Private, true)
	require.Less(t, got.Private, got.Resident, "pages of files are not private")
}

// Case C04. The plan names the kernel of each weight that is multiplied, and none is decoded in silence: operands for which that had to be
// done are counted.
func TestThePlanNamesKernels(t *testing.T) {
	m := tiny(t, Options{})
	n := 0
	for _, d := range m.Resolution().Decisions {
		if d.Use&resolver.Multiplied == 0 || d.Form.Action == resolver.Skip {
			continue
		}
		n++
		k, found := skeep.Kernels().Find(tensor.OpMatMulT, d.Form.Encoding, tensor.A8, d.Form.Order)
		if !found {
			k, found = skeep.Kernels().Find(tensor.OpMatMulT, d.Form.Encoding, tensor.EncF32, d.Form.Order)
		}
		require.True(t, found, d.Name)
		require.Contains(t, d.Reason, k.ISA+" kernel reads it", d.Name)
	}
	require.Positive(t, n)
	s := session(t, m)
	_, err := s.Append(t.Context(), 1, 2, 3)
	require.NoError(t, err)
	require.Zero(t, s.Copies())
}
