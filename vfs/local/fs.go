package local

import (
	"errors"
	"fmt"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unique"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/mountinfo"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local/index"
)

// Config describes an FS.
type Config struct {
	// Root is the directory that is served.
	Root string
	// StateDir is the directory for the index of names, which outlives the process. The FS needs it
	// if the kernel cannot open files by handle, and on overlayfs. Otherwise it may be empty.
	StateDir string
	// Sync makes each change of names and attributes durable before its call returns, and not only
	// when the file system writes it. Written data is as stable as promised in either case.
	Sync bool
	// ReadOnly refuses every change with EROFS. Without it, the mount decides at each call, because it
	// may be made read-only or writable at any time.
	ReadOnly bool
	// FSID, if not 0, is mixed into the file system's own identity. Two exports of one file
	// system with different FSIDs then look like two file systems to clients.
	FSID uint64
	// Descriptors is the budget that all FSs share; nil: half of RLIMIT_NOFILE.
	Descriptors *Descriptors
	// Mount, if its ID is not 0, is the mount whose top is Root, as mountinfo describes it (proc(5)).
	// Without it, the FS reads mountinfo, which takes long on a machine with very many mounts.
	Mount mountinfo.Mount
	// IndexHandles makes the FS use the index even if the kernel could open handles.
	IndexHandles bool
	// KernelHandles makes New fail if the kernel cannot resolve the directory's handles.
	KernelHandles bool
	// SyncHook is for tests. If not nil, it is called before each sync call with its descriptor.
	// If it returns an error, the sync call is not made and fails with that error.
	SyncHook func(what SyncCall, fd int) error
	// SyncFailed, if not nil, is called for each failed sync call, on any goroutine. It must not
	// wait for the FS.
	SyncFailed func(what SyncCall, err error)
}

// FS is a served directory. It implements vfs.FileSystem.
type FS struct {
	cfg      Config
	readOnly bool // Config.ReadOnly

	root     *node
	rootStat unix.Stat_t
	mount    int // read descriptor of the root, for open_by_handle_at and syncfs
	mountID  uint64
	volume   unique.Handle[string] // see Volume
	proc     int                   // descriptor of /proc/self/fd
	// bounded is true if the root is the top of a mount, and the mount shows the top of its file
	// system. Then no file of the mount lies outside of the tree.
	bounded bool
	// moves counts the times that a directory may have left the tree (confine.go); if bounded, it is 0.
	moves atomic.Uint32
	// covers is the inode number of the directory that the mount at the root covers, or 0 if no call
	// has asked for it yet. It is not read in New, because that takes a listing of the parent.
	covers   atomic.Uint64
	kind     fsKind
	handles  *handleKind
	scope    vfs.Scope
	resolver resolver
	identity identity
	// reopens is true if the daemon may open each regular file of which it has an O_PATH descriptor,
	// whatever the mode, and even if the file has no name any more.
	reopens bool

	holdings    holdings
	nodes       nodeCache
	syncer      syncer
	syncs       syncCaller
	reserveLeft atomic.Int64 // number of bytes that may be written until lookAtReserve has to be called again

	stop chan struct{}
	// sweeping is locked during a round of the sweeper. It guards swept, the round before.
	sweeping sync.Mutex
	swept    uint32
	running  sync.WaitGroup // the sweeper and the flusher
	closed   atomic.Bool
	stats    counters
	// xattrs is true if the file system keeps extended attributes of users.
	xattrs bool
	// noTryReads and noTryWrites are true if the file system does not support RWF_NOWAIT.
	noTryReads, noTryWrites atomic.Bool
	noUnnamed               atomic.Bool   // true if the file system has no O_TMPFILE
	reads                   atomic.Uint32 // readKind of the mount, which a remount changes
	refusedAt               atomic.Uint32 // see mountIsReadOnly
	closing                 closing
	clock                   func() time.Time
}

var _ vfs.FileSystem = (*FS)(nil)

// New opens the directory that cfg names. If the machine lacks something that the FS needs, the
// error names it.
func New(cfg Config) (*FS, error) {
	fs := &FS{cfg: cfg, readOnly: cfg.ReadOnly, mount: -1, proc: -1, clock: time.Now,
		stop: make(chan struct{})}
	fs.syncer.init(host{fs}, cfg.Sync, fs.stop)
	fs.nodes.init(host{fs}, inodes, &fs.syncer)
	fs.holdings.budget, fs.holdings.nodes = cfg.Descriptors, &fs.nodes.count
	if cfg.Descriptors == nil {
		fs.holdings.budget = processDescriptors()
	}
	if err := fs.open(); err != nil {
		fs.release()
		return nil, fmt.Errorf("vfs/local: %s: %w", cfg.Root, err)
	}
	fs.running.Go(fs.sweep)
	fs.running.Go(fs.syncer.flusher)
	return fs, nil
}

