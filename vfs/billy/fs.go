package billy

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	gobilly "github.com/go-git/go-billy/v5"
	nfs "github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/file"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Limits that hold for every billy file system.
const (
	maxName = 255
	maxText = 4095 // of a symlink
	maxLink = 32000
)

// DefaultMaxFileSize bounds files whose file system shows no inode numbers, in
// bytes: such file systems as a rule keep a file in one piece of memory, which
// a write at a large offset would make them allocate.
const DefaultMaxFileSize = 1 << 30

// Options say how a billy file system is served. The zero value is usable.
type Options struct {
	// Path is the directory that Handler.Mount is asked for; "/" where empty.
	Path string
	// Concurrent: the file system is safe for concurrent use, so reading,
	// writing and listing need not be kept apart. Calls that change names are
	// still made one at a time, and one file is written by one call at a time.
	Concurrent bool
	// Sole: nobody but clients of this FS changes the files, so that changes
	// are reported as atomic and clients may keep what they cached.
	Sole bool
	// MaxFileSize in bytes; 0 for no limit where the file system shows inode
	// numbers, DefaultMaxFileSize where it does not.
	MaxFileSize uint64
	// OpenFiles is how many files are kept open between calls, 0 for 64.
	OpenFiles int
	// Sync puts a file on stable storage, where the file system's File has no
	// method Sync() error.
	Sync func(gobilly.File) error
	// Panicked, where not nil, is told of what the file system panicked with.
	// The call that ran into it failed with EIO.
	Panicked func(v any, stack []byte)
	// FSID is Attr.FSID of every file; 0 for one made of Path.
	FSID uint64
}

// FS is a billy file system behind the seam. It implements vfs.FileSystem.
type FS struct {
	opt      Options
	handler  nfs.Handler        // nil for a bare file system
	theirFS  gobilly.Filesystem // as the handler knows it
	fs       *guard             // the same, to be called
	panics   atomic.Uint64
	change   gobilly.Change // nil where nothing can be changed
	chmod    gobilly.Chmod
	unix     nfs.UnixChange
	readOnly bool

	// calls orders the calls into the file system: what changes names has it
	// alone.
	calls sync.RWMutex
	// memory is all that is known of the files. Its lock is never held during
	// a call of the file system.
	memory
	open openFiles

	restless bool // the times of files change by themselves
	verifier [8]byte
}

var _ vfs.FileSystem = (*FS)(nil)

// New serves what handler mounts for opt.Path. Handler.Mount is called once,
// here, with a connection that carries nothing: see Ask for handlers that
// decide by client.
func New(handler nfs.Handler, opt Options) (*FS, error) {
	if opt.Path == "" {
		opt.Path = "/"
	}
	status, bfs, _ := handler.Mount(context.Background(), noConn{}, nfs.MountRequest{Dirpath: []byte(opt.Path)})
	if status != nfs.MountStatusOk || bfs == nil {
		return nil, fmt.Errorf("billy: mount of %q: %w", opt.Path, mountError(status))
	}
	return start(handler, bfs, opt)
}

// NewFilesystem serves a file system that has no handler. What can be changed
// is what bfs itself implements of billy.Change and nfs.UnixChange.
func NewFilesystem(bfs gobilly.Filesystem, opt Options) (*FS, error) {
	return start(nil, bfs, opt)
}

