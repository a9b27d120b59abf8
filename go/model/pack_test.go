package model

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/export/irpa"
	"github.com/skeep-project/skeep/go/load/pack"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/skeep-project/skeep/go/trace"
)

// packable is a model of which this machine wants weights in another order, and a folder for its pack.
func packable(t testing.TB) (path string, o Options) {
	k, _ := skeep.Kernels().Find(tensor.OpMatMulT, tensor.Q4_0, tensor.A8, tensor.Feed)
	if fed(t); k.ISA == "portable" || k.ISA == "" {
		t.Skip("feed order is not wanted without vector instructions")
	}
	p, err := resolver.ProfileNamed("desktop", 0)
	require.NoError(t, err)
	return embeddedIn(t, "q4_0"), Options{Profile: &p, Threads: 2, Pack: PackMake, Packs: pack.Folder{Path: filepath.Join(t.TempDir(), "packs")}}
}

// thePack is the path of the only pack in a folder.
func thePack(t testing.TB, o Options) string {
	list, err := o.Packs.List()
	require.NoError(t, err)
	require.Len(t, list, 1)
	return list[0].Path
}

// A pack changes no bit of a result, and its weights are pages of it: no private memory but caches and slab, no work at load. A tied
// table is looked up in the pack, too. Case C07. Nothing is written unless that is asked for.
func TestPackChangesNothing(t *testing.T) {
	path, o := packable(t)
	want := runAs(t, path, Options{Overrides: in("stored")}, func(*Model) {})
	o.Pack = PackUse
	require.Equal(t, want, runAs(t, path, o, func(m *Model) {
		require.Empty(t, m.Pack().File)
		require.Positive(t, m.Pack().Could)
		require.Equal(t, o.Packs.Path, m.Pack().Folder)
		require.Positive(t, m.Forms().Feed.Weights, "private copies without a pack")
		require.NoDirExists(t, o.Packs.Path)
	}))
	o.Pack = PackMake
	bytes := int64(0)
	require.Equal(t, want, runAs(t, path, o, func(m *Model) {
		require.True(t, m.Pack().Made)
		bytes = m.Pack().Bytes
	}))
	for _, o.Pack = range []PackMode{PackUse, PackMake} {
		o.Trace = trace.NewRecorder(0)
		before := skeep.Stats()
		require.Equal(t, want, runAs(t, path, o, func(m *Model) {
			r := m.Pack()
			require.Equal(t, PackReport{File: thePack(t, o), Weights: r.Weights, Bytes: bytes}, r)
			require.Equal(t, FormCount{r.Weights, r.Bytes}, m.Forms().Packed)
			require.Zero(t, m.Forms().Feed)
			require.Zero(t, o.Trace.Total(trace.Prepack).Count)
			private := int64(0)
			for _, d := range m.Resolution().Decisions {
				if v, ok := m.Weight(d.Name); ok {
					require.Equal(t, tensor.Mapped, v.Domain(), d.Name)
					if d.Form.Residency == resolver.PackPages {
						require.Equal(t, r.File, v.Storage().Name())
						require.Equal(t, tensor.Feed, v.Layout().Order)
						require.Zero(t, v.Position()%64)
					}
				}
			}
			for _, need := range []string{resolver.NeedKV, resolver.NeedSlab} {
				d, _ := m.Resolution().Decision(need)
				private += d.Form.Bytes
			}
			now := skeep.Stats()
			require.LessOrEqual(t, now.Bytes[tensor.OffHeap]-before.Bytes[tensor.OffHeap], private)
			require.Len(t, m.weights.Mappings(), 2)
		}))
	}
	for _, e := range []tensor.Encoding{tensor.Q4_K, tensor.Q8_0} {
		path := tied(t, e)
		want := runAs(t, path, Options{Overrides: in("stored")}, func(*Model) {})
		require.Equal(t, want, runAs(t, path, o, func(m *Model) { require.Positive(t, m.Pack().Weights, e) }), e)
	}
}

