package pack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/internal/output"
)

// stamp is a state of a file: whatever writes to it gives it another ctime, which no program can set.
type stamp struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Size   int64  `json:"size"`
	Mtime  int64  `json:"mtime"` // nanoseconds since 1970
	Ctime  int64  `json:"ctime"`
}

func stampOf(f *os.File) (stamp, error) {
	st, err := f.Stat()
	if err != nil {
		return stamp{}, err
	}
	s := st.Sys().(*syscall.Stat_t)
	return stamp{Device: uint64(s.Dev), Inode: s.Ino, Size: st.Size(), Mtime: s.Mtim.Nano(), Ctime: s.Ctim.Nano()}, nil
}

// settled is how old a state must be before it can be told from the next one: the times of files have steps.
var settled = time.Second

// files are the open parts of a model; the error says why there are none.
func files(f *gguf.File) (parts []*os.File, size int64, err error) {
	for _, p := range f.Parts() {
		file := p.OSFile()
		if file == nil {
			return nil, 0, &Error{f.Name(), "the model is not in a file of the operating system", ErrNone}
		}
		parts, size = append(parts, file), size+p.Size
	}
	return parts, size, nil
}

// keyOf is the key of a model by the digests of its parts.
func keyOf(digests []string) string {
	if len(digests) == 1 {
		return digests[0]
	}
	sum := sha256.New()
	for _, d := range digests {
		io.WriteString(sum, d)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// known is an entry of the index: the digest of a file in a state.
type known struct {
	stamp
	Digest string `json:"sha256"`
}

// index knows the digests of files that were read before, the newest last.
type index struct {
	Version int     `json:"version"`
	Files   []known `json:"files"`
}

const (
	indexName  = "index.json"
	maxIndexed = 1000
	maxIndex   = 1 << 20 // bytes
)

// readIndex reads the index of a folder. One that is not there, or not readable, is empty: it holds nothing that cannot be
// found out again.
func readIndex(dir string) (x index) {
	if dir == "" {
		return x
	}
	f, err := os.Open(filepath.Join(dir, indexName))
	if err != nil {
		return x
	}
	defer f.Close() // only read
	b, err := io.ReadAll(io.LimitReader(f, maxIndex))
	if err != nil || json.Unmarshal(b, &x) != nil || x.Version != recordVersion {
		return index{}
	}
	return x
}

// find is the digest of a file in a state, "" if it is not known.
func (x *index) find(s stamp) string {
	for _, k := range x.Files {
		if k.stamp == s && len(k.Digest) == len(blank) {
			return k.Digest
		}
	}
	return ""
}

// remember enters files into the index of a folder, which gets its name when it is complete. When two processes do so at the
// same time, one entry may be lost: the file is then read again.
func remember(dir string, list []known) error {
	now := time.Now()
	list = slices.DeleteFunc(slices.Clone(list), func(k known) bool { return now.Sub(time.Unix(0, k.Ctime)) < settled })
	if len(list) == 0 {
		return nil
	}
	if dir == "" {
		return errors.New("there is no folder for packs")
	}
	x := readIndex(dir)
	x.Files = slices.DeleteFunc(x.Files, func(old known) bool {
		return slices.ContainsFunc(list, func(k known) bool { return k.Device == old.Device && k.Inode == old.Inode })
	})
	x.Version, x.Files = recordVersion, append(x.Files, list...)
	x.Files = x.Files[max(0, len(x.Files)-maxIndexed):]
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	f, err := output.Create(filepath.Join(dir, indexName))
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Commit()
}

// key is the key of a model: from the index, or else by reading all of it.
func key(ctx context.Context, f *gguf.File, o *Options) (string, error) {
	parts, size, err := files(f)
	if err != nil {
		return "", err
	}
	x := readIndex(o.Folder.Path)
	digests, fresh := make([]string, len(parts)), []known{}
	progress := Progress{Total: size}
	for i, part := range parts {
		s, err := stampOf(part)
		if err != nil {
			return "", err
		}
		if digests[i] = x.find(s); digests[i] != "" {
			progress.Done += s.Size
			continue
		}
		if o.Unread {
			return "", &Error{f.Name(), "its file is new here, copied or touched: a start reads it as a whole to find its pack", ErrNone}
		}
		if len(fresh) == 0 {
			o.note("the model's file is new here, copied or touched: it is read as a whole to find its pack")
		}
		sum := sha256.New()
		if err := readInto(ctx, sum, part, 0, s.Size, make([]byte, large), func(n int64) {
			progress.Done += n
			o.report(progress)
		}); err != nil {
			return "", err
		}
		if now, err := stampOf(part); err != nil || now != s {
			return "", &Error{part.Name(), ErrChanged.Error(), ErrChanged}
		}
		digests[i] = hex.EncodeToString(sum.Sum(nil))
		fresh = append(fresh, known{s, digests[i]})
	}
	if err := remember(o.Folder.Path, fresh); err != nil {
		o.note(fmt.Sprintf("what was read is not remembered, so every start reads it again: %v", err))
	}
	return keyOf(digests), nil
}

// readInto gives the bytes of a range to a sum, by way of a buffer, and says after each piece how many they were.
func readInto(ctx context.Context, sum hash.Hash, f *os.File, at, end int64, buffer []byte, done func(int64)) error {
	for at < end {
		if err := ended.Err(ctx); err != nil {
			return err
		}
		b := buffer[:min(int64(len(buffer)), end-at)]
		if err := readFull(f, b, at); err != nil {
			return err
		}
		sum.Write(b)
		at += int64(len(b))
		done(int64(len(b)))
	}
	return nil
}

// readFull reads all of b; a file that ends before has changed.
func readFull(f *os.File, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		return &Error{f.Name(), fmt.Sprintf("%v: it ends at byte %d", ErrChanged, at+int64(n)), ErrChanged}
	}
	return err
}
