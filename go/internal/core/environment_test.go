package core_test

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

// Subnormal numbers: what they cost, and that nobody's control register is changed for their sake.
// Case B16.
func TestSubnormalsCostLittleAndChangeNoControlRegister(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pool := newPool(t, 2)
	before, st := coretest.FloatControl(pool)
	ok(t, st)
	if len(before) != 3 {
		t.Fatalf("%d threads", len(before))
	}
	const rows, n, tokens = 64, 1024, 2
	filled := func(e tensor.Encoding, v float32, dims ...int64) *testTensor {
		x := newTensor(t, e, dims...)
		if e == tensor.EncF16 && v != 1 {
			fill(x.bytes, 0)
			for i := 0; i < len(x.bytes); i += 2 {
				x.bytes[i] = 5 // a subnormal half
			}
			return x
		}
		for i := range len(x.bytes) / info(t, e).BlockBytes {
			putDense(x.bytes, e, i, v)
		}
		return x
	}
	for _, e := range []tensor.Encoding{tensor.EncF32, tensor.EncBF16, tensor.EncF16, tensor.Q8_0} {
		type pair struct{ x, w *testTensor }
		operands := func(w, x float32) pair {
			if e != tensor.Q8_0 {
				return pair{filled(tensor.EncF32, x, tokens, n), filled(e, w, rows, n)}
			}
			q, a := newTensor(t, e, rows, n), newTensor(t, tensor.A8, tokens, n)
			for at := 0; at < len(q.bytes); at += 34 {
				binary.LittleEndian.PutUint16(q.bytes[at:], map[bool]uint16{true: 0x3c00, false: 1}[w == 1])
				fill(q.bytes[at+2:at+34], 1)
			}
			for at := 0; at < len(a.bytes); at += 160 {
				a8Block(a.bytes[at:at+160], func(int) float32 { return x }, func(int) int8 { return 1 })
			}
			return pair{a, q}
		}
		y := newTensor(t, tensor.EncF32, tokens, rows)
		elapsed := func(p pair) time.Duration {
			begin := time.Now()
			for range 20 {
				ok(t, core.MatMulT(pool, nil, &p.x.View, &p.w.View, &y.View))
			}
			return time.Since(begin)
		}
		ones := operands(1, 1)
		for name, p := range map[string]pair{"weights": operands(1e-40, 1), "activations": operands(1, 1e-40), "both": operands(1e-40, 1e-40)} {
			var ratios []float64
			for range 21 {
				a, b := elapsed(ones), elapsed(p)
				ratios = append(ratios, float64(b)/float64(a))
			}
			slices.Sort(ratios)
			t.Logf("%v, subnormal %s: %.2f times the time of ones", e, name, ratios[10])
			if ratios[10] >= 4 {
				t.Errorf("%v, subnormal %s: %.2f times the time of ones", e, name, ratios[10])
			}
		}
	}
	x, a := filled(tensor.EncF32, 1e-40, tokens, n), newTensor(t, tensor.A8, tokens, n)
	ok(t, core.QuantizeRows(pool, nil, &x.View, &a.View))
	after, st := coretest.FloatControl(pool)
	ok(t, st)
	slices.Sort(before[1:])
	slices.Sort(after[1:])
	if !slices.Equal(before, after) {
		t.Errorf("control registers were %x and are %x", before, after)
	}
}

// wide reports whether the bytes of an amd64 instruction begin with a VEX or EVEX prefix, behind a segment or address
// size prefix at most: in 64-bit mode these bytes begin nothing else.
func wide(b []byte) bool {
	for len(b) > 0 && slices.Contains([]byte{0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x67}, b[0]) {
		b = b[1:]
	}
	return len(b) > 1 && (b[0] == 0xc4 || b[0] == 0xc5 || b[0] == 0x62)
}

// Only the units that are reached behind a check hold wide instructions, in the very objects that go build linked; and
// this test's products run on an emulated processor without them.
// Case F04.
func TestBaselineProcessorsRunEverything(t *testing.T) {
	const child = "SKEEP_CASE_F04"
	if os.Getenv(child) != "" {
		t.Log("in force: " + core.ISA())
		return
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("instructions of amd64")
	}
	for _, tool := range []string{"go", "ar", "nm", "objdump"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("objects are not disassembled: ", err)
		}
	}
	archive, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", "github.com/skeep-project/skeep/csrc").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	extract := exec.Command("ar", "x", strings.TrimSpace(string(archive)))
	extract.Dir = dir
	if out, err := extract.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	objects, err := filepath.Glob(filepath.Join(dir, "*.o")) // named by number: their symbols tell which is which
	if err != nil || len(objects) < 10 {
		t.Fatal(objects, err)
	}
	units := 0
	for _, object := range objects {
		symbols, err := exec.Command("nm", "--defined-only", object).Output()
		if err != nil || !strings.Contains(string(symbols), " T skeep_") {
			continue // Go's own object, or one without C functions
		}
		units++
		text, err := exec.Command("objdump", "-d", "--insn-width=16", object).Output()
		if err != nil {
			t.Fatal(object, err)
		}
		instructions, found, first := 0, 0, ""
		for line := range strings.Lines(string(text)) {
			columns := strings.Split(line, "\t")
			if len(columns) < 3 {
				continue
			}
			code, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(columns[1]), " ", ""))
			if err != nil {
				t.Fatal(line)
			}
			if instructions++; wide(code) {
				if found++; first == "" {
					first = strings.TrimSpace(line)
				}
			}
		}
		switch dispatched := regexp.MustCompile(` T skeep_\w+_avx(2|512)\b`).Match(symbols); {
		case dispatched && found == 0:
			t.Errorf("%s: no wide instruction among %d: the search is blind", object, instructions)
		case !dispatched && found > 0:
			t.Errorf("%s: %d wide instructions, the first is %s", object, found, first)
		}
	}
	if units < 10 {
		t.Fatalf("only %d units among %d objects", units, len(objects))
	}
	const emulator = "qemu-x86_64-static"
	if _, err := exec.LookPath(emulator); err != nil {
		t.Skip("no baseline processor: ", err)
	}
	for cpu, isa := range map[string]string{"Nehalem": "portable", "Haswell": "avx2"} {
		run := exec.Command(emulator, "-cpu", cpu, os.Args[0], "-test.run=^Test(BaselineProcessors|Q4KSubBlocks|BlockScales|MatMulOfSigned)", "-test.v")
		run.Env = append(os.Environ(), child+"=1", "SKEEP_ISA=")
		if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "in force: "+isa) {
			t.Errorf("%s: %v\n%s", cpu, err, out)
		}
	}
}
