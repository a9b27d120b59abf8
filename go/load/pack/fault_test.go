package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/quant"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/trace"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain packs the model that the environment names, for tests that need a process of its own.
func TestMain(m *testing.M) {
	if path := os.Getenv("PACK_TEST_MODEL"); path != "" {
		f, err := gguf.Open(path, gguf.Options{})
		if err == nil {
			var r *Result
			if r, err = Make(context.Background(), f, Options{Folder: Folder{Path: os.Getenv("PACK_TEST_FOLDER")}}); err == nil {
				fmt.Println(r.Made, r.Path)
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// packer is another process that packs a model.
func packing(t testing.TB, f *gguf.File, dir string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "PACK_TEST_MODEL="+f.Name(), "PACK_TEST_FOLDER="+dir)
	return c
}

// larger is a model whose packing takes some pieces and some time.
func larger(t testing.TB, dir string) *gguf.File {
	path := filepath.Join(dir, "larger.gguf")
	shape := quant.Shape{Layers: 4, Width: 512, Heads: 8, KVHeads: 4, FF: 2048, Vocab: 4000, Context: 64}
	_, err := quant.Synth(t.Context(), path, quant.SynthOptions{Shape: shape, Type: "q8_0"})
	require.NoError(t, err)
	return opened(t, path)
}

// TestKilledPackers kills packers at fifty moments. There is never a pack that is not whole, leftovers do not add up, and the
// next packer removes them.
func TestKilledPackers(t *testing.T) {
	dir := t.TempDir()
	f := larger(t, dir)
	folder := Folder{Path: filepath.Join(dir, "cache")}
	start := time.Now()
	require.NoError(t, packing(t, f, folder.Path).Run())
	whole := time.Since(start)
	random := rand.New(rand.NewPCG(7, 8))
	complete, leftovers := 0, 0
	for range 50 {
		list, err := folder.List()
		require.NoError(t, err)
		for _, i := range list {
			require.NoError(t, folder.Remove(i.Path))
		}
		c := packing(t, f, folder.Path)
		require.NoError(t, c.Start())
		time.Sleep(time.Duration(random.Float64() * 2 * float64(whole)))
		require.NoError(t, c.Process.Kill())
		_ = c.Wait()
		packs, temporaries := 0, 0
		for _, name := range names(t, folder.Path) {
			switch {
			case isPack(name):
				packs++
				require.NoError(t, Verify(t.Context(), filepath.Join(folder.Path, name), nil))
			case strings.HasSuffix(name, ".tmp"):
				temporaries++
			default:
				require.Equal(t, indexName, name)
			}
		}
		require.LessOrEqual(t, packs, 1)
		require.LessOrEqual(t, temporaries, 2, "of a pack and an index; the packer before has removed older ones")
		complete += packs
		leftovers += temporaries
	}
	t.Logf("of 50 packers %d were done, and %d left something", complete, leftovers)
	r, err := Make(t.Context(), f, Options{Folder: folder})
	require.NoError(t, err)
	require.NoError(t, Verify(t.Context(), r.Path, nil))
	clean(folder.Path)
	for _, name := range names(t, folder.Path) {
		require.False(t, strings.HasSuffix(name, ".tmp"), name)
	}
}

// TestSeveralPackersMakeOne starts processes and goroutines at once: one makes the pack.
func TestSeveralPackersMakeOne(t *testing.T) {
	at(t)
	dir := t.TempDir()
	f := larger(t, dir)
	folder := Folder{Path: filepath.Join(dir, "cache")}
	var all sync.WaitGroup
	var mu sync.Mutex
	made, paths := 0, map[string]bool{}
	told := func(now bool, path string) {
		mu.Lock()
		defer mu.Unlock()
		if paths[path] = true; now {
			made++
		}
	}
	for range 3 {
		all.Go(func() {
			out, err := packing(t, f, folder.Path).Output()
			var now bool
			var path string
			if _, scanErr := fmt.Sscan(string(out), &now, &path); err != nil || scanErr != nil {
				t.Error(err, scanErr)
			}
			told(now, path)
		})
		all.Go(func() {
			r, err := Make(t.Context(), opened(t, f.Name()), Options{Folder: folder})
			if err != nil {
				t.Error(err)
				return
			}
			told(r.Made, r.Path)
		})
	}
	all.Wait()
	require.Equal(t, 1, made)
	require.Len(t, paths, 1)

	// Who waits can be told to stop.
	unlock, _, err := lock(t.Context(), folder.Path, func(string) {})
	require.NoError(t, err)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Make(ctx, f, Options{Folder: folder, Note: func(text string) {
		require.Contains(t, text, "another process packs")
		cancel()
	}})
	require.ErrorIs(t, err, context.Canceled)
}

// TestCanceledWhilePacking ends a packer at each of its steps. Case C19. Nothing is left, and the bytes of a pack do not depend on the
// number of threads.
func TestCanceledWhilePacking(t *testing.T) {
	at(t)
	dir := t.TempDir()
	f := larger(t, dir)
	var want []byte
	for _, threads := range []int{1, 2, 4} {
		o := Options{Folder: Folder{Path: filepath.Join(dir, fmt.Sprint(threads))}, Threads: threads}
		r := made(t, f, o)
		b, err := os.ReadFile(r.Path)
		require.NoError(t, err)
		if want == nil {
			want = b
		}
		require.True(t, bytes.Equal(want, b), threads)
	}
	o := Options{Folder: Folder{Path: filepath.Join(dir, "cache")}, Threads: 2}
	for stop, canceled := 1, true; canceled; stop += 3 {
		ctx, cancel := context.WithCancel(t.Context())
		steps := 0
		o.Progress = func(Progress) {
			if steps++; steps == stop {
				cancel()
			}
		}
		_, err := Make(ctx, f, o)
		if canceled = err != nil; canceled {
			require.ErrorIs(t, err, context.Canceled)
			require.Empty(t, names(t, o.Folder.Path))
		}
		cancel()
	}
	require.Len(t, names(t, o.Folder.Path), 2)
}

// small mounts a file system in memory of so many bytes, or skips.
func small(t *testing.T, bytes int64) string {
	dir := filepath.Join(t.TempDir(), "small")
	require.NoError(t, os.Mkdir(dir, 0o700))
	if err := unix.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// TestFullDisk fills the file system while a pack is written, and asks for one that never has room.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	f := larger(t, dir)
	size := f.Parts()[0].Size
	full := small(t, 2*size+4<<20)
	steps := 0
	o := Options{Folder: Folder{Path: full}, Progress: func(p Progress) {
		if steps++; p.Packing && p.Done > p.Total/2 {
			filler, err := os.OpenFile(filepath.Join(full, "filler"), os.O_CREATE|os.O_WRONLY, 0o600)
			require.NoError(t, err)
			_, _ = io.Copy(filler, zeroReader{})
			require.NoError(t, filler.Close())
		}
	}}
	_, err := Make(t.Context(), f, o)
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NotErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"filler"}, names(t, full))
	o.Progress = nil
	_, err = Make(t.Context(), f, o)
	require.ErrorIs(t, err, ErrSpace)
	require.ErrorContains(t, err, "needs twice as much free space")
	require.NoError(t, os.Remove(filepath.Join(full, "filler")))
	var notes []string
	o.Note = func(text string) { notes = append(notes, text) }
	made(t, f, o)
	require.Contains(t, strings.Join(notes, "\n"), "tmpfs")
}

type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestLimitOfFileSize has the system refuse to write more, in a process of its own, as it does on a full disk.
func TestLimitOfFileSize(t *testing.T) {
	dir := t.TempDir()
	f := larger(t, dir)
	folder := filepath.Join(dir, "cache")
	c := exec.Command("bash", "-c", `trap "" XFSZ; ulimit -f 3000; exec "$0"`, os.Args[0])
	c.Env = packing(t, f, folder).Env
	out, err := c.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), syscall.EFBIG.Error())
	require.Empty(t, names(t, folder))
}

