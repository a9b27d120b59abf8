package load_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/skeep-project/skeep/go/gguf"
	"github.com/skeep-project/skeep/go/load"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

// A file that is cut between the reading of its header and that of its payload, or between the mapping and a
// conversion, ends every way of loading with an error that names file and tensor: also a cut within the last page, and
// in any part of a split set.
func TestCutFilesEndLoads(t *testing.T) {
	unmapped := func(p *resolver.Profile) { p.Map = false }
	for _, c := range []struct {
		name     string
		profile  func(*resolver.Profile)
		form     string
		o        load.Options
		late     bool // cut once it is mapped
		fsSource bool
	}{
		{name: "mapped"},
		{name: "read", profile: unmapped},
		{name: "read from a file system", fsSource: true},
		{name: "direct", profile: unmapped, o: load.Options{Direct: true}},
		{name: "decoded from pages", form: "f32"},
		{name: "decoded from pages that are cut meanwhile", form: "f32", late: true},
		{name: "decoded from bytes that are read", form: "f32", fsSource: true},
	} {
		for _, parts := range []int{1, 3} {
			for part := range parts {
				for _, pages := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/part %d of %d/by pages %v", c.name, part, parts, pages), func(t *testing.T) {
						dir := t.TempDir()
						path := filepath.Join(dir, "model.gguf")
						require.NoError(t, os.WriteFile(path, readFile(t, file(t)), 0o600))
						if parts > 1 {
							whole, err := gguf.Open(path, gguf.Options{})
							require.NoError(t, err)
							paths, err := gguf.Split(context.Background(), whole, filepath.Join(dir, "set"), gguf.PartLimits{Tensors: (len(whole.Tensors()) + parts - 1) / parts})
							require.NoError(t, err)
							require.Len(t, paths, parts)
							require.NoError(t, whole.Close())
							path = paths[0]
						}
						var s load.Source
						var err error
						if c.fsSource {
							s.File, err = gguf.OpenFS(os.DirFS(dir), filepath.Base(path), gguf.Options{})
						} else {
							s, err = load.Open(path, gguf.Options{})
						}
						require.NoError(t, err)
						defer func() { require.NoError(t, s.File.Close()) }()
						of := s.File.Parts()[part]
						name := filepath.Join(dir, filepath.Base(of.Path))
						cut := func() error {
							if pages {
								return os.Truncate(name, int64(os.Getpagesize()))
							}
							return os.Truncate(name, of.Size-1)
						}
						p, err := resolver.ProfileNamed("desktop", 0)
						require.NoError(t, err)
						if c.profile != nil {
							c.profile(&p)
						}
						var overrides []resolver.Override
						if c.form != "" {
							overrides = append(overrides, resolver.Override{Pattern: "*", Form: c.form})
						}
						r, err := resolver.Resolve(resolver.Request{Header: s.File, Profile: p, Platform: s.Platform(), Kernels: skeep.Kernels(), Overrides: overrides})
						require.NoError(t, err)
						if c.late {
							seen := 0
							c.o.Progress = func(p load.Progress) {
								if info, ok := s.File.Tensor(p.Tensor); ok && info.File == part {
									if seen++; seen == 2 { // the first one had it mapped
										require.NoError(t, cut())
									}
								}
							}
						} else {
							require.NoError(t, cut())
						}
						c.o.Pool, err = skeep.NewPool(2)
						require.NoError(t, err)
						defer c.o.Pool.Close()
						scope := skeep.NewModelScope("test")
						defer func() { require.NoError(t, scope.Close()) }()
						_, err = load.Load(context.Background(), s, r, scope, c.o)
						is := skeep.ErrChanged
						if c.late && pages {
							is = skeep.ErrFault
						}
						require.ErrorIs(t, err, is)
						require.ErrorContains(t, err, of.Path)
						var named string
						_, scanErr := fmt.Sscanf(err.Error(), "load: tensor %q:", &named)
						require.NoError(t, scanErr, err)
						info, ok := s.File.Tensor(named)
						require.True(t, ok)
						require.Equal(t, part, info.File)
					})
				}
			}
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// Direct reading opens a file once more, by its path: what another file has taken the place of is not read.
func TestDirectReadsTheFileThatWasOpened(t *testing.T) {
	path := file(t)
	s, err := load.Open(path, gguf.Options{})
	require.NoError(t, err)
	defer s.File.Close()
	require.NoError(t, os.Rename(file(t), path))
	p, err := resolver.ProfileNamed("desktop", 0)
	require.NoError(t, err)
	p.Map = false
	r, err := resolver.Resolve(resolver.Request{Header: s.File, Profile: p, Platform: s.Platform(), Kernels: skeep.Kernels()})
	require.NoError(t, err)
	scope := skeep.NewModelScope("test")
	defer scope.Close()
	notes := 0
	_, err = load.Load(context.Background(), s, r, scope, load.Options{Direct: true, Note: func(string) { notes++ }})
	if notes > 0 {
		t.Skip("no direct reading here")
	}
	require.ErrorIs(t, err, skeep.ErrChanged)
	require.ErrorContains(t, err, path)
}

// Where the file system refuses to map, everything is read, and the reason stands in every decision.
func TestFilesThatCannotBeMappedAreRead(t *testing.T) {
	s, err := load.Open(file(t), gguf.Options{})
	require.NoError(t, err)
	defer s.File.Close()
	require.NoError(t, s.NotMapped)
	s.NotMapped = fmt.Errorf("load: the file system refuses to map it: %w", syscall.ENODEV)
	w, r, _ := loaded(t, s, load.Options{})
	require.Empty(t, w.Mappings())
	for _, info := range s.File.Tensors() {
		d, _ := r.Decision(info.Name)
		require.NotEqual(t, tensor.Mapped, d.Spec.Domain)
		require.Contains(t, d.Spec.Reason, "refuses to map it: no such device", info.Name)
		v, ok := w.View(info.Name)
		require.True(t, ok)
		got := make([]byte, info.Bytes)
		_, err := v.Storage().ReadAt(got, 0)
		require.NoError(t, err)
		require.Equal(t, payload(t, s.File, info.Name), got)
	}
}
