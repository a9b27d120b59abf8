package load

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	d, err := openDirect(path)
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
	_, err = openDirect(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "none")
}
