package exports

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// Filesystems are the file systems behind a server's exports: one for each directory, even if
// several exports show it. These exports share its caches, its index of handles and its
// descriptors. Each export has its own options.
type Filesystems struct {
	// Descriptors bounds the open files of all of them together.
	Descriptors *local.Descriptors
	// Revoke, if not nil, takes away the clients' state in a file system before it is closed.
	Revoke func(fs vfs.FileSystem)

	state    string // the state directory
	failures failedSyncs

	mu   sync.Mutex
	open map[directoryKey]*openFilesystem
}

// A directoryKey identifies a directory in one mount. Another mount of the same directory may be
// read-only.
type directoryKey struct{ dev, ino, mount uint64 }

type openFilesystem struct {
	fs      *local.FS
	exports int
	// closed is closed when the file system has been closed, after the last export let go of it.
	closed chan struct{}
}

// NewFilesystems makes a Filesystems. The state directory state keeps the handles that the
// kernel does not make. descriptors is the number of descriptors that the file systems together
// hold between calls.
func NewFilesystems(state string, log *zap.Logger, descriptors int) *Filesystems {
	return &Filesystems{
		Descriptors: local.NewDescriptors(descriptors), state: state,
		failures: failedSyncs{log: log}, open: make(map[directoryKey]*openFilesystem),
	}
}

// FailedSyncs returns how many syncs have failed.
func (t *Filesystems) FailedSyncs() uint64 { return t.failures.count.Load() }

// show returns the file system of a directory for one more export. fd is the directory, and dir
// its path for messages. The export itself refuses changes if it is read-only, and requests
// durability. One goroutine at a time calls show. It blocks while the directory is opened, or
// closed for an earlier export.
func (t *Filesystems) show(dir string, fd int) (*local.FS, error) {
	key, err := keyOf(fd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	for {
		there, shared := t.share(key)
		if shared {
			return there.fs, nil
		}
		if there == nil {
			break
		}
		<-there.closed
	}
	cfg := t.config(dir, key)
	cfg.Root = fmt.Sprintf("/proc/self/fd/%d", fd)
	fs, err := local.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, errors.Unwrap(err)) // the inner error does not name a descriptor
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[key] = &openFilesystem{fs, 1, make(chan struct{})}
	return fs, nil
}

// config returns the configuration of a directory's file system.
func (t *Filesystems) config(dir string, key directoryKey) local.Config {
	return local.Config{
		StateDir:    filepath.Join(t.state, "index"),
		Sync:        true,
		Descriptors: t.Descriptors,
		SyncFailed: func(call local.SyncCall, err error) {
			t.failures.failed(dir, key, call, err, time.Now())
		},
	}
}

// apartFrom refuses a directory that contains the state directory or lies within it, because
// clients could read the key that seals handles.
func (t *Filesystems) apartFrom(fd int) error {
	dir, err := locateFD(fd)
	if err != nil {
		return err
	}
	state, err := locate(t.state)
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

// again adds one more export to an open file system. It returns false if the file system is no
// longer among t.open.
func (t *Filesystems) again(fs vfs.FileSystem) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, there := range t.open {
		if vfs.FileSystem(there.fs) == fs && there.exports > 0 {
			there.exports++
			return true
		}
	}
	return false
}

// share adds one more export to an open file system. If shared is false, it is being closed, or
// there is none.
func (t *Filesystems) share(key directoryKey) (there *openFilesystem, shared bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if there = t.open[key]; there != nil && there.exports > 0 {
		there.exports++
		return there, true
	}
	return there, false
}

// LetGo ends an export's use of its file system. The last export closes it. A file system that is
// not among t.open belongs to the export alone, and is closed.
func (t *Filesystems) LetGo(fs vfs.FileSystem) error {
	key, there, last := t.unshare(fs)
	if !last {
		return nil
	}
	if t != nil && t.Revoke != nil {
		t.Revoke(fs)
	}
	err := fs.Close()
	if there != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.open, key)
		close(there.closed)
	}
	return err
}

// unshare removes one export from a file system. last: the caller has to close it.
func (t *Filesystems) unshare(fs vfs.FileSystem) (key directoryKey, there *openFilesystem, last bool) {
	if t == nil {
		return key, nil, true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, there = range t.open {
		if vfs.FileSystem(there.fs) == fs {
			there.exports--
			return key, there, there.exports == 0
		}
	}
	return key, nil, true
}

func keyOf(fd int) (directoryKey, error) {
	var sx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &sx); err != nil {
		return directoryKey{}, err
	}
	return directoryKey{unix.Mkdev(sx.Dev_major, sx.Dev_minor), sx.Ino, sx.Mnt_id}, nil
}
