package pack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/internal/argument"
	"github.com/skeep-project/skeep/go/internal/output"
	"github.com/skeep-project/skeep/go/internal/shown"
)

// Result says what Make has done.
type Result struct {
	Path    string
	Bytes   int64    // of the file
	Made    bool     // now; else it was there
	Weights int      // in it
	Orders  []string // "Q4_K row_panel16i4v1"
	Elapsed time.Duration
}

// Make makes the pack of a model, unless there is one that can be used. It reads the model once, in the order of the file, and
// needs memory for a few pieces of weights only. The pack gets its name when it is complete and on the medium: if anything
// fails, or ctx is canceled, nothing is left; what a process leaves that is killed, the next Make removes. Of several
// processes one makes it, and the others wait. Before, there must be twice as much free space as the pack takes, and packs that
// were not used for the longest time are removed where the limit of the folder asks for it. The model's file is never
// changed; if it changes meanwhile, that is an error that wraps ErrChanged. A model of which this machine wants no weight
// in another order is ErrNone, too little room is ErrSpace.
func Make(ctx context.Context, f *gguf.File, o Options) (*Result, error) {
	switch {
	case ctx == nil:
		return nil, isNil("make", "context")
	case f == nil:
		return nil, isNil("make", "file")
	}
	start := time.Now()
	if o.Threads < 0 || o.Threads > maxThreads {
		return nil, &Error{f.Name(), fmt.Sprintf("%d threads, want 0 to %d", o.Threads, maxThreads), argument.Err}
	}
	if err := o.Folder.settle(); err != nil && !o.Beside {
		return nil, err
	}
	list, err := Wanted(f)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, &Error{f.Name(), "no weight that this machine reads faster in another order", ErrNone}
	}
	if _, _, err := files(f); err != nil {
		return nil, err
	}
	dir := o.Folder.Path
	if o.Beside {
		dir = filepath.Dir(f.Parts()[0].Path)
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, shown.Error(err)
	}
	unlock, _, err := lock(ctx, dir, o.note)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r := &Result{Weights: len(list), Orders: orders(list)}
	if p, err := find(ctx, f, list, []string{dir}, &o); err == nil {
		r.Path, r.Bytes, r.Elapsed = p.Path, p.Bytes, time.Since(start)
		return r, p.Close()
	}
	if !o.Beside {
		clean(dir)
	}
	r.Path, r.Bytes, err = o.write(ctx, f, list, dir)
	if err != nil {
		return nil, err
	}
	r.Made, r.Elapsed = true, time.Since(start)
	return r, nil
}

const maxThreads = 1024

// write packs a model into a file in dir.
func (o *Options) write(ctx context.Context, f *gguf.File, list []Tensor, dir string) (path string, bytes int64, err error) {
	parts, size, err := files(f)
	if err != nil {
		return "", 0, err
	}
	r := record{Version: recordVersion, ByteOrder: byteOrder, Key: blank, Orders: orders(list), Head: blank, Blobs: make([]string, len(list))}
	for i := range r.Blobs {
		r.Blobs[i] = blank
	}
	for _, part := range parts {
		s, err := stampOf(part)
		if err != nil {
			return "", 0, err
		}
		r.Source = append(r.Source, source{shown.Distinct(filepath.Base(part.Name())), s, blank})
	}
	text, err := r.text()
	if err != nil {
		return "", 0, err
	}
	plan, err := layout(list, len(text))
	if err != nil {
		return "", 0, err
	}
	r.Head = digest(plan.Head)
	if !o.Beside {
		if err := o.Folder.evict(plan.Size, o.note); err != nil {
			return "", 0, err
		}
	}
	if err := room(dir, plan.Size, o.note); err != nil {
		return "", 0, err
	}
	out, err := output.Create(filepath.Join(dir, namePrefix(size)+blank[:32]+extension))
	if err != nil {
		return "", 0, err
	}
	defer out.Discard()
	p := packer{options: o, file: f, parts: parts, list: list, plan: plan, total: size}
	if err := p.run(ctx, out, &r); err != nil {
		return "", 0, err
	}
	digests, fresh := []string{}, []known{}
	for i, part := range parts {
		if now, err := stampOf(part); err != nil || now != r.Source[i].stamp {
			return "", 0, &Error{part.Name(), ErrChanged.Error(), ErrChanged}
		}
		digests = append(digests, r.Source[i].Digest)
		fresh = append(fresh, known{r.Source[i].stamp, r.Source[i].Digest})
	}
	path = filepath.Join(dir, fileName(size, keyOf(digests), list))
	if err := out.Retarget(path); err != nil {
		return "", 0, err
	}
	if err := out.Commit(); err != nil {
		return "", 0, err
	}
	if err := remember(o.Folder.Path, fresh); err != nil {
		o.note(fmt.Sprintf("which model this is cannot be remembered, so every start reads it as a whole: %v", err))
	}
	return path, plan.Size, nil
}
