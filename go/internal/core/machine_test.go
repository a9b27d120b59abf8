package core_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
	"github.com/stretchr/testify/require"
)

func TestProcessorsAreKnownByVendorFamilyAndModel(t *testing.T) {
	known := map[string]bool{}
	for _, name := range core.MachineFamilies() {
		known[name] = true
	}
	for _, c := range []struct {
		vendor        string
		family, model int
		want          string
	}{
		{"AuthenticAMD", 25, 0x01, "zen3"}, {"AuthenticAMD", 25, 0x21, "zen3"}, {"AuthenticAMD", 25, 0x50, "zen3"},
		{"AuthenticAMD", 25, 0x11, "zen4"}, {"AuthenticAMD", 25, 0x61, "zen4"}, {"AuthenticAMD", 25, 0xa0, "zen4"},
		{"AuthenticAMD", 25, 0x80, "unknown"}, {"AuthenticAMD", 26, 0x11, "unknown"}, {"AuthenticAMD", 6, 143, "unknown"},
		{"GenuineIntel", 6, 143, "sapphire-rapids"}, {"GenuineIntel", 6, 207, "sapphire-rapids"}, {"GenuineIntel", 6, 106, "unknown"},
		{"", 0, 0, "unknown"},
	} {
		require.Equal(t, c.want, coretest.FamilyOf(c.vendor, c.family, c.model), "%+v", c)
		require.True(t, known[c.want], c.want)
	}
	require.True(t, known[core.MachineInForce().Processor])
}

// SKEEP_MACHINE is read once: each value needs a process of its own.
func TestMachineFollowsTheEnvironment(t *testing.T) {
	const child = "SKEEP_TEST_PRINT_MACHINE"
	if os.Getenv(child) != "" {
		fmt.Printf("machine=%s\n", core.MachineInForce())
		return
	}
	run := func(words string) string {
		c := exec.Command(os.Args[0], "-test.run=^TestMachineFollowsTheEnvironment$")
		c.Env = append(os.Environ(), child+"=1", "SKEEP_MACHINE="+words)
		out, err := c.Output()
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(out), "machine=")
		machine, _, _ := strings.Cut(rest, "\n")
		return machine
	}
	usual := run("")
	for _, words := range []string{"ahead", "ahead=", "ahead=-1", "ahead=1048577", "ahead=99999999999999999999", "ahead=4k", "panels=0", "panels=3",
		"feed=neon", "feed=portable", "feed=2", "stored=1", "ahead=avx2", "panels=avx2", "ahead=64,", ",ahead=64", "ahead=64,,panels=1", "ahead=64 panels=1",
		"Ahead=64", "one=avx2", "ahead=64,panels=9", "feed=avx", "feed=avx5120"} {
		require.False(t, core.MachineWords(words), words)
		require.Equal(t, usual, run(words), words)
	}
	in := func(isa string) string { // what the set becomes on this machine
		if isa == "avx2" && core.ISA() == "avx512" {
			return isa
		}
		return core.ISA()
	}
	for words, want := range map[string]core.Machine{
		"ahead=0,panels=1,feed=avx2,stored=avx512":        {Ahead: 0, Panels: 1, Feed: in("avx2"), Stored: in("avx512")},
		"stored=avx2,feed=avx512,panels=2,ahead=1048576":  {Ahead: 1 << 20, Panels: 2, Feed: in("avx512"), Stored: in("avx2")},
		"ahead=1,ahead=64,panels=2,feed=avx2,stored=avx2": {Ahead: 64, Panels: 2, Feed: in("avx2"), Stored: in("avx2")},
	} {
		require.True(t, core.MachineWords(words), words)
		require.Equal(t, want.String(), run(words))
	}
	require.Contains(t, run("panels=2"), usual[:strings.Index(usual, ",")]+",panels=2")
	require.True(t, core.MachineWords(usual), usual)
}

// machines are settings of all kinds.
func machines() (all []core.Machine) {
	for _, ahead := range []int{0, 1, 1024, 8192, 1 << 20} {
		for panels := 1; panels <= 2; panels++ {
			for _, isa := range []string{"avx2", "avx512"} {
				all = append(all, core.Machine{Ahead: ahead, Panels: panels, Feed: isa, Stored: isa})
			}
		}
	}
	return all
}

