// Package output writes files that appear under their names when they are complete. Until then, and when anything
// fails, an older file of that name stays as it is. Everything here that makes a file for a user goes through it.
//
// The bytes of a file to be go to a temporary beside it, which holds a lock on itself as long as somebody writes it:
// a temporary that can be locked is a leftover of a process that died, and the next start of the same output removes
// it. No leftover ever stands in the way of another. What is there and no regular file, a device or a pipe, is
// written in place, and so is what this process has open, by the name of its descriptor (/dev/stdout): at its end.
package output

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/skeep-project/skeep/go/internal/shown"
)

// ErrInUse is wrapped by every refusal to replace a file that is read, or written otherwise, at the same time.
var ErrInUse = errors.New("file in use")

// ErrTarget is wrapped by every refusal of a name that no file can be made at.
var ErrTarget = errors.New("no name for a file")

// Error says which output is refused, and why.
type Error struct {
	Path   string
	Reason string
	Err    error // ErrInUse or ErrTarget
}

func (e *Error) Error() string { return shown.Name(e.Path) + ": " + e.Reason }

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// Target is where an output will be.
type Target struct {
	path string      // as it was asked for
	real string      // the same through links
	old  os.FileInfo // what is there; nil when nothing is
	dir  os.FileInfo // the folder, when nothing is there
}

// Find says what a path stands for, through links. Nothing is made or changed. Errors: *Error for a folder, a link to
// nothing and an empty name; those of the operating system, among them fs.ErrPermission for a file that may not be
// written to.
func Find(path string) (Target, error) {
	t := Target{path: path, real: path}
	refuse := func(reason string) (Target, error) { return Target{}, &Error{path, reason, ErrTarget} }
	if path == "" {
		return Target{}, &Error{`""`, "the name is empty", ErrTarget}
	}
	var err error
	t.old, err = os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(path); err == nil {
			return refuse("a link to nothing")
		}
		if os.IsPathSeparator(path[len(path)-1]) {
			return refuse("the name of a folder")
		}
		t.old = nil
		if t.dir, err = os.Stat(filepath.Dir(path)); err != nil {
			return Target{}, as(path, err)
		}
	case err != nil:
		return Target{}, err
	case t.old.IsDir():
		return refuse("a folder, not a regular file")
	case t.old.Mode().IsRegular() && !t.Streams():
		if t.real, err = filepath.EvalSymlinks(path); err != nil {
			return Target{}, err
		}
		if err := writable(t.real); err != nil {
			return Target{}, &fs.PathError{Op: "write", Path: path, Err: err}
		}
	}
	return t, nil
}

// Path is the path that was asked for.
func (t Target) Path() string { return t.path }

// Streams reports whether what is there is written in place: a device, a pipe, a socket, an open descriptor.
func (t Target) Streams() bool {
	return t.old != nil && (!t.old.Mode().IsRegular() || descriptors.MatchString(filepath.Clean(t.path)))
}

// descriptors are the names of files that this process has open.
var descriptors = regexp.MustCompile(`^(/dev/(stdout|stderr|fd/\d+)|/proc/self/fd/\d+)$`)

// Is reports whether writing the target would change the regular file that info is of.
func (t Target) Is(info os.FileInfo) bool {
	return t.old != nil && info != nil && info.Mode().IsRegular() && os.SameFile(t.old, info)
}

// Same reports whether two targets would replace, or make, one file.
func (t Target) Same(other Target) bool {
	if t.Streams() || other.Streams() {
		return false
	}
	if t.old == nil && other.old == nil {
		return filepath.Base(t.path) == filepath.Base(other.path) && os.SameFile(t.dir, other.dir)
	}
	return t.Is(other.old)
}

// File is a file to be. Not safe for concurrent use.
type File struct {
	target Target
	f      *os.File
	done   bool
}

