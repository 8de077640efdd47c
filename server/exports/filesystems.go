package exports

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/loglimit"
	"github.com/nfsrdmad/nfsrdmad/internal/mountinfo"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// Filesystems has the open file systems of a server's exports: one for each directory, even if
// several exports show it. These exports share the file system's caches, its descriptors and its
// index of handles, but have options of their own.
type Filesystems struct {
	// Descriptors limits the open files of all file systems together.
	Descriptors *local.Descriptors
	// Revoke, if not nil, is called before a file system is closed. It revokes the opens and locks
	// of clients in it.
	Revoke func(fs vfs.FileSystem)
	// RevokeExport, if not nil, is called when no call uses an export any more that was removed, or replaced
	// by one of another directory. It revokes the opens and locks that clients hold by that export.
	RevokeExport func(e *export.Export)

	log         *zap.Logger
	state       string // the state directory
	stateAt     stateLocation
	failedSyncs atomic.Uint64
	syncLines   loglimit.Limit[uint64] // by device number
	fullLines   loglimit.Limit[struct{}]
	ofMounts    atomic.Pointer[local.Descriptors] // the budget of mounts below exports, if there is one

	mu   sync.Mutex
	open map[directoryKey]*openFilesystem
}

// A directoryKey identifies a directory in one mount. The mount is part of the key, because another
// mount of the same directory may have other options, such as read-only.
type directoryKey struct{ dev, ino, mount uint64 }

type openFilesystem struct {
	fs *local.FS // nil while it is being opened
	// exports is the number of exports that use fs. When it falls to 0, LetGo closes fs and then the
	// channel closed. While fs is being opened, exports is 0, and show then closes the channel.
	exports int
	closed  chan struct{}
}

// NewFilesystems returns a Filesystems without file systems. state is the state directory, where
// they store the index of file handles if the kernel cannot open files by handle. descriptors is
// the largest number of descriptors that all file systems together keep open between calls.
func NewFilesystems(state string, log *zap.Logger, descriptors int) *Filesystems {
	t := &Filesystems{
		log: log, state: state, fullLines: loglimit.Limit[struct{}]{Every: fullLineEvery},
		syncLines: loglimit.Limit[uint64]{Every: syncLineEvery}, open: make(map[directoryKey]*openFilesystem),
	}
	t.Descriptors = t.budget(descriptors)
	return t
}

// fullLineEvery is the least time between two log lines about clients that may not open more files.
const fullLineEvery = time.Minute

// budget returns a budget of descriptors that logs when clients may not open more files.
func (t *Filesystems) budget(descriptors int) *local.Descriptors {
	d := local.NewDescriptors(descriptors)
	d.Full = func() {
		leftOut, due := t.fullLines.Due(struct{}{}, time.Now())
		if !due {
			return
		}
		// On a goroutine of its own, because the caller must not wait, and the log may.
		go t.log.Warn(logline.FilesFull, zap.String("remedy", "raise the limit of open files (LimitNOFILE= in the unit, ulimit -n), or let the client close files"),
			zap.Int("held", d.Held()), zap.Int("limit", d.Limit()), zap.Int("lines_left_out", leftOut))
	}
	return d
}

// OpensRefused returns how many times a client was refused to open a file, because too many were open.
func (t *Filesystems) OpensRefused() uint64 {
	n := t.Descriptors.Refused()
	if d := t.ofMounts.Load(); d != nil {
		n += d.Refused()
	}
	return n
}

// FailedSyncs returns the number of syncs that have failed.
func (t *Filesystems) FailedSyncs() uint64 { return t.failedSyncs.Load() }

