package output

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

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
