// Command rows says which bodies of the kernel table no test has compared with what is right.
//
//	rows [-without SET[,SET…]] FOLDER
//
// FOLDER is what SKEEP_ROWS_RUN named while the tests ran: one file per process, one name per line. It exits with status 1
// and names each row that is missing. Rows of the sets behind -without (avx512, neon …: no processor, no emulator) that do
// not run here are listed as not judged instead.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

func main() {
	without := flag.String("without", "", "instruction sets that nothing could run, separated by commas")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	run, err := names(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "rows:", err)
		os.Exit(2)
	}
	if !report(os.Stdout, skeep.Kernels(), run, strings.Split(*without, ",")) {
		os.Exit(1)
	}
}

// names is what stands in the files of a folder.
func names(folder string) (map[string]bool, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	run := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return nil, err
		}
		for _, name := range strings.Fields(string(text)) {
			run[name] = true
		}
	}
	return run, nil
}

// report writes which rows were not run and which could not be judged; false when there are any of the first, or names
// that no row has.
func report(w io.Writer, rows []tensor.KernelInfo, run map[string]bool, without []string) (ok bool) {
	known := map[string]bool{}
	var missing, unjudged []string
	for _, k := range rows {
		known[k.Name] = true
		switch {
		case run[k.Name]:
		case !k.Runnable && slices.Contains(without, k.ISA):
			unjudged = append(unjudged, k.Name)
		default:
			missing = append(missing, k.Name)
		}
	}
	var foreign []string
	for name := range run {
		if !known[name] {
			foreign = append(foreign, name)
		}
	}
	slices.Sort(foreign)
	for _, l := range []struct {
		what  string
		names []string
	}{{"not judged", unjudged}, {"compared by no test", missing}, {"not in the table", foreign}} {
		for _, name := range l.names {
			fmt.Fprintf(w, "%s: %s\n", l.what, name)
		}
	}
	fmt.Fprintf(w, "%d rows, %d compared, %d missing, %d not judged\n", len(rows), len(run)-len(foreign), len(missing), len(unjudged))
	return len(missing) == 0 && len(foreign) == 0
}
