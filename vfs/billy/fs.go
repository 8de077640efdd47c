package billy

import (
	"cmp"
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

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Limits that hold for every billy file system.
const (
	maxName = 255
	maxText = 4095 // bytes in the text of a symlink
	maxLink = 32000
)

// DefaultMaxFileSize is the largest size, in bytes, of files on a file system that has no inode
// numbers. Such a file system usually keeps a file in one piece of memory. A write at a large
// offset would make it allocate all memory up to that offset.
const DefaultMaxFileSize = 1 << 30

// Options configures New. The zero value is usable.
type Options struct {
	// Path is the directory passed to Handler.Mount; "/" if empty.
	Path string
	// Sole is true if only clients of this FS change the files. Changes are then reported as
	// atomic, and clients may keep their caches.
	Sole bool
	// MaxFileSize is the largest size of a file, in bytes. 0 means no limit if the file system has
	// inode numbers, and otherwise DefaultMaxFileSize.
	MaxFileSize uint64
	// Concurrent is true if the data of files may be read (OpenFile to read, ReadAt, Close) while other
	// calls change the file system, as in a directory of the operating system. Otherwise a call that may
	// change it waits until all such reads have ended, and new reads wait for that call.
	Concurrent bool
	// Sync puts a file on stable storage. The package calls it if the file system's File has no
	// method Sync() error. The package opens the file before and closes it afterwards.
	Sync func(gobilly.File) error
	// FSID is Attr.FSID of every file; 0 means a hash of Path.
	FSID uint64
}

// FS implements vfs.FileSystem on top of a billy file system.
type FS struct {
	opt      Options
	handler  nfs.Handler
	bfs      gobilly.Filesystem
	change   gobilly.Change // nil if the file system cannot change attributes
	chmod    gobilly.Chmod
	unix     nfs.UnixChange
	readOnly bool
	restless bool // true if times of files change although the files do not
	verifier atomic.Uint64

	// reading is locked before mu: shared by each Read until its data is read, exclusively by calls
	// that may change the file system, unless Options.Concurrent is set. Calls that need neither do not
	// wait behind a read that is slow.
	reading sync.RWMutex
	// mu is locked during every call of the file system, except reads of data: shared by read-only
	// calls, exclusively by calls that may change the file system, and by read-only calls that have to
	// change the tree (see look). mu guards the tree.
	mu    sync.RWMutex
	alone bool // true while mu is locked exclusively
	tree
}

var _ vfs.FileSystem = (*FS)(nil)

// New mounts opt.Path through handler, and returns an FS for the resulting file system. It calls
// Handler.Mount once for all clients, with a connection that carries no data.
func New(handler nfs.Handler, opt Options) (*FS, error) {
	return open(context.Background(), handler, opt)
}

// NewContext is New, but it returns an error that wraps ctx's when ctx ends before the file system is
// mounted. Handler.Mount receives ctx. If the handler or its file system does not return then, the
// goroutine that called it is left behind until it does.
func NewContext(ctx context.Context, handler nfs.Handler, opt Options) (f *FS, err error) {
	opened := make(chan struct{})
	var late struct {
		*FS
		error
	}
	go func() {
		defer close(opened)
		late.FS, late.error = open(ctx, handler, opt)
	}()
	select {
	case <-opened:
		return late.FS, late.error
	case <-ctx.Done():
		return nil, fmt.Errorf("billy: the handler has not mounted %q: %w", cmp.Or(opt.Path, "/"), context.Cause(ctx))
	}
}

func open(ctx context.Context, handler nfs.Handler, opt Options) (*FS, error) {
	opt.Path = cmp.Or(opt.Path, "/")
	conn, _ := net.Pipe()
	conn.Close()
	status, bfs, _ := handler.Mount(ctx, mountConn{conn}, nfs.MountRequest{Dirpath: []byte(opt.Path)})
	if err := context.Cause(ctx); err != nil {
		return nil, err // NewContext has returned: it does not need the file system any more
	}
	if status != nfs.MountStatusOk || bfs == nil {
		return nil, fmt.Errorf("billy: mount of %q: %w", opt.Path, ofStatus(nfs.NFSStatus(status)))
	}
	opt.FSID = cmp.Or(opt.FSID, hash("fsid", opt.Path))
	f := &FS{opt: opt, handler: handler, bfs: bfs, change: handler.Change(bfs)}
	f.chmod, _ = bfs.(gobilly.Chmod)
	if f.change != nil {
		f.chmod = f.change
	}
	f.unix, _ = f.change.(nfs.UnixChange)
	f.readOnly = !gobilly.CapabilityCheck(bfs, gobilly.WriteCapability)
	f.verifier.Store(random())
	if err := f.plant(); err != nil {
		return nil, fmt.Errorf("billy: root %q: %w", bfs.Root(), errno(err))
	}
	if opt.MaxFileSize == 0 && !f.root.inode {
		f.opt.MaxFileSize = DefaultMaxFileSize
	} else if opt.MaxFileSize == 0 || opt.MaxFileSize > math.MaxInt64 {
		f.opt.MaxFileSize = math.MaxInt64
	}
	return f, nil
}

// plant finds the root directory and makes its node. If there is no root, it makes one, because
// some file systems have no root until they have another file.
func (f *FS) plant() error {
	root := f.bfs.Join()
	info, err := f.bfs.Lstat(root)
	if errors.Is(err, fs.ErrNotExist) && !f.readOnly {
		if err = f.bfs.MkdirAll("/", 0o755); err == nil {
			info, err = f.bfs.Lstat(root)
		}
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return syscall.ENOTDIR
	}
	// Some file systems return the present time instead of the time of the last change. For those,
	// the FS keeps the times of changes itself.
	again, err := f.bfs.Lstat(root)
	f.restless = err == nil && !again.ModTime().Equal(info.ModTime())
	f.tree = tree{byHandle: make(map[vfs.Handle]*node), byID: make(map[uint64]*node), life: random(), device: device(info)}
	a := f.shown(info)
	f.root = f.newNode(nil, &a)
	return nil
}

// random returns a random number. No other process is likely to get the same.
func random() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// Root implements vfs.FileSystem.
func (f *FS) Root() vfs.Handle { return f.root.handle }

// Lane implements vfs.FileSystem.
func (f *FS) Lane() any { return f }

// Verifier implements vfs.FileSystem. It also changes when a sync fails, which may lose data.
func (f *FS) Verifier() (v [8]byte) {
	binary.BigEndian.PutUint64(v[:], f.verifier.Load())
	return v
}

// Info implements vfs.FileSystem.
func (f *FS) Info(op *vfs.Op, h vfs.Handle) (vfs.Info, error) {
	info := vfs.Info{
		MaxFileSize:     f.opt.MaxFileSize,
		MaxName:         maxName,
		MaxLink:         1,
		TimeGranularity: vfs.Time{Nsec: 1},
		HardLinks:       f.unix != nil,
		Symlinks:        true,
		CanSetTime:      f.change != nil,
		ReadOnly:        f.readOnly,
	}
	if f.unix != nil {
		info.MaxLink = maxLink
	}
	return info, f.look(op, func() error { _, err := f.find(h); return err })
}

// Usage implements vfs.FileSystem. If FSStat sets nothing, the file system counts as large and empty.
func (f *FS) Usage(op *vfs.Op, h vfs.Handle) (u vfs.Usage, err error) {
	const plenty = 1 << 62
	s := nfs.FSStat{TotalSize: plenty, FreeSize: plenty, AvailableSize: plenty,
		TotalFiles: plenty, FreeFiles: plenty, AvailableFiles: plenty}
	if f.readOnly {
		s.AvailableSize, s.AvailableFiles = 0, 0
	}
	err = f.look(op, func() error {
		if _, err := f.find(h); err != nil {
			return err
		}
		return errno(f.handler.FSStat(context.Background(), f.bfs, &s))
	})
	return vfs.Usage{
		TotalBytes: s.TotalSize, FreeBytes: s.FreeSize, AvailableBytes: s.AvailableSize,
		TotalFiles: s.TotalFiles, FreeFiles: s.FreeFiles, AvailableFiles: s.AvailableFiles,
	}, err
}

// Close implements vfs.FileSystem. Nothing is open between calls.
func (f *FS) Close() error { return nil }

// mountConn is the connection that open passes to Handler.Mount, because no client has connected then.
// Handlers read its addresses. The net.Conn is one end of a closed pipe, so no data can pass.
type mountConn struct{ net.Conn }

func (mountConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (mountConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