// onEach runs f with every machine in force, and ends with the one that was.
func onEach(t *testing.T, f func(core.Machine)) {
	usual := core.MachineInForce()
	defer core.SetMachine(usual)
	for _, m := range machines() {
		core.SetMachine(m)
		got := core.MachineInForce()
		require.Equal(t, usual.Processor, got.Processor)
		require.Equal(t, m.Ahead, got.Ahead)
		require.Equal(t, m.Panels, got.Panels)
		f(got)
	}
}

// Products have the same bits whatever the machine is, in both orders, with both activations, as a whole and with rows
// behind the panels, for one token and several.
func TestNoBitDependsOnTheMachine(t *testing.T) {
	p := newPool(t, 2)
	for e := range tensor.Encodings() {
		for _, activation := range []tensor.Encoding{tensor.A8, tensor.EncF32} {
			if _, found := core.Kernels().Find(tensor.OpMatMulT, e.ID, activation, tensor.Order{}); !found {
				continue
			}
			const out = 16*5 + 3
			r := rand.New(rand.NewPCG(uint64(e.ID), 3))
			n := max(608/e.BlockElements, 3) * e.BlockElements
			w := weightsOf(t, r, e.ID, out, n)
			weights := []*testTensor{w}
			if feedUnits[e.ID] != nil {
				weights = append(weights, ordered(t, tensor.Feed, e.ID, out, int64(n)))
				ok(t, core.Prepack(p, nil, &w.View, &weights[1].View))
			}
			for _, tokens := range []int{1, 2, 9} {
				x, y := activationsOf(t, r, activation, tokens, n), newTensor(t, tensor.EncF32, int64(tokens), out)
				ok(t, core.MatMulT(p, nil, &x.View, &w.View, &y.View))
				want := bytes.Clone(y.bytes)
				onEach(t, func(m core.Machine) {
					for i, v := range weights {
						clear(y.bytes)
						ok(t, core.MatMulT(p, nil, &x.View, &v.View, &y.View))
						if !bytes.Equal(y.bytes, want) {
							t.Fatalf("%s by %v, %d tokens, %v, order %d: other bits", e.Name, activation, tokens, m, i)
						}
					}
				})
			}
		}
	}
}

// Select says which row a product of one token runs, and that others are left alone: several tokens, exact activations.
func TestSelectKnowsTheSetForOneToken(t *testing.T) {
	const out, n = 19, 512
	w, f := newTensor(t, tensor.Q4_K, out, n), ordered(t, tensor.Feed, tensor.Q4_K, out, n)
	rows := core.Kernels()
	onEach(t, func(m core.Machine) {
		for _, dims := range [][]int64{{1, n}, {1, 1, n}, {n}, {2, n}, {2, 1, n}} {
			y := make([]int64, len(dims))
			copy(y, dims)
			y[len(y)-1] = out
			for _, activation := range []tensor.Encoding{tensor.A8, tensor.EncF32} {
				x, result := newTensor(t, activation, dims...), newTensor(t, tensor.EncF32, y...)
				for weight, isa := range map[*testTensor]string{w: m.Stored, f: m.Feed} {
					if dims[0] == 2 || activation != tensor.A8 {
						isa = core.ISA()
					}
					row, st := core.Select(tensor.OpMatMulT, []*core.View{&x.View, &weight.View, &result.View})
					ok(t, st)
					if core.ISA() != "neon" { // whose products of packed weights are portable
						require.Equal(t, isa, rows[row].ISA, "%v by %v: %s", dims, activation, rows[row].Name)
					}
					project, st := core.Select(tensor.OpProject, []*core.View{&x.View, &weight.View, nil, &result.View})
					ok(t, st)
					require.Equal(t, row, project)
					best, found := rows.Find(tensor.OpMatMulT, tensor.Q4_K, activation, weight.Layout.Order)
					require.True(t, found)
					for i, k := range rows {
						if k.Name == best.Name && dims[0] != 2 {
							require.Equal(t, row, core.RowOfOneToken(i))
						}
					}
				}
			}
		}
	})
}
