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
	"io/fs"
	"os"
	"path/filepath"
	"sync"

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

// File is a file to be. Not safe for concurrent use.
type File struct {
	target Target
	f      *os.File
	done   bool
	// Bytes written, and those of them that are on their way to the medium.
	written, sent int64
}

// sendEvery is after how many bytes they are sent on their way to the medium, so that a large file does not wait for all of it
// at its end.
const sendEvery = 8 << 20

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
	if o.written += int64(n); o.written-o.sent >= sendEvery && !o.target.Streams() {
		send(o.f, o.sent, o.written-o.sent)
		o.sent = o.written
	}
	return n, as(o.target.path, err)
}

// Retarget changes where the file will be to a name in the same folder: for a name that is known only when the bytes are.
func (o *File) Retarget(path string) error {
	t, err := Find(path)
	if err == nil {
		o.target = t
	}
	return err
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

// RemoveAll removes the temporaries of this process: the last thing that it does when a signal ends it at once. Files that
// are just getting their names get them first. Whoever would begin, complete or discard another waits from then on, so
// that none is left behind until the end, which may take a while: the runtime writes stacks.
func RemoveAll() {
	live.Lock()
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
