package embedded

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func TestModelIsGGUF(t *testing.T) {
	m := Model()
	if len(m) < 4<<20 || len(m) > 6<<20 {
		t.Fatalf("the model has %d bytes, want 4 to 6 MiB", len(m))
	}
	if !bytes.HasPrefix(m, []byte("GGUF")) {
		t.Fatalf("the model starts with %q, want GGUF", m[:4])
	}
	if v := binary.LittleEndian.Uint32(m[4:]); v != 3 {
		t.Fatalf("GGUF version %d, want 3", v)
	}
	for _, key := range []string{"general.architecture", "general.license", "skeep.example"} {
		if !bytes.Contains(m, []byte(key)) {
			t.Errorf("metadata key %s is missing", key)
		}
	}
}

func TestModelIsNotCopied(t *testing.T) {
	if n := testing.AllocsPerRun(10, func() { Model() }); n != 0 {
		t.Errorf("Model allocates %v times", n)
	}
	if a, b := Model(), Model(); &a[0] != &b[0] {
		t.Error("two calls of Model return different memory")
	}
}

// The expected values are what held_out of train/train.py returns.
func TestHeldOutAgreesWithTraining(t *testing.T) {
	for _, c := range []struct {
		a, b int
		want bool
	}{
		{0, 2, true}, {0, 57, true}, {265, 564, true}, {564, 265, true}, {745, 820, true}, {590, 455, true},
		{0, 0, false}, {2, 2, false}, {243, 606, false}, {606, 243, false}, {557, 133, false}, {999, 999, false},
	} {
		if got := HeldOut(c.a, c.b); got != c.want {
			t.Errorf("HeldOut(%d, %d) = %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestHeldOutCount(t *testing.T) {
	n := 0
	for a := range 1000 {
		for b := range 1000 {
			if HeldOut(a, b) {
				n++
			}
		}
	}
	if n != 100283 {
		t.Errorf("%d of a million pairs are held out, want 100283", n)
	}
}
