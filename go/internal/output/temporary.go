package output

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// The name of a temporary is that of its target, then mark, some hexadecimal digits, and end.
const (
	mark   = ".skeep-"
	digits = 16
	end    = ".tmp"
	// A name has at most 255 bytes on every file system here.
	longest = 255 - len(mark) - digits - len(end)
)

// temporaryName is a new name beside a path.
func temporaryName(path string) string {
	dir, base := filepath.Split(path)
	return fmt.Sprintf("%s%s%s%0*x%s", dir, stem(base), mark, digits, rand.Uint64(), end)
}

// stem is what the temporaries of a file's name begin with.
func stem(base string) string {
	if len(base) <= longest {
		return base
	}
	n := longest
	for n > 0 && !utf8.RuneStart(base[n]) {
		n--
	}
	return base[:n]
}

// removeLeftovers removes the temporaries of a path that nobody writes any more. It fails silently: a leftover is in
// nobody's way.
func removeLeftovers(path string) {
	RemoveLeftovers(filepath.Dir(path), func(name string) bool { return name == stem(filepath.Base(path)) })
}

// RemoveLeftovers removes the temporaries in a folder that nobody writes any more, of the files whose names of is true
// for (long names come cut). It fails silently.
func RemoveLeftovers(dir string, of func(name string) bool) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		rest, ours := strings.CutSuffix(name, end)
		at := len(rest) - digits - len(mark)
		if !ours || at < 0 || !strings.HasPrefix(rest[at:], mark) || strings.Trim(rest[at+len(mark):], "0123456789abcdef") != "" || !of(rest[:at]) {
			continue
		}
		name = filepath.Join(dir, name)
		f, err := openLeftover(name)
		if err != nil {
			continue
		}
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() && lock(f) == locked {
			_ = os.Remove(name)
		}
		_ = f.Close()
	}
}

// lockState is what came of a try to lock a file.
type lockState int

const (
	locked      lockState = iota
	held                  // by another
	unsupported           // by the file system
)