// TestEvictionDisturbsNoReader makes packs in a folder with room for two. The one that was used last stays, the one that is
// removed stays readable for those who have it mapped, and a use changes no time of modification.
func TestEvictionDisturbsNoReader(t *testing.T) {
	at(t)
	dir := t.TempDir()
	var models []*gguf.File
	for _, kind := range []string{"q4_0", "q4_1", "q5_0"} {
		models = append(models, model(t, dir, kind))
	}
	o := Options{Folder: Folder{Path: filepath.Join(dir, "cache")}}
	first, second := made(t, models[0], o), made(t, models[1], o)
	elsewhere := made(t, models[2], Options{Folder: Folder{Path: filepath.Join(dir, "elsewhere")}})
	reader, err := skeep.MapFile(first.Path)
	require.NoError(t, err)
	want, err := os.ReadFile(first.Path)
	require.NoError(t, err)
	stamped, err := os.Stat(first.Path)
	require.NoError(t, err)
	for _, r := range []*Result{first, second} {
		require.NoError(t, os.Chtimes(r.Path, time.Now().Add(-time.Hour), stamped.ModTime()))
	}
	p, err := Find(t.Context(), models[1], o)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	now, err := os.Stat(second.Path)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), accessed(now), time.Minute)
	require.Equal(t, stamped.ModTime(), now.ModTime())

	before, err := o.Folder.List()
	require.NoError(t, err)
	require.NoError(t, Verify(t.Context(), first.Path, nil))
	after, err := o.Folder.List()
	require.NoError(t, err)
	require.Equal(t, before, after, "a look is no use")
	o.Folder.Limit = second.Bytes + elsewhere.Bytes
	var notes []string
	o.Note = func(text string) { notes = append(notes, text) }
	third := made(t, models[2], o)
	require.NoFileExists(t, first.Path)
	require.Contains(t, strings.Join(notes, "\n"), "removed "+first.Path)
	list, err := o.Folder.List()
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.ElementsMatch(t, []string{second.Path, third.Path}, []string{list[0].Path, list[1].Path})
	got := make([]byte, len(want))
	_, err = reader.ReadAt(got, 0)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
	require.NoError(t, reader.Verify())
	require.NoError(t, reader.Close())
	_, err = Find(t.Context(), models[0], o)
	require.ErrorIs(t, err, ErrNone)
	o.Folder.Limit = 1000
	_, err = Make(t.Context(), models[0], o)
	require.ErrorIs(t, err, ErrSpace)
	require.FileExists(t, second.Path, "nothing is removed for what has no room at all")
}