func (fs *FS) open() error {
	err := fs.holdings.budget.join(&fs.holdings)
	if err != nil {
		return err
	}
	if fs.proc, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("cannot open /proc/self/fd: mount /proc: %w", err)
	}
	if fs.mount, err = unix.Open(fs.cfg.Root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	rootFD, err := sysOpenat2(fs.mount, dot, unix.O_PATH|unix.O_DIRECTORY, 0, unix.RESOLVE_NO_XDEV)
	if err != nil {
		return fmt.Errorf("openat2, which needs Linux 5.6 or later: %w", err)
	}
	defer func() {
		if fs.root == nil {
			unix.Close(rootFD)
		}
	}()
	if err = sysFstat(rootFD, &fs.rootStat); err != nil {
		return err
	}
	if err = sysFaccess(rootFD, 0); err != nil {
		return fmt.Errorf("faccessat2 (Linux 5.8): %w", err)
	}
	var sfs unix.Statfs_t
	if err = sysFstatfs(fs.mount, &sfs); err != nil {
		return err
	}
	fs.kind = kindOf(&sfs, &fs.rootStat, birth(rootFD) != 0)
	fs.xattrs = keepsXattrs(fs.mount)
	fs.reads.Store(uint32(readKindOf(&sfs)))
	on, top := fs.mountOfRoot()
	fs.mountID, fs.bounded, fs.volume = on.ID, top && on.Root == "/", unique.Make(on.Device)
	// A hook shall see syncs on every file system.
	fs.syncer.start(devices.join(fs), fs.kind.pages && fs.cfg.SyncHook == nil)
	fs.syncs.mount, fs.syncs.kind, fs.syncs.device = fs.mount, &fs.kind, fs.syncer.device
	fs.syncs.hook, fs.syncs.report = fs.cfg.SyncHook, fs.cfg.SyncFailed
	fs.nodes.memory, fs.nodes.rawAttr = fs.kind.memory, fs.kind.rawAttr
	fs.identity.init()
	fs.reopens = fs.kind.memory && unswitched.Load().effective&(1<<unix.CAP_DAC_OVERRIDE) != 0
	syscall.Umask(0)
	signal.Ignore(syscall.SIGXFSZ) // beyond RLIMIT_FSIZE a write returns EFBIG

	fs.handles = handleKindOf(sfs.Type)
	h, err := fs.handles.identify(rootFD, &fs.rootStat)
	if err != nil {
		return fmt.Errorf("name_to_handle_at: %w", err)
	}
	fs.scope = scopeOf(fs.handles, rootFD, fs.mount, sfs.Type, fs.rootStat.Dev, &h)
	again, err := fs.openKernelHandle(&h)
	if err == nil {
		unix.Close(again)
	}
	byKernel := err == nil && !fs.cfg.IndexHandles
	switch {
	case !byKernel && fs.cfg.KernelHandles:
		return errors.New("its files have no handles, or the daemon may not open them by handles (CAP_DAC_READ_SEARCH)")
	case !byKernel && fs.cfg.StateDir == "":
		return errors.New("handles need an index here (no CAP_DAC_READ_SEARCH), and there is no state directory for it")
	case byKernel && !fs.handles.layers:
		fs.resolver = kernelResolver{fs}
	case fs.cfg.StateDir == "":
		fs.resolver = layersResolver{fs, noNames{}}
	default:
		x, err := index.Open(indexedTree{fs}, fs.cfg.StateDir, h)
		if err != nil {
			return err
		}
		fs.resolver = x
		if byKernel {
			fs.resolver = layersResolver{fs, x}
		}
	}
	fs.root = fs.keepNode(rootFD, &fs.rootStat, h, nil) // Close releases this reference
	fs.nodes.root = fs.root
	return nil
}

// mountOfRoot returns the mount that the root is on. top is true if the root is the directory at the top
// of it.
func (fs *FS) mountOfRoot() (on mountinfo.Mount, top bool) {
	if fs.cfg.Mount.ID != 0 {
		return fs.cfg.Mount, true
	}
	return mountOf(fs.mount)
}

