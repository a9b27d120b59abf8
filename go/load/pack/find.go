package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/skeep-project/skeep/go/export/irpa"
	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/internal/shown"
	"github.com/skeep-project/skeep/go/tensor"
)

// Pack is an open pack, whose tables were compared with those that its model asks for. It is safe for concurrent use, except
// Close.
type Pack struct {
	Path    string
	Bytes   int64 // of the file
	archive *irpa.Archive
	opened  os.FileInfo
	tensors map[string]Tensor
}

// Find opens the pack of a model: the one in the folder, or else the one next to the model. The caller must Close it. It reads
// the tables of the pack and none of its blobs. Where a pack could be the model's and the index of the folder does not know the
// model, the whole model is read once; else nothing of it is. Errors wrap ErrNone if there is no pack, ErrIgnored if there is
// a file with its name that cannot be used (the text says why), or those of reading and ctx.
func Find(ctx context.Context, f *gguf.File, o Options) (*Pack, error) {
	switch {
	case ctx == nil:
		return nil, isNil("find", "context")
	case f == nil:
		return nil, isNil("find", "file")
	}
	if err := o.Folder.settle(); err != nil {
		o.Folder.Path = "" // there may be one next to the model
	}
	list, err := Wanted(f)
	if err != nil {
		return nil, err
	}
	return find(ctx, f, list, []string{o.Folder.Path, filepath.Dir(f.Parts()[0].Path)}, &o)
}

// find is Find in some folders.
func find(ctx context.Context, f *gguf.File, list []Tensor, dirs []string, o *Options) (*Pack, error) {
	_, size, err := files(f)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, &Error{f.Name(), "no weight that this machine reads faster in another order", ErrNone}
	}
	dirs = slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool {
		names, _ := packsIn(dir) // a folder that cannot be read has none
		return !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, namePrefix(size)) })
	})
	if len(dirs) == 0 {
		return nil, &Error{f.Name(), "it was not packed", ErrNone}
	}
	k, err := key(ctx, f, o)
	if err != nil {
		return nil, err
	}
	name := fileName(size, k, list)
	for _, dir := range dirs {
		p, openErr := openPack(filepath.Join(dir, name), k, list)
		if openErr == nil {
			return p, nil
		}
		if !errors.Is(openErr, fs.ErrNotExist) {
			err = errors.Join(err, openErr)
		}
	}
	if err == nil {
		err = &Error{f.Name(), "it was not packed: packs of models of its size are of other bytes, or in other orders", ErrNone}
	}
	return nil, err
}

// openPack opens a pack and compares its tables with those that a model with this key asks for.
func openPack(path, key string, list []Tensor) (*Pack, error) {
	a, err := irpa.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	p := &Pack{Path: path, archive: a, tensors: map[string]Tensor{}}
	if err == nil {
		p.Bytes = a.Size()
		err = p.check(key, list)
	}
	if err == nil {
		p.opened, err = a.OSFile().Stat()
	}
	if err != nil {
		if a != nil {
			err = errors.Join(err, a.Close())
		}
		return nil, &Error{path, "ignored: " + strings.TrimPrefix(err.Error(), "irpa: "), errors.Join(ErrIgnored, err)}
	}
	touch(path, time.Now())
	return p, nil
}

// Is reports whether a file is a pack, whatever its name is, or the index of a folder of packs: nothing that another file should
// replace.
func Is(path string) bool {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return false
	}
	if filepath.Base(path) == indexName {
		return readIndex(filepath.Dir(path)).Version != 0
	}
	a, err := irpa.Open(path)
	if err != nil {
		return false
	}
	defer a.Close() // only read
	_, known := a.Entry(entryName)
	return known
}

// recordOf reads the record of an archive.
func recordOf(a *irpa.Archive) (record, error) {
	e, ok := a.Entry(entryName)
	if !ok || e.Kind != irpa.Data || e.Length > maxRecord {
		return record{}, fmt.Errorf("no entry %s of at most %d bytes: some other archive", entryName, maxRecord)
	}
	in, err := a.Bytes(e)
	if err != nil {
		return record{}, err
	}
	b, err := io.ReadAll(in)
	if err != nil {
		return record{}, err
	}
	if int64(len(b)) < e.Length {
		return record{}, io.ErrUnexpectedEOF
	}
	return parse(b)
}

const maxRecord = 64 << 20

// check says why a pack is not the one that a model asks for. Nothing that the pack says of places is trusted: its tables must
// be to the byte those that Make would write.
func (p *Pack) check(key string, list []Tensor) error {
	r, err := recordOf(p.archive)
	switch {
	case err != nil:
		return err
	case r.Version != recordVersion:
		return fmt.Errorf("version %d, want %d", r.Version, recordVersion)
	case r.ByteOrder != byteOrder:
		return fmt.Errorf("byte order %s, want %s", shown.Quoted(r.ByteOrder, 20), byteOrder)
	case r.Key != key:
		return errors.New("it belongs to another model")
	case !slices.Equal(r.Orders, orders(list)):
		return fmt.Errorf("orders %q, want %q", r.Orders, orders(list))
	}
	e, _ := p.archive.Entry(entryName)
	plan, err := layout(list, int(e.Length))
	if err != nil {
		return err
	}
	if plan.Size != p.Bytes {
		return fmt.Errorf("%d bytes, want %d", p.Bytes, plan.Size)
	}
	head := make([]byte, len(plan.Head))
	if err := readFull(p.archive.OSFile(), head, 0); err != nil {
		return err
	}
	if !bytes.Equal(head, plan.Head) {
		return errors.New("its tables are not those of this model")
	}
	for i, t := range list {
		t.Offset = plan.Entries[i].Offset
		p.tensors[t.Name] = t
	}
	return nil
}

// Tensor finds a weight of the pack by its name.
func (p *Pack) Tensor(name string) (t Tensor, ok bool) {
	t, ok = p.tensors[name]
	return t, ok
}

// Serves reports whether the pack has the blocks of a weight in an order.
func (p *Pack) Serves(name string, e tensor.Encoding, o tensor.Order) bool {
	t, ok := p.tensors[name]
	return ok && t.Encoding == e && t.Order == o
}

// Weights is how many weights are in the pack.
func (p *Pack) Weights() int { return len(p.tensors) }

// OSFile is the open file, for mapping. It belongs to the pack and is valid until Close.
func (p *Pack) OSFile() *os.File { return p.archive.OSFile() }

// Unchanged returns an error that wraps ErrChanged if the file's length or modification time is not what it was when the pack
// was opened.
func (p *Pack) Unchanged() error {
	now, err := p.archive.OSFile().Stat()
	if err == nil && (now.Size() != p.opened.Size() || !now.ModTime().Equal(p.opened.ModTime())) {
		err = &Error{p.Path, "it has changed since it was opened", ErrChanged}
	}
	return err
}

// Close closes the file. Mappings of it stay.
func (p *Pack) Close() error { return p.archive.Close() }
