package core_test

import (
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/coretest"
	"github.com/skeep-project/skeep/go/tensor"
)

// structFields is the sizes and offsets of a struct and its fields, in order.
func structFields(t reflect.Type) [][2]uintptr {
	fields := [][2]uintptr{{t.Size(), 0}}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name == "Format" { // C has its two fields side by side
			for j := range f.Type.NumField() {
				g := f.Type.Field(j)
				fields = append(fields, [2]uintptr{g.Type.Size(), f.Offset + g.Offset})
			}
			continue
		}
		fields = append(fields, [2]uintptr{f.Type.Size(), f.Offset})
	}
	return fields
}

func TestViewHasTheMemoryLayoutOfC(t *testing.T) {
	var want [][2]uintptr
	for _, v := range []any{core.View{}, tensor.Layout{}, tensor.Order{}} {
		want = append(want, structFields(reflect.TypeOf(v))...)
	}
	if got := coretest.ViewFields(); !reflect.DeepEqual(got, want) {
		t.Errorf("C has (size, offset)\n%v\nGo has\n%v", got, want)
	}
}

func TestEncodingsAreThoseOfPackageTensor(t *testing.T) {
	for _, e := range core.Encodings() {
		if i, known := e.ID.Info(); !known || i != e {
			t.Errorf("C has %+v, Go has %+v", e, i)
		}
	}
}

func TestStatusTextNamesTheOperand(t *testing.T) {
	for _, c := range []struct {
		status core.Status
		want   string
	}{
		{core.Status{core.OK, -1, 0}, "ok"},
		{core.Status{core.ErrClosed, 1, 7}, "operand 1: storage 7, or the mark the view was made in, is closed"},
		{core.Status{core.ErrBusy, -1, 3}, "storage is in use: 3 pins are held by others"},
		{core.Status{core.ErrFormat, 0, 12}, "operand 0: encoding Q4_K is unknown or not accepted here"},
		{core.Status{core.ErrFormat, 0, 999}, "operand 0: encoding 999 is unknown or not accepted here"},
		{core.Status{core.ErrNoKernel, 1, 16<<32 | uint64(tensor.OpMatMulT)}, "operand 1: no kernel for operation matmul_t on encoding IQ2_XXS"},
		{core.Status{core.ErrLayout, 0, 1<<64 - 1}, "operand 0: block axis or block order is not accepted here"},
		{core.Status{core.ErrFault, -1, 0x1000}, "a mapped page could not be read at address 0x1000 (file truncated, or an I/O error)"},
		{core.Status{77, -1, 5}, "unknown status 77 (detail 5)"},
		{core.Status{-1, -1, 5}, "unknown status -1 (detail 5)"},
	} {
		if got := c.status.Error(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.status, got, c.want)
		}
	}
	seen := map[string]int32{}
	for code := core.OK; code <= core.ErrReadOnly; code++ {
		text := core.Status{code, -1, 0}.String()
		if other, twice := seen[text]; twice || strings.HasPrefix(text, "unknown") {
			t.Errorf("code %d has the text of %d: %q", code, other, text)
		}
		seen[text] = code
	}
	if (core.Status{Code: core.OK}).Err() != nil || (core.Status{Code: core.ErrIO}).Err() == nil {
		t.Error("Err is nil exactly when the status is OK")
	}
}

func TestStoragesHaveNames(t *testing.T) {
	s, st := core.Allocate(64, 0)
	if st.Code != core.OK {
		t.Fatal(st)
	}
	info, _ := core.InfoOf(s)
	for _, name := range []string{"weights.gguf", "", "wörter", strings.Repeat("x", 255)} {
		if st := core.SetName(s, name); st.Code != core.OK {
			t.Fatal(st)
		}
		if got := core.Name(info.ID); got != name {
			t.Errorf("the name of a storage is %q, want %q", got, name)
		}
	}
	core.SetName(s, strings.Repeat("x", 1000)+"/m.gguf")
	if got := core.Name(info.ID); len(got) > 255 || !strings.HasPrefix(got, "...x") || !strings.HasSuffix(got, "x/m.gguf") {
		t.Errorf("a long name keeps its end: %q", got)
	}
	if st := core.Close(s, nil); st.Code != core.OK {
		t.Fatal(st)
	}
	if text := (core.Status{core.ErrClosed, 1, info.ID}).String(); !strings.Contains(text, "x/m.gguf\", or the mark") {
		t.Errorf("a closed storage keeps its name for messages: %q", text)
	}
	if st := core.SetName(s, "late"); st.Code != core.ErrClosed {
		t.Error(st)
	}
}

func TestKernelTableIsWellFormed(t *testing.T) {
	names := map[string]bool{}
	portable := map[tensor.Encoding]bool{}
	for i, k := range core.Kernels() {
		if strings.HasPrefix(k.Op.String(), "op ") || k.ISA == "unknown" || !strings.HasPrefix(k.Name, "skeep_") {
			t.Errorf("row %d: %+v", i, k)
		}
		if names[k.Name+k.Order.String()+k.Encoding.String()] {
			t.Errorf("row %d stands twice: %+v", i, k)
		}
		names[k.Name+k.Order.String()+k.Encoding.String()] = true
		if k.ISA == "portable" && !k.Runnable {
			t.Errorf("portable row %d does not run", i)
		}
		if k.Op == tensor.OpDecode && k.ISA == "portable" {
			portable[k.Encoding] = true
		}
	}
	for _, e := range core.Encodings() {
		if !e.Retired && !portable[e.ID] {
			t.Errorf("%s has no portable decode row", e.Name)
		}
	}
	if isa := core.ISA(); isa == "unknown" {
		t.Error(isa)
	}
}

// SKEEP_ISA is read once: each word needs a process of its own.
func TestISAFollowsTheEnvironment(t *testing.T) {
	if os.Getenv("SKEEP_TEST_PRINT_ISA") != "" {
		fmt.Printf("isa=%s\n", core.ISA())
		return
	}
	run := func(word string) string {
		c := exec.Command(os.Args[0], "-test.run=^TestISAFollowsTheEnvironment$")
		c.Env = append(os.Environ(), "SKEEP_TEST_PRINT_ISA=1", "SKEEP_ISA="+word)
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(out), "isa=")
		isa, _, _ := strings.Cut(rest, "\n")
		return isa
	}
	best := run("")
	if got := run("no such set"); got != best {
		t.Errorf("an unknown word gives %s, want %s", got, best)
	}
	// What each word gives on a machine whose best is so.
	want := map[string]map[string]string{
		"portable": {"portable": "portable", "avx2": "portable", "avx512": "portable", "neon": "portable"},
		"avx2":     {"portable": "portable", "avx2": "avx2", "avx512": "avx2", "neon": "portable"},
		"avx512":   {"portable": "portable", "avx2": "avx2", "avx512": "avx512", "neon": "portable"},
		"neon":     {"portable": "portable", "avx2": "portable", "avx512": "portable", "neon": "neon"},
	}[best]
	for word, isa := range want {
		if got := run(word); got != isa {
			t.Errorf("SKEEP_ISA=%s gives %s, want %s", word, got, isa)
		}
	}
	if len(want) == 0 {
		t.Errorf("unknown instruction set %q", best)
	}
}
