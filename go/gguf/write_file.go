package gguf

import (
	"errors"
	"fmt"
	"io"

	"github.com/skeep-project/skeep/go/internal/output"
	"github.com/skeep-project/skeep/go/internal/shown"
)

// WriteFile creates the file at path. It calls write, which must write the payload of every tensor of h to w and must
// not close w. The file gets its name when it is complete; it then replaces an existing file and keeps that file's
// permissions. If anything fails, including write, the new file is removed and the existing one stays. A file that this
// process has open or mapped, such as an open model, is not replaced: ErrInUse. Errors are *Error, those of write, or
// wrap errors of the operating system.
func WriteFile(path string, h Header, write func(w *Writer) error) error {
	p, err := h.check()
	if err != nil {
		return err
	}
	return writeFiles(p, []file{{p.metadata, 0, len(p.tensors)}}, []string{path}, nil, write)
}

// writeFiles writes the files of a plan, none of which may be one of source, if there is one. They get their
// names when all are complete.
func writeFiles(p *plan, files []file, paths []string, source *File, write func(w *Writer) error) error {
	if write == nil {
		return isNil("function")
	}
	targets := make([]output.Target, len(paths))
	for i, path := range paths {
		if source != nil && source.Holds(path) {
			return &Error{File: path, Offset: -1, Reason: "the output is an input", Err: ErrInUse}
		}
		var err error
		if targets[i], err = target(path); err != nil {
			return err
		}
	}
	var made []*output.File
	defer func() { // also when write panics
		for _, f := range made {
			f.Discard()
		}
	}()
	w, err := newWriter(p, files, func(i int) (io.Writer, error) {
		f, err := targets[i].Create()
		if err != nil {
			return nil, outputError(err)
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
	if err != nil {
		return in(err, paths[0])
	}
	if err := output.Commit(made...); err != nil {
		return outputError(err)
	}
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

// target is where path leads, if a model can be made there: it needs a name, and to be whole before it has it.
func target(path string) (output.Target, error) {
	t, err := output.Find(path)
	if err == nil && t.Streams() {
		return t, irregular(path)
	}
	if err != nil {
		err = outputError(err)
	}
	return t, err
}

// outputError makes an error of package output one of this package.
func outputError(err error) error {
	var e *output.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("gguf: %w", shown.Error(err))
	}
	kind := ErrUnsupported
	if errors.Is(e, output.ErrInUse) {
		kind = ErrInUse
	}
	return &Error{File: e.Path, Offset: -1, Reason: e.Reason, Err: kind}
}