// What stands against a pack, and what does not: a strict profile has no private copies, but file pages.
func TestWhatAPackIsUsedFor(t *testing.T) {
	path, o := packable(t)
	m, err := Open(t.Context(), path, o)
	require.NoError(t, err)
	require.NoError(t, m.Close())
	o.Pack = PackUse
	with := func(change func(*Options)) *Model {
		t.Helper()
		other := o
		change(&other)
		m, err := Open(t.Context(), path, other)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		return m
	}
	strict, err := resolver.ProfileNamed("mobile_2gb", 0)
	require.NoError(t, err)
	require.Positive(t, with(func(o *Options) { o.Profile = &strict }).Pack().Weights)
	require.Positive(t, with(func(o *Options) { o.Load = LoadPrewarm }).Pack().Weights)
	packed := path
	for reason, change := range map[string]func(*Options){
		"an option says so":                        func(o *Options) { o.Pack = PackOff },
		"no weight is wanted in its order":         func(o *Options) { o.Overrides = in("stored") },
		"no weight is wanted in its order ":        func(o *Options) { o.Exact = true },
		"nothing is to be mapped":                  func(o *Options) { o.Load = LoadRead },
		"it was not packed":                        func(o *Options) { o.Packs.Path = t.TempDir() },
		"no weight that this machine reads faster": func(o *Options) { path = tinyFile },
	} {
		r := with(change).Pack()
		path = packed
		require.Contains(t, r.Reason, strings.TrimSpace(reason))
		require.Empty(t, r.File, reason)
	}
	_, err = Open(t.Context(), path, Options{Pack: "perhaps"})
	require.ErrorIs(t, err, ErrOption)
}

// Plan reads the header only: it finds the pack of a model that the index knows, and no other one.
func TestPlanFindsAPackWithoutReadingTheModel(t *testing.T) {
	path, o := packable(t)
	time.Sleep(1100 * time.Millisecond) // until the state of the file can be told from the next one
	m, err := Open(t.Context(), path, o)
	require.NoError(t, err)
	require.NoError(t, m.Close())
	mapped := func() (n int) {
		p, err := Plan(path, o, nil)
		require.NoError(t, err)
		for _, d := range p.Resolution.Decisions {
			if d.Form.Residency == resolver.PackPages {
				require.Equal(t, tensor.Mapped, d.Spec.Domain)
				require.Contains(t, d.Reason, "mapped from the pack "+thePack(t, o))
				n++
			}
		}
		return n
	}
	require.Positive(t, mapped())
	o.Progress = nil
	require.NoError(t, os.Chtimes(path, time.Now(), time.Now()))
	require.Zero(t, mapped(), "touched")
}

