package pack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/skeep-project/skeep/go/export/irpa"
	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/internal/shown"
)

// Verify reads all of the pack at path and compares it with the digests in it. It needs no model. Every byte counts: one that
// was altered is an error that wraps ErrDamaged and says where. Canceling ctx ends it. progress may be nil.
func Verify(ctx context.Context, path string, progress func(done, total int64)) error {
	if ctx == nil {
		return isNil("verify", "context")
	}
	damaged := func(format string, args ...any) error {
		return &Error{path, fmt.Sprintf(format, args...), ErrDamaged}
	}
	if st, err := os.Stat(path); err == nil {
		defer touch(path, accessed(st))
	}
	a, err := irpa.Open(path)
	if err != nil {
		if errors.As(err, new(*irpa.Error)) {
			return damaged("%s", strings.TrimPrefix(err.Error(), "irpa: "))
		}
		return err
	}
	defer a.Close() // only read
	r, err := recordOf(a)
	if err != nil {
		return damaged("%v", err)
	}
	entries := a.Entries()
	if len(entries) != len(r.Blobs)+1 || entries[len(r.Blobs)].Name != entryName {
		return damaged("%d entries, want %d and %s behind them", len(entries), len(r.Blobs), entryName)
	}
	last := entries[len(r.Blobs)]
	if want := (last.Offset + last.Length + page - 1) / page * page; a.Size() != want {
		return damaged("%d bytes, want %d", a.Size(), want)
	}
	v := verifier{ctx: ctx, f: a.OSFile(), total: a.Size(), progress: progress, buffer: make([]byte, large)}
	got, err := v.sum(entries[0].Offset)
	if err == nil && got != r.Head {
		return damaged("the tables, bytes 0 to %d, have another digest than entry %s says", entries[0].Offset, entryName)
	}
	for i, e := range entries {
		if err == nil {
			err = v.zeros(e.Offset)
		}
		if err == nil {
			got, err = v.sum(e.Offset + e.Length)
		}
		if err == nil && i < len(r.Blobs) && got != r.Blobs[i] {
			return damaged("entry %s, bytes %d to %d, has another digest than when it was packed", shown.Quoted(e.Name, 128), e.Offset, e.Offset+e.Length)
		}
	}
	if err == nil {
		err = v.zeros(a.Size())
	}
	var gap gapError
	if errors.As(err, &gap) {
		return damaged("%v", gap)
	}
	return err
}

// verifier reads a file from its first byte to its last.
type verifier struct {
	ctx       context.Context
	f         *os.File
	at, total int64
	progress  func(done, total int64)
	buffer    []byte
}

// gapError is a byte between blobs that is not zero.
type gapError int64

func (e gapError) Error() string {
	return fmt.Sprintf("byte %d is between entries and not zero", int64(e))
}

// each gives all bytes up to an end to do.
func (v *verifier) each(end int64, do func(b []byte) error) error {
	for v.at < end {
		if err := ended.Err(v.ctx); err != nil {
			return err
		}
		b := v.buffer[:min(int64(len(v.buffer)), end-v.at)]
		if err := readFull(v.f, b, v.at); err != nil {
			return err
		}
		if err := do(b); err != nil {
			return err
		}
		v.at += int64(len(b))
		if v.progress != nil {
			v.progress(v.at, v.total)
		}
	}
	return nil
}

// sum is the digest of the bytes up to an end.
func (v *verifier) sum(end int64) (string, error) {
	h := sha256.New()
	err := v.each(end, func(b []byte) error { h.Write(b); return nil })
	return hex.EncodeToString(h.Sum(nil)), err
}

// zeros reads zeros up to an end.
func (v *verifier) zeros(end int64) error {
	return v.each(end, func(b []byte) error {
		for i, c := range b {
			if c != 0 {
				return gapError(v.at + int64(i))
			}
		}
		return nil
	})
}