// TestVerifyFindsEveryByte alters single bytes: of the tables, of blobs, between them, of the record, and behind.
func TestVerifyFindsEveryByte(t *testing.T) {
	at(t)
	dir := t.TempDir()
	f := model(t, dir, "q4_0")
	r := made(t, f, Options{Folder: Folder{Path: filepath.Join(dir, "cache")}})
	good, err := os.ReadFile(r.Path)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	positions := []int{0, 5, 90, 96, 200, len(good) - 1, len(good) - 2000}
	for range 60 {
		positions = append(positions, random.IntN(len(good)), random.IntN(12000), len(good)-1-random.IntN(8192))
	}
	for _, position := range positions {
		bad := bytes.Clone(good)
		bad[position] ^= 1 << random.IntN(8)
		require.NoError(t, os.WriteFile(r.Path, bad, 0o600))
		require.ErrorIs(t, Verify(t.Context(), r.Path, nil), ErrDamaged, "byte %d of %d", position, len(good))
	}
	for _, n := range []int{0, 100, len(good) / 2, len(good) - 1, len(good) - 4096} {
		require.NoError(t, os.WriteFile(r.Path, good[:n], 0o600))
		require.ErrorIs(t, Verify(t.Context(), r.Path, nil), ErrDamaged, "%d of %d bytes", n, len(good))
	}
	require.NoError(t, os.WriteFile(r.Path, good, 0o600))
	require.NoError(t, Verify(t.Context(), r.Path, nil))
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, Verify(ctx, r.Path, func(int64, int64) { cancel() }), context.Canceled)
	require.ErrorIs(t, Verify(t.Context(), filepath.Join(dir, "none"), nil), os.ErrNotExist)
	require.ErrorIs(t, Verify(t.Context(), "../../export/irpa/testdata/sample.irpa", nil), ErrDamaged)
}

