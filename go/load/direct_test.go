package load

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDirectReadsAnyRange(t *testing.T) {
	want := make([]byte, 3*directBuffer/2+777)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range want {
		want[i] = byte(r.Uint32())
	}
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, want, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	d, err := openDirect(path, f)
	if err != nil {
		t.Skip(err)
	}
	defer d.f.Close()
	for range 50 {
		a := r.IntN(len(want))
		b := a + r.IntN(len(want)-a)
		got, err := io.ReadAll(io.NewSectionReader(d, int64(a), int64(b-a)))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want[a:b], got), "%d to %d", a, b)
	}
	_, err = d.ReadAt(make([]byte, 10), int64(len(want)-5))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = d.ReadAt(make([]byte, 1), int64(len(want)+directBuffer))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = openDirect(filepath.Join(t.TempDir(), "none"), f)
	require.ErrorContains(t, err, "none")
}

// Files of sysfs are regular, can be read, and cannot be mapped.
func TestMappable(t *testing.T) {
	f, err := os.Open("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	err = mappable(f)
	require.ErrorIs(t, err, syscall.ENODEV)
	require.ErrorContains(t, err, "the file system cannot map "+f.Name()+": no such device")
	own, err := os.Open("direct_test.go")
	require.NoError(t, err)
	defer own.Close()
	require.NoError(t, mappable(own))
}
