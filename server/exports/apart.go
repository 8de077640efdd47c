package exports

import (
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
)

// stateLocation remembers where the state directory lies, because to find that out takes long on a
// machine with very many mounts.
type stateLocation struct {
	mu sync.Mutex
	// at is the location that the directory had while it had this path, mount and inode. A change of
	// a directory above it, or of the mount, changes the path or the mount.
	at    *location
	name  string
	mount uint64
	inode inode
}

// locate returns the location of the state directory dir.
func (s *stateLocation) locate(dir string) (*location, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	st, err := status(fd)
	if err != nil {
		return nil, err
	}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil || s.name != name || s.mount != st.Mnt_id || s.inode != inodeOf(&st) {
		at, err := locateFD(fd)
		if err != nil {
			return nil, err
		}
		s.at, s.name, s.mount, s.inode = at, name, st.Mnt_id, inodeOf(&st)
	}
	return s.at, nil
}

// apartFrom returns an error if the directory fd contains the state directory or lies within it,
// because clients could then read the key that signs file handles.
func (t *Filesystems) apartFrom(fd int) error {
	dir, err := locateFD(fd)
	if err != nil {
		return err
	}
	return t.apart(dir)
}

// mountApartFrom is apartFrom for the top of a mount, which has the status st.
func (t *Filesystems) mountApartFrom(m *export.Found, st *unix.Statx_t) error {
	dir := &location{chain: []inode{inodeOf(st)}}
	dir.device, dir.path = m.Device, m.Root
	return t.apart(dir)
}

func (t *Filesystems) apart(dir *location) error {
	state, err := t.stateAt.locate(t.state)
	switch {
	case err != nil:
		return err
	case dir.holds(state):
		return fmt.Errorf("the state directory %s lies within it, where clients could read the key that seals handles", t.state)
	case state.holds(dir):
		return fmt.Errorf("it lies within the state directory %s, where clients could read the key that seals handles", t.state)
	}
	return nil
}
