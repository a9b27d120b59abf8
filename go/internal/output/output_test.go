package output

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// names lists a folder.
func names(t *testing.T, dir string) (all []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func read(t *testing.T, path string) string {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	require.NoError(t, os.Chmod(path, mode))
}

// begin makes a file to be with some content.
func begin(t *testing.T, path, content string) *File {
	f, err := Create(path)
	require.NoError(t, err)
	_, err = f.Write([]byte(content))
	require.NoError(t, err)
	return f
}

func mode(t *testing.T, path string) os.FileMode {
	st, err := os.Stat(path)
	require.NoError(t, err)
	return st.Mode()
}

// A file appears when it is complete. What it replaces hands on its permissions, also through links; a new one has
// those that the process gives.
func TestAppearsWhenComplete(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	reference, err := os.Create(path("reference"))
	require.NoError(t, err)
	require.NoError(t, reference.Close())
	for _, m := range []os.FileMode{0o600, 0o640, 0o755, 0o666} {
		write(t, path("old"), "old", m)
		f := begin(t, path("old"), "new")
		require.Equal(t, "old", read(t, path("old")))
		require.NoError(t, f.Commit())
		require.Equal(t, "new", read(t, path("old")))
		require.Equal(t, m, mode(t, path("old")))
	}
	require.NoError(t, os.Symlink("old", path("link")))
	require.NoError(t, os.Mkdir(path("folder"), 0o755))
	require.NoError(t, os.Symlink("../link", path("folder/far")))
	require.NoError(t, begin(t, path("folder/far"), "through").Commit())
	require.Equal(t, "through", read(t, path("old")))
	target, err := os.Readlink(path("link"))
	require.NoError(t, err)
	require.Equal(t, "old", target)

	f := begin(t, path("fresh"), "new")
	require.NoFileExists(t, path("fresh"))
	require.NoError(t, f.Commit())
	require.Equal(t, mode(t, path("reference")), mode(t, path("fresh")))
	f.Discard()
	require.ErrorIs(t, f.Commit(), fs.ErrClosed)
	require.Equal(t, "new", read(t, path("fresh")))

	begin(t, path("fresh"), "newer").Discard()
	require.Equal(t, "new", read(t, path("fresh")))
	begin(t, path("none"), "new").Discard()
	require.Equal(t, []string{"folder", "fresh", "link", "old", "reference"}, names(t, dir))
	require.Equal(t, []string{"far"}, names(t, path("folder")))
}

// The owner stays where this process may give files away.
func TestOwnerStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "old", 0o640)
	if err := os.Chown(path, 12345, 23456); err != nil {
		t.Skip("files cannot be given away: ", err)
	}
	require.NoError(t, begin(t, path, "new").Commit())
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), st.Mode())
	require.EqualValues(t, 12345, st.Sys().(*syscall.Stat_t).Uid)
	require.EqualValues(t, 23456, st.Sys().(*syscall.Stat_t).Gid)
}

// Whatever fails, at any of several files, older files are what they were, new ones are not there, and nothing else is.
func TestFailureLeavesWhatWas(t *testing.T) {
	for what, spoil := range map[string]func(t *testing.T, f *File){
		"sync":   func(t *testing.T, f *File) { require.NoError(t, f.f.Close()) },
		"rename": func(t *testing.T, f *File) { require.NoError(t, os.Mkdir(f.target.real, 0o755)) },
		"gone":   func(t *testing.T, f *File) { require.NoError(t, os.Remove(f.f.Name())) },
	} {
		for at := range 4 {
			dir := t.TempDir()
			path := func(i int) string { return filepath.Join(dir, string(rune('a'+i))) }
			write(t, path(0), "old", 0o600)
			write(t, path(2), "old", 0o644)
			var files []*File
			for i := range 4 {
				files = append(files, begin(t, path(i), "new"))
			}
			if what == "rename" && at%2 == 0 {
				require.NoError(t, os.Remove(path(at)))
			}
			spoil(t, files[at])
			before := map[int]string{}
			for i := range 4 {
				if b, err := os.ReadFile(path(i)); err == nil {
					before[i] = string(b)
				}
			}
			err := Commit(files...)
			require.Error(t, err, "%s at %d", what, at)
			require.Contains(t, err.Error(), path(at))
			require.NotContains(t, err.Error(), mark)
			for i := range 4 {
				b, err := os.ReadFile(path(i))
				if want, was := before[i]; was {
					require.Equal(t, want, string(b), "%s at %d: %d", what, at, i)
				} else {
					require.Error(t, err)
				}
			}
			for _, name := range names(t, dir) {
				require.NotContains(t, name, mark)
			}
		}
	}
}