func start(handler nfs.Handler, bfs gobilly.Filesystem, opt Options) (*FS, error) {
	if opt.OpenFiles <= 0 {
		opt.OpenFiles = 64
	}
	if opt.FSID == 0 {
		opt.FSID = hash("fsid", opt.Path)
	}
	f := &FS{opt: opt, handler: handler, theirFS: bfs}
	f.fs = &guard{bfs, opt.Panicked, &f.panics}
	rand.Read(f.verifier[:])
	f.open.limit, f.open.lost, f.open.guard = opt.OpenFiles, f.failedSync, f.fs
	f.readOnly = !gobilly.CapabilityCheck(bfs, gobilly.WriteCapability)
	if handler != nil {
		f.change = handler.Change(bfs)
	} else {
		f.change, _ = bfs.(gobilly.Change)
	}
	f.chmod = f.change
	if f.change == nil {
		f.chmod, _ = bfs.(gobilly.Chmod)
	}
	f.unix, _ = f.change.(nfs.UnixChange)
	info, err := f.fs.Lstat(bfs.Join())
	if errors.Is(err, fs.ErrNotExist) && !f.readOnly {
		// Some file systems have no root before they have anything else.
		if err = f.fs.MkdirAll("/", 0o755); err == nil {
			info, err = f.fs.Lstat(bfs.Join())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("billy: root: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("billy: root: %w", syscall.ENOTDIR)
	}
	if opt.MaxFileSize == 0 {
		f.opt.MaxFileSize = DefaultMaxFileSize
		if file.GetInfo(info) != nil {
			f.opt.MaxFileSize = math.MaxInt64
		}
	}
	f.opt.MaxFileSize = min(f.opt.MaxFileSize, math.MaxInt64)
	// Some have times that only say when one looked: they are kept here then.
	again, err := f.fs.Lstat(bfs.Join())
	f.restless = err == nil && !again.ModTime().Equal(info.ModTime())
	f.memory.init(f, info)
	return f, nil
}

// Ask asks the handler whether the client at the other end of conn may mount
// Options.Path: for handlers that decide so. Every client gets the file system
// that New got; a client whom the handler would give one with another root is
// refused.
func (f *FS) Ask(ctx context.Context, conn net.Conn) error {
	if f.handler == nil {
		return nil
	}
	status, bfs, _ := f.handler.Mount(ctx, conn, nfs.MountRequest{Dirpath: []byte(f.opt.Path)})
	if status != nfs.MountStatusOk {
		return mountError(status)
	}
	if bfs == nil || bfs.Root() != f.theirFS.Root() {
		return syscall.EACCES
	}
	return nil
}

// Root implements vfs.FileSystem.
func (f *FS) Root() vfs.Handle { return f.root.handle }

// Lane implements vfs.FileSystem.
func (f *FS) Lane() any { return f }

// Verifier implements vfs.FileSystem.
func (f *FS) Verifier() [8]byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.verifier
}

// failedSync changes the verifier: what was written may be lost.
func (f *FS) failedSync() {
	f.mu.Lock()
	v := binary.LittleEndian.Uint64(f.verifier[:])
	binary.LittleEndian.PutUint64(f.verifier[:], v+1)
	f.mu.Unlock()
}

// Info implements vfs.FileSystem.
func (f *FS) Info(op *vfs.Op, h vfs.Handle) (vfs.Info, error) {
	if op.Try {
		return vfs.Info{}, vfs.ErrWouldBlock
	}
	f.calls.RLock()
	defer f.calls.RUnlock()
	if _, err := f.find(h); err != nil {
		return vfs.Info{}, err
	}
	links := uint32(1)
	if f.unix != nil {
		links = maxLink
	}
	return vfs.Info{
		MaxFileSize:     f.opt.MaxFileSize,
		MaxName:         maxName,
		MaxLink:         links,
		TimeGranularity: vfs.Time{Nsec: 1},
		HardLinks:       f.unix != nil,
		Symlinks:        true,
		NoTruncate:      true,
		ChownRestricted: true,
		CasePreserving:  true,
		Homogeneous:     true,
		CanSetTime:      f.change != nil,
		ReadOnly:        f.readOnly,
	}, nil
}

// Usage implements vfs.FileSystem. A handler that says nothing is taken to
// have a large, empty file system, as go-nfs takes it.
func (f *FS) Usage(op *vfs.Op, h vfs.Handle) (vfs.Usage, error) {
	if op.Try {
		return vfs.Usage{}, vfs.ErrWouldBlock
	}
	f.calls.RLock()
	defer f.calls.RUnlock()
	if _, err := f.find(h); err != nil {
		return vfs.Usage{}, err
	}
	const plenty = 1 << 62
	s := nfs.FSStat{TotalSize: plenty, FreeSize: plenty, AvailableSize: plenty,
		TotalFiles: plenty, FreeFiles: plenty, AvailableFiles: plenty}
	if f.readOnly {
		s.AvailableSize, s.AvailableFiles = 0, 0
	}
	if f.handler != nil {
		if err := f.fs.call(func() error { return f.handler.FSStat(context.Background(), f.theirFS, &s) }); err != nil {
			return vfs.Usage{}, errno(err)
		}
	}
	return vfs.Usage{
		TotalBytes: s.TotalSize, FreeBytes: s.FreeSize, AvailableBytes: s.AvailableSize,
		TotalFiles: s.TotalFiles, FreeFiles: s.FreeFiles, AvailableFiles: s.AvailableFiles,
	}, nil
}

// Close implements vfs.FileSystem: every open file is closed.
func (f *FS) Close() error { return errno(f.open.dropAll()) }