// live are the temporaries of this process. The lock is also held while files get their names, so that whoever asks
// what this process has open meets no half of that.
var live struct {
	sync.Mutex
	files map[*File]struct{}
}

// Create begins the file at a target. ErrInUse when this process has what would be replaced open, or mapped. Either
// Commit or Discard ends it. Opening a pipe waits for its reader.
func (t Target) Create() (*File, error) {
	if t.Streams() {
		f, err := os.OpenFile(t.path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return nil, err
		}
		return &File{target: t, f: f}, nil
	}
	live.Lock()
	defer live.Unlock()
	if now, err := os.Stat(t.real); err == nil { // what was there may have been replaced
		if how, open := openHere(now); open {
			return nil, &Error{t.path, "this process has it open" + how, ErrInUse}
		}
	}
	removeLeftovers(t.real)
	mode := os.FileMode(0o666)
	if t.old != nil {
		mode = 0o600 // until it gets that of the file it replaces
	}
	for {
		f, err := os.OpenFile(temporaryName(t.real), os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, as(t.path, err)
		}
		if !own(f) { // another process took it for a leftover before it was locked
			_ = f.Close()
			_ = os.Remove(f.Name())
			continue
		}
		o := &File{target: t, f: f}
		if live.files == nil {
			live.files = map[*File]struct{}{}
		}
		live.files[o] = struct{}{}
		return o, nil
	}
}

// Create finds a target and begins the file there.
func Create(path string) (*File, error) {
	t, err := Find(path)
	if err != nil {
		return nil, err
	}
	return t.Create()
}

// own locks a new temporary, where locks exist, and reports whether it is still there under its name.
func own(f *os.File) bool {
	if lock(f) == held {
		return false
	}
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(a, b)
}

// Write implements io.Writer. Errors name the path that was asked for.
func (o *File) Write(b []byte) (int, error) {
	n, err := o.f.Write(b)
	return n, as(o.target.path, err)
}

// Commit makes the bytes last and gives the file its name; see the function of that name.
func (o *File) Commit() error { return Commit(o) }

// Discard removes what has been written. It does nothing after Commit or a first Discard.
func (o *File) Discard() {
	live.Lock()
	defer live.Unlock()
	o.end()
}

// end closes a file that got its name, or removes one that did not. The caller holds the lock.
func (o *File) end() {
	if o.done {
		return
	}
	o.done = true
	if _, temporary := live.files[o]; temporary {
		_ = os.Remove(o.f.Name()) // before the lock on it goes
		delete(live.files, o)
	}
	_ = o.f.Close()
}

// Commit completes files that belong together: their bytes are on the medium before any of them gets its name. When
// one cannot get it, those before give theirs back to the older files, and nothing is left of any. A file that is
// replaced hands on its permissions, and its owner where this process may give files away.
func Commit(files ...*File) (err error) {
	defer func() {
		live.Lock()
		defer live.Unlock()
		for _, o := range files {
			o.end()
		}
	}()
	for _, o := range files {
		if o.done {
			return &fs.PathError{Op: "write", Path: o.target.path, Err: fs.ErrClosed}
		}
		if err := o.finish(); err != nil {
			return as(o.target.path, err)
		}
	}
	live.Lock()
	defer live.Unlock()
	var back []func() error // gives a name back
	var olds []string
	defer func() {
		for i := len(back) - 1; i >= 0 && err != nil; i-- {
			err = errors.Join(err, back[i]())
		}
		for _, name := range olds {
			_ = os.Remove(name) // gone when it was given back
		}
	}()
	dirs := map[string]string{} // folder: a path in it, for messages
	for _, o := range files {
		if o.target.Streams() {
			continue
		}
		real := o.target.real
		old := temporaryName(real)
		switch linkErr := os.Link(real, old); {
		case linkErr == nil:
			olds = append(olds, old)
		case errors.Is(linkErr, fs.ErrNotExist):
			old = ""
		default: // no links here: the new file, which is whole, will stay
			old = real
		}
		if err = os.Rename(o.f.Name(), real); err != nil {
			return as(o.target.path, err)
		}
		delete(live.files, o)
		o.end()
		switch old {
		case "":
			back = append(back, func() error { return os.Remove(real) })
		case real:
		default:
			back = append(back, func() error { return os.Rename(old, real) })
		}
		dirs[filepath.Dir(real)] = o.target.path
	}
	for dir, path := range dirs {
		if err = syncFolder(dir); err != nil {
			return as(path, err)
		}
	}
	return nil
}

