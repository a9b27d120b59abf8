package core_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/tensor"
)

// Instruction sets are chosen once for a process. A test that is to see several runs itself in a process for each.
const limited = "SKEEP_TEST_LIMITED"

// within runs the calling test in a process that may use a set of instructions, and returns what this prints as
// "result …"; "" if the machine does not have the set.
func within(t *testing.T, set string) string {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.short="+strconv.FormatBool(testing.Short()))
	c.Env = append(os.Environ(), limited+"=1", "SKEEP_ISA="+set)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("with %s: %v\n%s", set, err, out)
	}
	found := regexp.MustCompile(`(?m)^result (\S+) (\S+)$`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("with %s: no result\n%s", set, out)
	}
	if string(found[1]) != set {
		return ""
	}
	return string(found[2])
}

// agree multiplies a random weight as stored and in feed order by some tokens: the bits are the same, for every number of
// threads and tokens, and within the bound of the decoded product, which is computed in double. It returns the bits.
func agree(t *testing.T, e, activation tensor.Encoding, out, n int, tokens, threads []int) []byte {
	t.Helper()
	name := fmt.Sprintf("%v by %v, %s", e, activation, core.ISA())
	r, most := rand.New(rand.NewPCG(uint64(e), uint64(out))), slices.Max(tokens)
	w, v := weightsOf(t, r, e, out, n), ordered(t, tensor.Feed, e, int64(out), int64(n))
	x := activationsOf(t, r, activation, most, n)
	want := referenceOf(t, x, w, most, out, n)
	bits := make([]byte, 4*most*out)
	for i, count := range threads {
		p, st := core.NewPool(count, 0)
		ok(t, st)
		ok(t, core.Prepack(p, nil, &w.View, &v.View))
		for _, few := range slices.Backward(slices.Sorted(slices.Values(tokens))) {
			some := x.with(t, must(t, x.Layout, func(l tensor.Layout) (tensor.Layout, error) { return l.Narrow(0, 0, int64(few)) }), nil)
			y, z := newTensor(t, tensor.EncF32, int64(few), int64(out)), newTensor(t, tensor.EncF32, int64(few), int64(out))
			ok(t, core.MatMulT(p, nil, &some.View, &w.View, &y.View))
			ok(t, core.MatMulT(p, nil, &some.View, &v.View, &z.View))
			if i == 0 && few == most {
				copy(bits, y.bytes)
				for k := range most * out {
					if got := math.Float32frombits(bitsAt(bits, k)); want.wrong(k/out, k%out, got, activation == tensor.A8) {
						t.Fatalf("%s: element (%d, %d) is %g, decoded %g", name, k/out, k%out, got, want.value[k])
					}
				}
			}
			for order, got := range map[string][]byte{"as stored": y.bytes, "in feed order": z.bytes} {
				if !bytes.Equal(got, bits[:len(got)]) {
					t.Fatalf("%s, %s: %d rows, %d tokens, %d threads have other bits than %d tokens on %d threads as stored", name, order, out, few, count, most, threads[0])
				}
			}
		}
		p.Close()
	}
	return bits
}

// inner is an extent of rows that has more than one section of a product, whole blocks, and a short last section.
func inner(t *testing.T, e tensor.Encoding) int {
	return max(608/info(t, e).BlockElements, 3) * info(t, e).BlockElements
}

// As stored, in feed order and decoded: one product, for each encoding, activation, instruction set, number of tokens and of
// threads. The bits of integer products are also those of the other x86 instruction set, so that the machine may choose.
// Case C15.
func TestPackedProductsAgreeInEveryInstructionSet(t *testing.T) {
	if os.Getenv(limited) == "" {
		a, b := within(t, "avx2"), within(t, "avx512")
		if a != b && a != "" && b != "" {
			t.Error("integer products have other bits with AVX-512 than with AVX2")
		}
		within(t, "portable")
		return
	}
	tokens, threads := []int{1, 2, 3, 4, 5, 8, 9, 16, 33}, []int{1, 2, 3, 7}
	if testing.Short() {
		tokens, threads = []int{1, 3, 8, 9}, []int{1, 3}
	}
	sum := sha256.New()
	for _, e := range slices.Sorted(maps.Keys(feedUnits)) {
		for _, activation := range []tensor.Encoding{tensor.A8, tensor.EncF32} {
			bits := agree(t, e, activation, 41, inner(t, e), tokens, threads)
			if activation == tensor.A8 {
				sum.Write(bits)
			}
		}
	}
	fmt.Printf("\nresult %s %x\n", core.ISA(), sum.Sum(nil))
}

// Without vector instructions, a weight that is in feed order already is multiplied right: by a portable kernel for that order. An
// order for which there is no kernel is refused, and never read as another one.
// Case C02.
func TestFeedOrderWithoutVectorInstructions(t *testing.T) {
	if os.Getenv(limited) == "" {
		within(t, "portable")
		return
	}
	for _, e := range slices.Sorted(maps.Keys(feedUnits)) {
		n := 3 * info(t, e).BlockElements
		for _, activation := range []tensor.Encoding{tensor.A8, tensor.EncF32} {
			if k, found := core.Kernels().Find(tensor.OpMatMulT, e, activation, tensor.Feed); !found || k.ISA != "portable" {
				t.Errorf("%v by %v in feed order: kernel %q", e, activation, k.Name)
			}
			agree(t, e, activation, 32, n, []int{1, 5}, []int{2})
			p, x, y := newPool(t, 1), newTensor(t, activation, 2, int64(n)), newTensor(t, tensor.EncF32, 2, 32)
			for _, o := range []tensor.Order{tensor.Panels(4), tensor.Panels(16), {Family: tensor.InputBlockMajor}} {
				fails(t, core.MatMulT(p, nil, &x.View, &ordered(t, o, e, 32, int64(n)).View, &y.View), core.ErrLayout, 1)
			}
		}
	}
	fmt.Printf("\nresult %s done\n", core.ISA())
}

// Rows that are no multiple of a panel, numbers of threads that divide them and that do not, and tokens that fill no
// register: the bits are the same.
// Case C11.
func TestPanelsAreCutForAnyNumberOfThreads(t *testing.T) {
	encodings := []tensor.Encoding{tensor.Q4_0, tensor.Q6_K, tensor.Q8_0, tensor.Q4_K}
	if testing.Short() {
		encodings = encodings[:2]
	}
	for _, e := range encodings {
		for _, activation := range []tensor.Encoding{tensor.A8, tensor.EncF32} {
			for _, out := range []int{24, 40} {
				agree(t, e, activation, out, inner(t, e), []int{1, 3, 15, 17, 31, 33}, []int{1, 2, 3, 4, 5, 6, 7, 8, 9})
			}
		}
	}
}