// A pack that is damaged where a start looks is ignored with a reason, and the model runs without it. Making one replaces it.
func TestADamagedPackIsIgnored(t *testing.T) {
	path, o := packable(t)
	want := runAs(t, path, o, func(*Model) {})
	file := thePack(t, o)
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	a, err := irpa.Open(file)
	require.NoError(t, err)
	record, ok := a.Entry("skeep.pack")
	require.True(t, ok)
	require.NoError(t, a.Close())
	head := int(binary.LittleEndian.Uint64(good[72:])) // where storage begins
	o.Pack = PackUse
	spoil := func(bad []byte) string {
		t.Helper()
		require.NoError(t, os.Remove(file))
		require.NoError(t, os.WriteFile(file, bad, 0o600))
		m, err := Open(t.Context(), path, o)
		require.NoError(t, err)
		defer m.Close()
		require.Contains(t, strings.Join(m.Notes(), "\n"), "no pack is used: "+m.Pack().Reason)
		require.Contains(t, m.Pack().Reason, file+": ignored: ")
		require.Zero(t, m.Pack().Weights)
		return m.Pack().Reason
	}
	for _, n := range []int{0, 40, 100, head - 1, head, len(good) / 2, len(good) - 4096, len(good) - 1} {
		spoil(good[:n])
	}
	require.Contains(t, spoil(append(good[:len(good):len(good)], make([]byte, 4096)...)), "bytes, want")
	require.Contains(t, spoil(make([]byte, len(good))), `it begins with "\x00`)
	for _, at := range []int{0, 4, 8, 16, 32, 40, 50, 64, 72, 96, 96 + 8, 96 + 20, 96 + 52, 96 + 60, 96 + 68, head / 2, head - 100, 88, int(record.Offset) + 1, int(record.Offset) + 60, int(record.Offset+record.Length) - 5} {
		bad := append([]byte(nil), good...)
		bad[at] ^= 4
		spoil(bad)
	}
	require.Equal(t, want, runAs(t, path, o, func(*Model) {}))
	o.Pack = PackMake
	require.Equal(t, want, runAs(t, path, o, func(m *Model) { require.True(t, m.Pack().Made) }))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Len(t, got, len(good))
	require.NoError(t, pack.Verify(t.Context(), file, nil))
}

// A pack that is cut or written to while it is mapped ends the next step with an error, as the model's file does; one that is
// removed goes on, as does one whose time of use changes.
func TestAPackThatChangesUnderARun(t *testing.T) {
	path, o := packable(t)
	for name, c := range map[string]struct {
		change func(file string) error
		want   error
	}{
		"cut":     {func(file string) error { return os.Truncate(file, 8192) }, skeep.ErrFault},
		"written": {func(file string) error { return os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)) }, skeep.ErrChanged},
		"used":    {func(file string) error { return os.Chtimes(file, time.Now().Add(time.Hour), time.Time{}) }, nil},
		"removed": {os.Remove, nil},
	} {
		o.Packs.Path = filepath.Join(t.TempDir(), "packs")
		m, err := Open(t.Context(), path, o)
		require.NoError(t, err, name)
		s := session(t, m)
		_, err = s.Append(t.Context(), 1, 2, 3)
		require.NoError(t, err, name)
		require.NoError(t, c.change(m.Pack().File), name)
		_, err = s.Append(t.Context(), 4)
		if c.want == nil {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, c.want, name)
			require.ErrorContains(t, err, ".irpa", name)
		}
		require.NoError(t, s.Close())
		require.NoError(t, m.Close())
	}
}

// Case C25. Weights that are read as the file has them (norms, tables that are only looked up) stay the file's, although others are
// in the pack: the file may even lose its name.
func TestAPackLeavesTheRestToTheFile(t *testing.T) {
	path, o := packable(t)
	want := runAs(t, path, o, func(*Model) {})
	require.Equal(t, want, runAs(t, path, o, func(m *Model) {
		require.NoError(t, os.Remove(path))
		file, packed := 0, 0
		for _, d := range m.Resolution().Decisions {
			v, ok := m.Weight(d.Name)
			switch {
			case !ok:
			case v.Storage().Name() == path:
				file++
				require.Zero(t, d.Use&resolver.Multiplied, d.Name)
			default:
				packed++
			}
		}
		require.Positive(t, file)
		require.Equal(t, m.Pack().Weights, packed)
	}))
}

// A pack that cannot be made is a note, and the model runs. A load that is canceled while it packs leaves nothing.
func TestNoPackCanBeMade(t *testing.T) {
	path, o := packable(t)
	small := o
	small.Packs.Limit = 1 << 10
	runAs(t, path, small, func(m *Model) {
		require.Contains(t, m.Pack().Reason, "all packs may have 1.00 KiB")
		require.Positive(t, m.Forms().Feed.Weights)
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Open(ctx, path, o)
	require.ErrorIs(t, err, context.Canceled)
	list, err := o.Packs.List()
	require.NoError(t, err)
	require.Empty(t, list)
}
