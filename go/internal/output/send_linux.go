package output

import (
	"os"

	"golang.org/x/sys/unix"
)

// send has the system begin to write bytes of a file to the medium, without waiting. It may do nothing.
func send(f *os.File, from, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), from, n, unix.SYNC_FILE_RANGE_WRITE)
}
