package gguf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// WriteFile makes the file at path: write puts the payload of every tensor of h into w, and must not close
// it. The file appears under its name when it is complete, in the place of an older one; when anything
// fails, write included, nothing is left of it. Errors are *Error, write's, or wrap the operating system's.
func WriteFile(path string, h Header, write func(w *Writer) error) error {
	p, err := h.check()
	if err != nil {
		return err
	}
	return writeFiles(p, []file{{p.metadata, 0, len(p.tensors)}}, []string{path}, write)
}

// writeFiles writes the files of a plan under temporary names in the folders where they belong, and names
// them when all are complete.
func writeFiles(p *plan, files []file, paths []string, write func(w *Writer) error) (err error) {
	var made []*os.File
	targets := make([]string, len(paths))
	for i, path := range paths {
		if targets[i], err = target(path); err != nil {
			return err
		}
	}
	named := false
	defer func() { // also when write panics
		for _, f := range made {
			_ = f.Close() // closed when all went well
			if !named {
				_ = os.Remove(f.Name())
			}
		}
	}()
	w, err := newWriter(p, files, func(i int) (io.Writer, error) {
		f, err := createTemporary(targets[i])
		if err != nil {
			return nil, fmt.Errorf("gguf: %w", err)
		}
		made = append(made, f)
		return f, nil
	})
	if err == nil {
		err = write(w)
	}
	if err == nil {
		err = w.Close()
	}
	for _, f := range made {
		if err == nil {
			err = errors.Join(f.Sync(), f.Close()) // the bytes before the name
		}
	}
	for i := 0; i < len(made) && err == nil; i++ {
		if err = os.Rename(made[i].Name(), targets[i]); err != nil {
			for _, named := range targets[:i] { // half a set is of no use
				err = errors.Join(err, os.Remove(named))
			}
		}
	}
	if err != nil {
		return in(err, paths[0])
	}
	named = true
	return nil
}

// in puts the path into an error of this package that lacks one.
func in(err error, path string) error {
	var e *Error
	if errors.As(err, &e) && e.File == "" && e != errClosed {
		e.File = path
	}
	return err
}

// target is the file that path stands for, through links. Only regular files are replaced.
func target(path string) (string, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(path); err == nil {
			return "", &Error{File: path, Offset: -1, Reason: "a link to nothing", Err: ErrUnsupported}
		}
		return path, nil
	case err != nil:
		return "", fmt.Errorf("gguf: %w", err)
	case !st.Mode().IsRegular():
		return "", irregular(path)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", fmt.Errorf("gguf: %w", err)
	}
	return path, nil
}

// createTemporary makes a new file beside path, with the permissions that path would get.
func createTemporary(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(fmt.Sprintf("%s.%08x.tmp", path, rand.Uint32()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}
