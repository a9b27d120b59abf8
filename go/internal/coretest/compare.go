package coretest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/skeep-project/skeep/go/internal/core"
)

// RowsRun is the environment variable that names a folder: each process whose tests compare results of rows of the kernel
// table leaves a file with the names of these rows there. The program tests/rows reads them.
const RowsRun = "SKEEP_ROWS_RUN"

// Wrong says of one result that it is not what it should be.
type Wrong = func(format string, args ...any)

// Compare fails the test at the first result of a row of the kernel table that judge calls wrong, else notes that the row's
// results were compared. A judge that takes anything would make the note worthless: the first time that a row is
// compared in a process, the highest exponent bit of each of elements is turned over in turn (each is the memory of one
// result; in a block of codes, of one byte), and judge must call something wrong every time.
func Compare(t testing.TB, row int, elements [][]byte, judge func(wrong Wrong)) {
	t.Helper()
	judge(func(format string, args ...any) { t.Helper(); t.Fatalf(format, args...) })
	compared.Lock()
	defer compared.Unlock()
	if compared.rows[row] {
		return
	}
	if err := seesAlterations(elements, judge); err != nil {
		t.Fatalf("row %d: %v", row, err)
	}
	compared.rows[row] = true
	if err := note(row); err != nil {
		t.Fatal(err)
	}
}

// seesAlterations is an error unless judge calls something wrong whichever of the elements is altered.
func seesAlterations(elements [][]byte, judge func(wrong Wrong)) error {
	if len(elements) == 0 {
		return fmt.Errorf("coretest: no results to compare")
	}
	for i, e := range elements {
		high := &e[len(e)-1]
		*high ^= 0x40
		seen := false
		judge(func(string, ...any) { seen = true })
		*high ^= 0x40
		if !seen {
			return fmt.Errorf("coretest: results pass as right when the %d. of %d is altered", i+1, len(elements))
		}
	}
	return nil
}

// Samples is the memory of the first, the middle and the last of results that have size bytes each.
func Samples(results []byte, size int) [][]byte {
	n := len(results) / size
	if n == 0 {
		return nil
	}
	var s [][]byte
	for _, i := range []int{0, n / 2, n - 1} {
		s = append(s, results[i*size:(i+1)*size])
	}
	return s
}

// compared is the rows that were, and the file of this process, nil until there is one to note.
var compared = struct {
	sync.Mutex
	rows map[int]bool
	file *os.File
}{rows: map[int]bool{}}

func note(row int) (err error) {
	folder := os.Getenv(RowsRun)
	if folder == "" {
		return nil
	}
	if compared.file == nil {
		if compared.file, err = os.CreateTemp(folder, "rows-"); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(compared.file, core.Kernels()[row].Name)
	return err
}