// readOnly makes a folder one that nothing can be written in, also for root, or skips.
func readOnly(t *testing.T, dir string) {
	if os.Getuid() != 0 {
		require.NoError(t, os.Chmod(dir, 0o500))
		t.Cleanup(func() { require.NoError(t, os.Chmod(dir, 0o700)) })
		return
	}
	err := unix.Mount(dir, dir, "", unix.MS_BIND, "")
	if err == nil {
		t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
		err = unix.Mount("none", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	if err != nil {
		t.Skipf("a folder cannot be made read-only for root: %v", err)
	}
}

// TestReadOnlyFolder uses packs that somebody else made. What cannot be remembered is said at each start.
func TestReadOnlyFolder(t *testing.T) {
	at(t)
	dir := t.TempDir()
	f := model(t, dir, "q4_0")
	var notes []string
	o := Options{Folder: Folder{Path: filepath.Join(dir, "cache")}, Note: func(text string) { notes = append(notes, text) }}
	r := made(t, f, o)
	copied := filepath.Join(dir, "copy.gguf")
	b, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(copied, b, 0o600))
	other := model(t, dir, "q4_1")
	readOnly(t, o.Folder.Path)
	notes = nil
	p, err := Find(t.Context(), f, o)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.Empty(t, notes)
	for range 2 {
		notes = nil
		p, err := Find(t.Context(), opened(t, copied), o)
		require.NoError(t, err)
		require.Equal(t, r.Path, p.Path)
		require.NoError(t, p.Close())
		require.Len(t, notes, 2)
		require.Contains(t, notes[0], "new here")
		require.Contains(t, notes[1], "not remembered, so every start reads it again")
	}
	_, err = Make(t.Context(), other, o)
	require.Error(t, err)
	require.True(t, errors.Is(err, unix.EROFS) || errors.Is(err, os.ErrPermission), err)
	beside, err := Make(t.Context(), other, Options{Folder: o.Folder, Beside: true})
	require.NoError(t, err)
	require.Equal(t, dir, filepath.Dir(beside.Path))
	p, err = Find(t.Context(), other, o)
	require.NoError(t, err)
	require.Equal(t, beside.Path, p.Path)
	require.NoError(t, p.Close())
}

// TestSourceChangesWhilePacking writes to the model when half of it is read.
func TestSourceChangesWhilePacking(t *testing.T) {
	dir := t.TempDir()
	f := larger(t, dir)
	o := Options{Folder: Folder{Path: filepath.Join(dir, "cache")}}
	for name, change := range map[string]func() error{
		"touched": func() error { return os.Chtimes(f.Name(), time.Now(), time.Now()) },
		"cut":     func() error { return os.Truncate(f.Name(), f.Parts()[0].Size-4096) },
	} {
		done := false
		o.Progress = func(p Progress) {
			if !done && p.Done > p.Total/2 {
				done = true
				require.NoError(t, change())
			}
		}
		_, err := Make(t.Context(), f, o)
		require.ErrorIs(t, err, ErrChanged, name)
		require.Empty(t, names(t, o.Folder.Path), name)
		require.NoError(t, os.Truncate(f.Name(), f.Parts()[0].Size))
	}
}

// TestMemoryOfAPackerIsBounded packs a model that is larger than the bound.
func TestMemoryOfAPackerIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 250 MB")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "model.gguf")
	shape, err := quant.ShapeFor(110e6)
	require.NoError(t, err)
	_, err = quant.Synth(t.Context(), path, quant.SynthOptions{Shape: shape, Type: "q8_0"})
	require.NoError(t, err)
	f := opened(t, path)
	debug.FreeOSMemory()
	before, err := trace.Probe()
	require.NoError(t, err)
	peak := int64(0)
	r := made(t, f, Options{Folder: Folder{Path: filepath.Join(dir, "cache")}, Threads: 16, Progress: func(Progress) {
		now, err := trace.Probe()
		require.NoError(t, err)
		peak = max(peak, now.Anonymous-before.Anonymous)
	}})
	t.Logf("a pack of %d bytes took %d bytes of private memory", r.Bytes, peak)
	require.Greater(t, r.Bytes, int64(64<<20))
	require.Less(t, peak, int64(64<<20))
}

// TestNamesLeadNowhere has tensors that are called like files elsewhere, and a file with a name like a path. Case A46. No name within a
// model becomes one of a file.
func TestNamesLeadNowhere(t *testing.T) {
	at(t)
	dir := t.TempDir()
	in := model(t, dir, "q4_0")
	o := Options{Folder: Folder{Path: filepath.Join(dir, "cache")}}
	for _, name := range []string{"../../x", "/abs", `a\..\b`, "nul\x00", "skeep.pack"} {
		h := gguf.HeaderOf(in)
		h.Tensors[3].Name = name
		path := filepath.Join(dir, "names.gguf")
		require.NoError(t, gguf.WriteFile(path, h, func(w *gguf.Writer) error {
			for i, s := range h.Tensors {
				out, err := w.Tensor(s.Name)
				if err == nil {
					err = in.ReadTensor(in.Tensors()[i].Name, out)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}))
		f, err := gguf.Open(path, gguf.Options{})
		require.NoError(t, err)
		_, err = Make(t.Context(), f, o)
		require.Error(t, err, name)
		require.NoError(t, f.Close())
		require.NoError(t, os.Remove(path))
		require.NoDirExists(t, o.Folder.Path)
	}
	path := filepath.Join(dir, "..\xff\n%s.gguf")
	require.NoError(t, os.Rename(in.Name(), path))
	r := made(t, opened(t, path), o)
	require.ElementsMatch(t, []string{filepath.Base(path), "cache"}, names(t, dir))
	require.ElementsMatch(t, []string{filepath.Base(r.Path), indexName}, names(t, o.Folder.Path))
	list, err := o.Folder.List()
	require.NoError(t, err)
	require.Equal(t, strconv.Quote(filepath.Base(path)), list[0].Source)
	for _, name := range []string{"../" + filepath.Base(path), "../cache/../" + filepath.Base(r.Path), indexName, ""} {
		require.ErrorIs(t, o.Folder.Remove(name), ErrNone, name)
	}
}
