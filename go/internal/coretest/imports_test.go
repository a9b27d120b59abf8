package coretest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestNothingButTestsImportsThisPackage(t *testing.T) {
	const module = "github.com/skeep-project/skeep/"
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	withCore := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		pkg, deps, _ := strings.Cut(strings.TrimSpace(line), " ")
		linked := strings.Fields(deps)
		if slices.Contains(linked, module+"go/internal/coretest") {
			t.Errorf("%s imports coretest, or what imports it", pkg)
		}
		withCore[pkg] = slices.Contains(linked, module+"go/internal/core")
	}
	for _, command := range []string{"go/cmd/skeep", "go/internal/coretest"} {
		if !withCore[module+command] {
			t.Errorf("go list does not say that %s imports the core: then what it says of coretest is worth nothing", command)
		}
	}
}
