package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/skeep-project/skeep/go/export/irpa"
	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/internal/output"
	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/resolver"
	"golang.org/x/sys/unix"
)

// Folder is where the packs of all models are, with an index of models that were read. Several processes may use it at the same
// time.
type Folder struct {
	Path  string
	Limit int64 // bytes of all packs: making one removes those that were not used for the longest time; 0: DefaultLimit
}

// DefaultLimit is how many bytes the packs of a folder may have.
const DefaultLimit = 32 << 30

// Default is the folder that the environment names: SKEEP_CACHE, or else skeep in the user's cache directory. Its limit is
// SKEEP_CACHE_LIMIT: bytes, or a number with K, M, G or T behind it for powers of 1024, as resolver.ParseSize reads it.
func Default() (Folder, error) {
	f := Folder{Path: os.Getenv("SKEEP_CACHE"), Limit: DefaultLimit}
	if limit := os.Getenv("SKEEP_CACHE_LIMIT"); limit != "" {
		n, err := resolver.ParseSize(limit)
		if err != nil || n < 1 {
			return f, &Error{"SKEEP_CACHE_LIMIT=" + limit, "want a number of bytes from 1 on, or one with K, M, G or T behind it", fs.ErrInvalid}
		}
		f.Limit = n
	}
	if f.Path == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return f, &Error{"SKEEP_CACHE", fmt.Sprintf("not set, and there is no other folder: %v", err), fs.ErrNotExist}
		}
		f.Path = filepath.Join(dir, "skeep")
	}
	return f, nil
}

// settle fills in what a folder leaves open.
func (f *Folder) settle() error {
	if f.Path != "" {
		if f.Limit <= 0 {
			f.Limit = DefaultLimit
		}
		return nil
	}
	var err error
	*f, err = Default()
	return err
}

// Info is what is known of a pack in a folder.
type Info struct {
	Path   string
	Bytes  int64
	Used   time.Time // last
	Source string    // name of the model's file when it was packed
	Orders []string  // "Q4_K row_panel16i4v1"
	Err    error     // why it cannot be used; nil if its tables are in order
}

// List lists the packs of a folder, those that were used last first. A folder that is not there has none.
func (f Folder) List() ([]Info, error) {
	if err := f.settle(); err != nil {
		return nil, err
	}
	list, err := f.scan()
	for k := range list {
		i := &list[k]
		a, err := irpa.Open(i.Path)
		if err != nil {
			i.Err = err
			continue
		}
		var r record
		if r, i.Err = recordOf(a); i.Err == nil && len(r.Source) > 0 {
			i.Source, i.Orders = r.Source[0].Name, r.Orders
		}
		_ = a.Close() // only read
		touch(i.Path, i.Used)
	}
	return list, err
}

// scan is List without a look into the packs.
func (f Folder) scan() (list []Info, err error) {
	names, err := packsIn(f.Path)
	for _, name := range names {
		path := filepath.Join(f.Path, name)
		st, statErr := os.Stat(path)
		switch {
		case statErr == nil:
			list = append(list, Info{Path: path, Bytes: st.Size(), Used: accessed(st)})
		case !errors.Is(statErr, fs.ErrNotExist): // else removed meanwhile
			err = errors.Join(err, statErr)
		}
	}
	slices.SortStableFunc(list, func(a, b Info) int { return b.Used.Compare(a.Used) })
	return list, err
}

// touch sets when a pack was last used: now, or before a look at it that was no use. It fails silently. Mtime stays as it is: those
// who have the file mapped would take it for changed.
func touch(path string, used time.Time) {
	_ = unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{unix.NsecToTimespec(used.UnixNano()), {Nsec: unix.UTIME_OMIT}}, 0)
}

func accessed(st os.FileInfo) time.Time { return time.Unix(0, st.Sys().(*syscall.Stat_t).Atim.Nano()) }

// packsIn lists the names of the packs in a folder.
func packsIn(dir string) (names []string, err error) {
	all, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range all {
		if isPack(e.Name()) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Remove removes packs of the folder by their names or paths. Who has one mapped goes on with it. A name that is no pack's is an
// error.
func (f Folder) Remove(names ...string) error {
	if err := f.settle(); err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(f.Path, filepath.Base(name))
		if !isPack(filepath.Base(name)) || strings.ContainsRune(name, filepath.Separator) && filepath.Clean(name) != path {
			return &Error{name, "not the name of a pack in " + shown.Name(f.Path), ErrNone}
		}
		if err := os.Remove(path); err != nil {
			return shown.Error(err)
		}
	}
	return nil
}

// evict removes the packs of the folder that were not used for the longest time, until so many more bytes are within the limit.
func (f Folder) evict(more int64, note func(string)) error {
	if more > f.Limit {
		return &Error{f.Path, fmt.Sprintf("a pack of %s, but all packs may have %s (SKEEP_CACHE_LIMIT)", resolver.Size(more), resolver.Size(f.Limit)), ErrSpace}
	}
	list, err := f.scan()
	if err != nil {
		return err
	}
	for _, i := range list {
		more += i.Bytes
	}
	for _, i := range slices.Backward(list) {
		if more <= f.Limit {
			break
		}
		if err := os.Remove(i.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return shown.Error(err)
		}
		note(fmt.Sprintf("removed %s (%s, last used %s) to stay within %s", shown.Name(i.Path), resolver.Size(i.Bytes), i.Used.Format(time.DateTime), resolver.Size(f.Limit)))
		more -= i.Bytes
	}
	return nil
}

// clean removes what a packer that was killed left in the folder.
func clean(dir string) {
	output.RemoveLeftovers(dir, func(name string) bool { return isPack(name) || name == indexName })
}

// lock makes this the only packer of a folder, waiting for another one. The lock is on the folder itself, and ends with the
// process. waited reports whether there was another. A file system without such locks has none.
func lock(ctx context.Context, dir string, note func(string)) (unlock func(), waited bool, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, false, shown.Error(err)
	}
	for {
		switch err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			if !waited {
				note("another process packs in this folder: waiting for it")
			}
			waited = true
		case err != nil:
			note(fmt.Sprintf("the folder cannot be locked (%v): two processes may make the same pack", err))
			fallthrough
		default:
			return func() { _ = d.Close() }, waited, nil
		}
		select {
		case <-ctx.Done():
			return nil, waited, errors.Join(ended.Err(ctx), d.Close())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// fileSystems are those that people should know about, by what statfs calls them.
var fileSystems = map[int64]string{
	0x6969: "a network file system (NFS)", 0xff534d42: "a network file system (CIFS)", 0xfe534d42: "a network file system (SMB)", 0x517b: "a network file system (SMB)",
	0x01021997: "a file system of the host (9P)", 0x00c36400: "a network file system (Ceph)", 0x65735546: "a file system in user space (FUSE)",
	0x794c7630: "an overlay, as containers have: it may end with the container", 0x01021994: "in memory (tmpfs): the pack takes memory, and ends with the machine's run",
}

// room checks that a folder has twice as many bytes free, and says what kind of place it is.
func room(dir string, bytes int64, note func(string)) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if kind := fileSystems[int64(st.Type)&0xffffffff]; kind != "" {
		note(shown.Name(dir) + " is " + kind)
	}
	if free := int64(st.Bavail) * st.Bsize; free/2 < bytes {
		return &Error{dir, fmt.Sprintf("a pack of %s needs twice as much free space, and %s are free", resolver.Size(bytes), resolver.Size(free)), ErrSpace}
	}
	return nil
}
