package mountinfo

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A Watcher waits for changes of the mounts. The kernel reports them by poll(2) on
// /proc/self/mountinfo (proc(5)).
type Watcher struct {
	fd, stop int
}

// Watch returns a Watcher. Every mount or unmount from now on is a change.
func Watch() (*Watcher, error) {
	fd, err := unix.Open(File, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", File, err)
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &Watcher{fd, stop}, nil
}

// Changed waits for a change since its last call, and returns true. It returns false after Stop or
// an error; the caller then calls Close.
func (w *Watcher) Changed() bool {
	fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLPRI}, {Fd: int32(w.stop), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
		case err != nil || fds[1].Revents != 0:
			return false
		default:
			return true
		}
	}
}

// Stop makes the present call of Changed and all later ones return false. Any goroutine may call it
// before Close.
func (w *Watcher) Stop() { _, _ = unix.Write(w.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// Close releases the Watcher's descriptors. After it, the caller must not call Changed or Stop.
func (w *Watcher) Close() {
	unix.Close(w.fd)
	unix.Close(w.stop)
}
