package local

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// indexedTree implements index.Tree for the served tree.
type indexedTree struct{ fs *FS }

// OpenRoot implements index.Tree.
func (t indexedTree) OpenRoot() (int, error) {
	return sysOpenat2(t.fs.mount, dot, unix.O_PATH|unix.O_DIRECTORY, 0, unix.RESOLVE_NO_XDEV)
}

var dot = []byte(".")

// OpenName implements index.Tree.
func (indexedTree) OpenName(dir int, name []byte) (int, error) {
	return sysOpenat2(dir, name, unix.O_PATH, 0, unix.RESOLVE_NO_XDEV)
}

// Identify implements index.Tree.
func (indexedTree) Identify(fd int) (h vfs.Handle, directory bool, err error) {
	var st unix.Stat_t
	if err = fstat(fd, &st); err != nil {
		return h, false, err
	}
	h, err = identify(fd, &st)
	return h, st.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

// Names implements index.Tree.
func (t indexedTree) Names(dir int, each func(name []byte) bool) error {
	list, err := t.fs.reopen(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(list)
	buf := make([]byte, namesAtOnce)
	for {
		n, err := sysGetdents(list, buf)
		if err != nil || n == 0 {
			return err
		}
		for e, rest := nextDirent(buf[:n]); e.name != nil; e, rest = nextDirent(rest) {
			if !vfs.IsDot(e.name) && !each(e.name) {
				return nil
			}
		}
	}
}