// show returns the file system of a directory for one more export, and opens it if no export uses
// it yet. fd is the directory, and dir its path for messages. The file system does not depend on
// the export's options: the export itself refuses changes if it is read-only, and asks for stable
// storage if it is sync. show blocks while it opens the file system, while another goroutine opens it,
// or while LetGo still closes it for an earlier export.
func (t *Filesystems) show(dir string, fd int) (*local.FS, error) {
	key, err := keyOf(fd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	opening := &openFilesystem{closed: make(chan struct{})}
	for {
		t.mu.Lock()
		there := t.open[key]
		if there == nil {
			t.open[key] = opening
			t.mu.Unlock()
			break
		}
		if there.exports > 0 {
			there.exports++
			t.mu.Unlock()
			return there.fs, nil
		}
		t.mu.Unlock()
		<-there.closed
	}
	cfg := t.config(dir, key)
	cfg.Root = fmt.Sprintf("/proc/self/fd/%d", fd)
	fs, err := local.New(cfg)
	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(opening.closed)
	if err != nil {
		delete(t.open, key)
		return nil, fmt.Errorf("%s: %w", dir, errors.Unwrap(err)) // the outer error would show /proc/self/fd/N instead of the path
	}
	t.open[key] = &openFilesystem{fs, 1, make(chan struct{})}
	return fs, nil
}

// index returns the directory for the names of files that the kernel does not find by their handles.
func (t *Filesystems) index() string { return filepath.Join(t.state, "index") }

// config returns the configuration of a directory's file system, without its Root.
func (t *Filesystems) config(dir string, key directoryKey) local.Config {
	return local.Config{
		StateDir:    t.index(),
		Sync:        true,
		Descriptors: t.Descriptors,
		SyncFailed: func(call local.SyncCall, err error) {
			t.syncFailed(dir, key, call, err, time.Now())
		},
	}
}

// again counts one more export of an open file system. It returns false if the file system is not
// in t.open any more, or is being closed.
func (t *Filesystems) again(fs vfs.FileSystem) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, there := t.findLocked(fs)
	if there == nil || there.exports == 0 {
		return false
	}
	there.exports++
	return true
}

// findLocked returns the entry of a file system in t.open, or nil.
func (t *Filesystems) findLocked(fs vfs.FileSystem) (directoryKey, *openFilesystem) {
	for key, there := range t.open {
		if vfs.FileSystem(there.fs) == fs {
			return key, there
		}
	}
	return directoryKey{}, nil
}

// LetGo ends an export's use of its file system, and closes the file system if no other export uses
// it. If the file system is not in t.open, no other export uses it. t may be nil.
func (t *Filesystems) LetGo(fs vfs.FileSystem) error {
	if t == nil {
		return fs.Close()
	}
	t.mu.Lock()
	key, there := t.findLocked(fs)
	if there != nil {
		if there.exports--; there.exports > 0 {
			t.mu.Unlock()
			return nil
		}
	}
	t.mu.Unlock()
	if t.Revoke != nil {
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

func keyOf(fd int) (directoryKey, error) {
	st, err := status(fd)
	return directoryKey{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino, st.Mnt_id}, err
}

// status returns the attributes and the mount of the open file or directory fd.
func status(fd int) (st unix.Statx_t, err error) {
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st)
	return st, err
}

// syncLineEvery is the shortest time between two log lines about failed syncs of one file system.
const syncLineEvery = time.Minute

// syncFailed counts a sync that failed with err, and logs it unless a line about the same device was
// written less than syncLineEvery ago. dir is the exported directory, and key identifies it. The
// argument now is the present time. Any goroutine may call it.
func (t *Filesystems) syncFailed(dir string, key directoryKey, call local.SyncCall, err error, now time.Time) {
	t.failedSyncs.Add(1)
	before, due := t.syncLines.Due(key.dev, now)
	if !due {
		return
	}
	fields := []zap.Field{zap.String("directory", dir), zap.Stringer("call", call), zap.Error(err), zap.String("remedy", syncRemedy(err))}
	if all, readErr := mountinfo.Read(); readErr == nil {
		if m := mountinfo.Find(all, key.mount); m != nil {
			fields = append(fields, zap.String("file_system", m.Kind), zap.String("mounted_on", m.Point))
		}
	}
	if before > 0 {
		fields = append(fields, zap.Int("others_before", before))
	}
	t.log.Error(logline.DiskFailed, fields...)
}

// syncRemedy returns advice for a sync that failed with err.
func syncRemedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "make room on the file system; clients are told and send again what was not committed"
	case errors.Is(err, syscall.EDQUOT):
		return "raise the quota, or have its user remove files; clients are told and send again what was not committed"
	}
	return "see the kernel's log (journalctl -k) for what is wrong with the disk, then check the file system; clients are told and send again what was not committed"
}
