package model

import (
	"context"
	"errors"
	"strings"

	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/load/pack"
	"github.com/skeep-project/skeep/go/resolver"
)

// PackMode says what Open does about the pack of a model: a file with its weights in feed order, which are then mapped instead
// of being copied (docs/pack.md).
type PackMode string

// The modes. Only PackMake writes to a disk.
const (
	PackUse  PackMode = ""     // one that is there is used
	PackMake PackMode = "make" // and one is made if there is none
	PackOff  PackMode = "off"  // none is looked for
)

// PackReport is what became of the pack of a model.
type PackReport struct {
	File    string `json:"file"`             // that weights are mapped from; "" if none is used
	Weights int    `json:"weights"`          // mapped from it
	Bytes   int64  `json:"bytes"`            // of these
	Made    bool   `json:"made"`             // by this Open
	Reason  string `json:"reason,omitempty"` // why none is used
	Could   int64  `json:"could,omitempty"`  // bytes of the weights that skeep pack would write, if there is none
	Folder  string `json:"folder,omitempty"` // where it would write them
}

// Pack says whether weights are mapped from a pack, and why not.
func (m *Model) Pack() PackReport { return m.pack }

// seekPack finds the pack of a source, and makes it if that is asked for and the model is to be loaded. What people should know
// is noted; no failure to find or make one is an error, except that ctx has ended.
func (d *decision) seekPack(ctx context.Context, s load.Source, o Options, loading bool) (err error) {
	switch {
	case o.Pack == PackOff:
		d.packed.Reason = "an option says so"
		return nil
	case !o.Profile.Map:
		d.packed.Reason = "nothing is to be mapped, by the profile or the load mode"
		return nil
	}
	po := pack.Options{Folder: o.Packs, Threads: d.threads, Note: d.note, Unread: !loading}
	if o.Progress != nil {
		po.Progress = func(p pack.Progress) {
			work := "reading"
			if p.Packing {
				work = "packing"
			}
			o.Progress(load.Progress{Work: work, Done: p.Done, Total: p.Total})
		}
	}
	if d.pack, err = pack.Find(ctx, s.File, po); err == nil || ended.Err(ctx) != nil {
		return ended.Err(ctx)
	}
	if o.Pack == PackMake && loading && s.Memory == nil {
		r, made := pack.Make(ctx, s.File, po)
		if made == nil {
			if d.pack, made = pack.Find(ctx, s.File, po); made == nil {
				d.packed.Made = r.Made
				return nil
			}
		}
		if err = made; ended.Err(ctx) != nil {
			return ended.Err(ctx)
		}
	}
	d.packed.Reason = strings.TrimPrefix(err.Error(), "pack: ")
	if !errors.Is(err, pack.ErrNone) {
		d.note("no pack is used: " + d.packed.Reason)
		return nil
	}
	list, err := pack.Wanted(s.File)
	if f, folderErr := pack.Default(); err == nil && s.Memory == nil {
		for _, w := range list {
			d.packed.Could += w.Bytes
		}
		if d.packed.Folder = o.Packs.Path; d.packed.Folder == "" && folderErr == nil {
			d.packed.Folder = f.Path
		}
	}
	return nil
}

// countPacked sees which weights a resolution maps from the pack.
func (d *decision) countPacked(r *resolver.Resolution) {
	if d.pack == nil || r == nil {
		return
	}
	for _, w := range r.Decisions {
		if w.Form.Residency == resolver.PackPages {
			d.packed.Weights++
			d.packed.Bytes += w.Form.Bytes
		}
	}
	if d.packed.Weights > 0 {
		d.packed.File = d.pack.Path
	} else {
		d.packed.Reason = d.pack.Path + ": no weight is wanted in its order"
	}
}

// closePack closes the pack; mappings of it stay.
func (d *decision) closePack() error {
	if d.pack == nil {
		return nil
	}
	p := d.pack
	d.pack = nil
	return p.Close()
}
