//go:build unix && !solaris && !aix

package output

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lock locks an open file without waiting. The lock belongs to the open file, not to the process, and ends with it.
func lock(f *os.File) lockState {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return locked
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return held
		default:
			return unsupported
		}
	}
}

// openLeftover opens what may be anything by now, without waiting for the other end of a pipe.
func openLeftover(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// writable is why this process may not write to a file, or nil.
func writable(name string) error { return unix.Access(name, unix.W_OK) }

// giveTo gives a file the owner and the group of another, where that is allowed. It is asked before the permissions
// are set, since it takes some of them away.
func giveTo(f *os.File, old os.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(-1, int(st.Gid))
		_ = f.Chown(int(st.Uid), -1)
	}
}

// syncFolder makes names last. A file system that does not do that for folders, and a folder that may not be read,
// are no error.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}