// finish does what comes before the name.
func (o *File) finish() error {
	if o.target.Streams() {
		o.done = true
		return o.f.Close()
	}
	old := o.target.old
	if now, err := os.Lstat(o.target.real); err == nil && now.Mode().IsRegular() {
		old = now
	}
	if old != nil {
		giveTo(o.f, old)
		if err := o.f.Chmod(old.Mode().Perm()); err != nil {
			return err
		}
	}
	return o.f.Sync()
}

// RemoveAll removes the temporaries of this process: for the last thing that it does when a signal ends it at once.
// Files that are just getting their names get them first.
func RemoveAll() {
	live.Lock()
	defer live.Unlock()
	for o := range live.files {
		_ = os.Remove(o.f.Name())
	}
}

// as gives an error of the operating system the path that people know instead of a temporary's.
func as(path string, err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return &fs.PathError{Op: "write", Path: path, Err: p.Err}
	case errors.As(err, &l):
		return &fs.PathError{Op: "write", Path: path, Err: l.Err}
	}
	return err
}

// The name of a temporary is that of its target, then mark, some hexadecimal digits, and end.
const (
	mark   = ".skeep-"
	digits = 16
	end    = ".tmp"
	// A name has at most 255 bytes on every file system here.
	longest = 255 - len(mark) - digits - len(end)
)

// temporaryName is a new name beside a path.
func temporaryName(path string) string {
	dir, base := filepath.Split(path)
	return fmt.Sprintf("%s%s%s%0*x%s", dir, stem(base), mark, digits, rand.Uint64(), end)
}

// stem is what the temporaries of a file's name begin with.
func stem(base string) string {
	if len(base) <= longest {
		return base
	}
	n := longest
	for n > 0 && !utf8.RuneStart(base[n]) {
		n--
	}
	return base[:n]
}

// removeLeftovers removes the temporaries of a path that nobody writes any more. It fails silently: a leftover is in
// nobody's way.
func removeLeftovers(path string) {
	dir := filepath.Dir(path)
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		rest, ours := strings.CutPrefix(name, stem(filepath.Base(path))+mark)
		rest, whole := strings.CutSuffix(rest, end)
		if !ours || !whole || len(rest) != digits || strings.Trim(rest, "0123456789abcdef") != "" {
			continue
		}
		name = filepath.Join(dir, name)
		f, err := openLeftover(name)
		if err != nil {
			continue
		}
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() && lock(f) == locked {
			_ = os.Remove(name)
		}
		_ = f.Close()
	}
}

// openHere reports whether this process has a file open, and as what. A mapping keeps its file open.
func openHere(info os.FileInfo) (how string, open bool) {
	const descriptors = "/proc/self/fd"
	names, err := os.ReadDir(descriptors)
	if err != nil {
		return "", false // no such folder on this system
	}
	for _, n := range names {
		if st, err := os.Stat(filepath.Join(descriptors, n.Name())); err == nil && os.SameFile(st, info) {
			switch n.Name() {
			case "0":
				how = ": standard input"
			case "1":
				how = ": standard output"
			case "2":
				how = ": standard error"
			}
			return how, true
		}
	}
	return "", false
}

// lockState is what came of a try to lock a file.
type lockState int

const (
	locked      lockState = iota
	held                  // by another
	unsupported           // by the file system
)