// Leftovers are removed by the next start of the same output, and by no other; what is being written, or only looks
// like one, stays. Names may be as long as names can be.
func TestLeftovers(t *testing.T) {
	for _, base := range []string{"m.gguf", strings.Repeat("x", 255), strings.Repeat("ö", 127), "a*[b"} {
		dir := t.TempDir()
		path := filepath.Join(dir, base)
		dead := temporaryName(path)
		write(t, dead, "half", 0o600)
		written := begin(t, path, "slow")
		require.NoFileExists(t, dead)
		stay := []string{filepath.Base(written.f.Name()), "other" + mark + strings.Repeat("0", digits) + end,
			stem(base)[:1] + mark + strings.Repeat("g", digits) + end}
		for _, name := range stay[1:] {
			write(t, filepath.Join(dir, name), "", 0o600)
		}
		pipe := temporaryName(path)
		require.NoError(t, syscall.Mkfifo(pipe, 0o600))
		link := temporaryName(path)
		require.NoError(t, os.Symlink("other", link))
		stay = append(stay, filepath.Base(pipe), filepath.Base(link))
		write(t, temporaryName(path), "half", 0o600)

		require.NoError(t, begin(t, path, "quick").Commit())
		require.ElementsMatch(t, append(stay, base), names(t, dir))
		require.NoError(t, written.Commit())
		require.Equal(t, "slow", read(t, path))
	}
}

// Of several who write one file at once one wins wholly.
func TestOneWins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				f, err := Create(path)
				if err != nil {
					t.Error(err)
					return
				}
				for range 10 {
					_, err = f.Write(bytes.Repeat([]byte{byte('a' + i)}, 1000))
					if err != nil {
						t.Error(err)
					}
				}
				if err := f.Commit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got := read(t, path)
	require.Equal(t, strings.Repeat(got[:1], 10000), got)
	require.Len(t, names(t, filepath.Dir(path)), 1)
}

// What this process has open is not replaced, under whatever name.
func TestInUse(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("this system does not tell what a process has open: ", err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	write(t, path, "old", 0o600)
	require.NoError(t, os.Link(path, path+".hard"))
	require.NoError(t, os.Symlink("file", path+".soft"))
	f, err := os.Open(path)
	require.NoError(t, err)
	for _, name := range []string{path, path + ".hard", path + ".soft"} {
		_, err := Create(name)
		require.ErrorIs(t, err, ErrInUse)
		require.ErrorAs(t, err, new(*Error))
		require.ErrorContains(t, err, name)
	}
	require.NoError(t, f.Close())
	require.NoError(t, begin(t, path, "new").Commit())
	require.Equal(t, "old", read(t, path+".hard"))
}

func TestTargets(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write(t, path("file"), "", 0o600)
	write(t, path("other"), "", 0o600)
	require.NoError(t, os.Link(path("file"), path("hard")))
	require.NoError(t, os.Symlink("file", path("soft")))
	require.NoError(t, os.Symlink("nowhere", path("dangling")))
	require.NoError(t, os.Symlink(".", path("here")))
	require.NoError(t, syscall.Mkfifo(path("pipe"), 0o600))
	find := func(name string) Target {
		target, err := Find(name)
		require.NoError(t, err)
		return target
	}
	for _, x := range []struct {
		a, b string
		same bool
	}{
		{"file", "file", true}, {"file", "hard", true}, {"file", "soft", true}, {"file", "here/file", true}, {"file", "other", false},
		{"new", "new", true}, {"new", "here/new", true}, {"new", "newer", false}, {"new", "file", false}, {"pipe", "pipe", false},
	} {
		require.Equal(t, x.same, find(path(x.a)).Same(find(path(x.b))), "%s %s", x.a, x.b)
		require.Equal(t, x.same, find(path(x.b)).Same(find(path(x.a))), "%s %s", x.b, x.a)
	}
	for name, want := range map[string]error{"dangling": ErrTarget, "here": ErrTarget, "new/": ErrTarget, "none/new": fs.ErrNotExist, "file/new": syscall.ENOTDIR} {
		_, err := Find(dir + "/" + name)
		require.ErrorIs(t, err, want, name)
		require.ErrorContains(t, err, dir+"/"+name)
	}
	_, err := Find("")
	require.ErrorIs(t, err, ErrTarget)
	if os.Geteuid() != 0 {
		write(t, path("file"), "", 0o400)
		_, err := Find(path("file"))
		require.ErrorIs(t, err, fs.ErrPermission)
	}

	// A pipe is written in place.
	got := make(chan string)
	go func() {
		b, _ := os.ReadFile(path("pipe"))
		got <- string(b)
	}()
	f := begin(t, path("pipe"), "flows")
	require.NoError(t, f.Commit())
	require.Equal(t, "flows", <-got)
	require.Equal(t, fs.ModeNamedPipe, mode(t, path("pipe")).Type())
}

// What ends the process at once removes what is not complete.
func TestRemoveAll(t *testing.T) {
	dir := t.TempDir()
	f := begin(t, filepath.Join(dir, "file"), "half")
	RemoveAll()
	require.False(t, live.TryLock(), "others wait for the end of the process")
	live.Unlock() // which does not end here
	require.Empty(t, names(t, dir))
	require.Error(t, f.Commit())
	require.Empty(t, names(t, dir))
}

// A device without room says so, and so does a file system.
func TestFull(t *testing.T) {
	f, err := Create("/dev/full")
	if err != nil {
		t.Skip("no full device: ", err)
	}
	_, err = f.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "/dev/full")
	f.Discard()

	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("no small file system: ", err)
	}
	defer func() { require.NoError(t, syscall.Unmount(dir, 0)) }()
	path := filepath.Join(dir, "file")
	write(t, path, "old", 0o600)
	f, err = Create(path)
	require.NoError(t, err)
	_, err = f.Write(make([]byte, 1<<20))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, path+":")
	f.Discard()
	require.Equal(t, "old", read(t, path))
	require.Equal(t, []string{"file"}, names(t, dir))
}
