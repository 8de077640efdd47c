package server

import (
	"fmt"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// trees are the file systems that a server's exports show: one for a directory,
// however many exports show it. They then share its caches, its index of
// handles and its part of the descriptors, and what an export says about who
// may do what (its options) stays with the export.
type trees struct {
	state       string // directory
	descriptors *local.Descriptors

	mu   sync.Mutex
	open map[treeKey]*tree
}

// A treeKey is a directory as one mount shows it: another mount of the same
// directory may be read-only.
type treeKey struct{ dev, ino, mount uint64 }

type tree struct {
	fs      *local.FS
	exports int
}

// newTrees has room for files beside so many connections; 0 is as many as usual.
func newTrees(state string, connections int) *trees {
	return &trees{
		state: state, open: make(map[treeKey]*tree),
		descriptors: local.NewDescriptors(descriptorsForFiles(descriptorLimit(), seatsWithin(descriptorLimit(), connections))),
	}
}

// show returns the file system of a directory for one more export. The export
// itself refuses changes where it is read-only, and asks for durability.
func (t *trees) show(dir string) (*local.FS, error) {
	key, err := keyOf(dir)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if there := t.open[key]; there != nil {
		there.exports++
		return there.fs, nil
	}
	fs, err := local.New(local.Config{
		Root:        dir,
		StateDir:    filepath.Join(t.state, "index"),
		Sync:        true,
		Descriptors: t.descriptors,
	})
	if err != nil {
		return nil, err
	}
	t.open[key] = &tree{fs, 1}
	return fs, nil
}

// letGo is for an export that ends: its file system is closed with the last one
// that shows it. One that is not among the trees is the export's own.
func (t *trees) letGo(fs vfs.FileSystem) error {
	if t != nil {
		t.mu.Lock()
		for key, there := range t.open {
			if vfs.FileSystem(there.fs) != fs {
				continue
			}
			if there.exports--; there.exports > 0 {
				t.mu.Unlock()
				return nil
			}
			delete(t.open, key)
			break
		}
		t.mu.Unlock()
	}
	return fs.Close()
}

func keyOf(dir string) (treeKey, error) {
	var sx unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &sx); err != nil {
		return treeKey{}, fmt.Errorf("%s: %w", dir, err)
	}
	return treeKey{unix.Mkdev(sx.Dev_major, sx.Dev_minor), sx.Ino, sx.Mnt_id}, nil
}