// mountOf returns the mount that fd is on. top is true if fd is the directory at the top of it.
func mountOf(fd int) (on mountinfo.Mount, top bool) {
	var sx unix.Statx_t
	if sysStatx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &sx) != nil {
		return on, false
	}
	all, err := mountinfo.Read()
	if err == nil {
		if m := mountinfo.Find(all, sx.Mnt_id); m != nil {
			return *m, sx.Attributes_mask&sx.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
		}
	}
	// mountinfo does not list the mount. statx has its device, except of a subvolume of btrfs.
	return mountinfo.Mount{ID: sx.Mnt_id, Device: fmt.Sprintf("%d:%d", sx.Dev_major, sx.Dev_minor)}, false
}

// Close implements vfs.FileSystem. The kernel writes uncommitted data later, as always.
func (fs *FS) Close() error {
	if fs.closed.Swap(true) {
		return nil
	}
	close(fs.stop)
	fs.running.Wait()
	return fs.release()
}

func (fs *FS) release() error {
	var err error
	devices.leave(fs)
	fs.nodes.each(fs.dropClaims)
	fs.nodes.drain()
	fs.closing.ended.Wait()
	if fs.resolver != nil {
		err = fs.resolver.Close()
	}
	unix.Close(fs.mount) // EBADF if FS.open failed before it opened them
	unix.Close(fs.proc)
	fs.holdings.budget.leave(&fs.holdings)
	return err
}

var _ vfs.Shared = (*FS)(nil)

// Volume implements vfs.Shared. A volume is a file system's device number in mountinfo (proc(5)). All
// subvolumes of a btrfs have the same; a handle says which subvolume its file is on.
func (fs *FS) Volume() any { return fs.volume }

// Root implements vfs.FileSystem.
func (fs *FS) Root() vfs.Handle { return fs.root.handle }

// Lane implements vfs.FileSystem. FSs on one file system share a lane, because they stall together.
func (fs *FS) Lane() any { return fs.syncer.device }

// now returns the time.
func (fs *FS) now() time.Time { return fs.clock() }

// reopen opens the file of an O_PATH descriptor once more, with the given flags. ErrDelay: with
// O_NONBLOCK, another process first has to give up its lease on the file. ESTALE: it was removed.
func (fs *FS) reopen(fd, flags int) (again int, err error) {
	err = uninterrupted(func() (err error) {
		again, err = unix.Openat(fs.proc, strconv.Itoa(fd), flags|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
		return err
	})
	switch err {
	case syscall.EAGAIN:
		err = vfs.ErrDelay
	case syscall.ENOENT:
		err = syscall.ESTALE
	}
	return again, err
}

// A device is a file system. Several FSs of the process may show it.
type device struct {
	failures atomic.Uint64   // number of failed syncs
	shown    map[*syncer]*FS // the FSs that show it
}

// deviceTable holds the devices of all open FSs, by FS.volume. The subvolumes of a btrfs are one device,
// because a failed sync of one export may lose data of a file that another export shows.
type deviceTable struct {
	mu sync.Mutex
	m  map[unique.Handle[string]]*device
}

var devices = deviceTable{m: make(map[unique.Handle[string]]*device)}

// join adds fs to its device and returns the device.
func (t *deviceTable) join(fs *FS) *device {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.m[fs.volume]
	if d == nil {
		d = &device{shown: make(map[*syncer]*FS)}
		t.m[fs.volume] = d
	}
	d.shown[&fs.syncer] = fs
	return d
}

// leave removes a closed FS from its device. If the device then has no FS, leave removes the device
// from the table, because its number may mean another file system later.
func (t *deviceTable) leave(fs *FS) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := fs.syncer.device; d != nil {
		if delete(d.shown, &fs.syncer); len(d.shown) == 0 && t.m[fs.volume] == d {
			delete(t.m, fs.volume)
		}
	}
}

// moved increments FS.moves of the other FSs on the device of the argument by, so that they check again
// where their directories lie. It is called after a rename through that FS that gave, or may have given,
// a directory another parent.
func (t *deviceTable) moved(by *FS) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, fs := range by.syncer.device.shown {
		if fs != by && !fs.bounded {
			fs.moves.Add(1)
		}
	}
}

// lost changes the verifiers of the device's FSs, because data that clients have not committed may be lost.
func (d *device) lost() {
	devices.mu.Lock()
	defer devices.mu.Unlock()
	for s := range d.shown {
		s.newVerifier()
	}
}
