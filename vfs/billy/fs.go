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
	// Sole: only clients of this FS change the files, so changes are reported
	// as atomic and clients may keep what they cached.
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
	// The call during which it panicked fails with EIO.
	Panicked func(v any, stack []byte)
	// FSID is Attr.FSID of every file; 0 for one made of Path.
	FSID uint64
}

// FS is a billy file system behind the seam. It implements vfs.FileSystem.
type FS struct {
	opt      Options
	handler  nfs.Handler        // nil for a bare file system
	bfs      gobilly.Filesystem // entered by call and at
	change   gobilly.Change     // nil where nothing can be changed
	chmod    gobilly.Chmod
	unix     nfs.UnixChange
	readOnly bool
	restless bool // the times of files change by themselves
	panics   atomic.Uint64
	verifier atomic.Uint64

	// mu is held during every call into the file system but the reading of
	// data: shared by calls that only look, exclusively by calls that may change
	// something there, which also wait for the end of reading. It guards all that
	// is known of the files, of which a look notes something new only with mu
	// held exclusively: see look.
	mu      sync.RWMutex
	reading sync.WaitGroup // reads of data in progress; they begin with mu held
	alone   bool           // mu is held exclusively
	quiet   bool           // and no data is being read
	tree
	opened []*openFile
	uses   atomic.Uint64 // of open files, so far
}

var _ vfs.FileSystem = (*FS)(nil)

// New serves what handler mounts for opt.Path. Handler.Mount is called once,
// here, with a connection that carries nothing: see Ask for handlers that
// decide by client.
func New(handler nfs.Handler, opt Options) (*FS, error) {
	if opt.Path == "" {
		opt.Path = "/"
	}
	status, bfs, _ := handler.Mount(context.Background(), newMountConn(), nfs.MountRequest{Dirpath: []byte(opt.Path)})
	if status != nfs.MountStatusOk || bfs == nil {
		return nil, fmt.Errorf("billy: mount of %q: %w", opt.Path, ofStatus(nfs.NFSStatus(status)))
	}
	return start(handler, bfs, handler.Change(bfs), opt)
}

// NewFilesystem serves a file system that has no handler. What can be changed
// is what bfs itself implements of billy.Change and nfs.UnixChange.
func NewFilesystem(bfs gobilly.Filesystem, opt Options) (*FS, error) {
	change, _ := bfs.(gobilly.Change)
	return start(nil, bfs, change, opt)
}

func start(handler nfs.Handler, bfs gobilly.Filesystem, change gobilly.Change, opt Options) (*FS, error) {
	if opt.OpenFiles <= 0 {
		opt.OpenFiles = 64
	}
	if opt.FSID == 0 {
		opt.FSID = hash("fsid", opt.Path)
	}
	f := &FS{opt: opt, handler: handler, bfs: bfs, change: change, chmod: change}
	if change == nil {
		f.chmod, _ = bfs.(gobilly.Chmod)
	}
	f.unix, _ = change.(nfs.UnixChange)
	f.readOnly = !gobilly.CapabilityCheck(bfs, gobilly.WriteCapability)
	var verifier [8]byte
	rand.Read(verifier[:])
	f.verifier.Store(binary.BigEndian.Uint64(verifier[:]))
	if err := f.call(f.plant); err != nil {
		return nil, fmt.Errorf("billy: root %q: %w", bfs.Root(), err)
	}
	if opt.MaxFileSize == 0 {
		f.opt.MaxFileSize = DefaultMaxFileSize
		if f.root.inode {
			f.opt.MaxFileSize = math.MaxInt64
		}
	}
	f.opt.MaxFileSize = min(f.opt.MaxFileSize, math.MaxInt64)
	return f, nil
}

// plant finds the root, and makes it if there is none: some file systems have
// no root before they have anything else.
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
	// Some file systems answer with the time of the look instead of the time of
	// the change: those times are kept here.
	again, err := f.bfs.Lstat(root)
	f.restless = err == nil && !again.ModTime().Equal(info.ModTime())
	f.device = device(info)
	a := f.shown(info)
	f.tree.init(f, &a)
	return nil
}

// Ask asks the handler whether the client at the other end of conn may mount
// Options.Path: for handlers that decide so. Every client gets the file system
// that New got. A client to which the handler would give a file system with
// another root is refused.
func (f *FS) Ask(ctx context.Context, conn net.Conn) error {
	if f.handler == nil {
		return nil
	}
	status, bfs, _ := f.handler.Mount(ctx, conn, nfs.MountRequest{Dirpath: []byte(f.opt.Path)})
	if status != nfs.MountStatusOk {
		return ofStatus(nfs.NFSStatus(status))
	}
	if bfs == nil || bfs.Root() != f.bfs.Root() {
		return syscall.EACCES
	}
	return nil
}

// Root implements vfs.FileSystem.
func (f *FS) Root() vfs.Handle { return f.root.handle }

// Lane implements vfs.FileSystem.
func (f *FS) Lane() any { return f }

// Verifier implements vfs.FileSystem. It changes when a sync failed, because
// what was written may be lost then.
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
		NoTruncate:      true,
		ChownRestricted: true,
		CasePreserving:  true,
		Homogeneous:     true,
		CanSetTime:      f.change != nil,
		ReadOnly:        f.readOnly,
	}
	if f.unix != nil {
		info.MaxLink = maxLink
	}
	return info, f.look(op, func() error { _, err := f.find(h); return err })
}

// Usage implements vfs.FileSystem. A handler that says nothing is taken to
// have a large, empty file system, as go-nfs takes it.
func (f *FS) Usage(op *vfs.Op, h vfs.Handle) (u vfs.Usage, err error) {
	const plenty = 1 << 62
	s := nfs.FSStat{TotalSize: plenty, FreeSize: plenty, AvailableSize: plenty,
		TotalFiles: plenty, FreeFiles: plenty, AvailableFiles: plenty}
	if f.readOnly {
		s.AvailableSize, s.AvailableFiles = 0, 0
	}
	err = f.look(op, func() error {
		if _, err := f.find(h); err != nil || f.handler == nil {
			return err
		}
		return f.call(func() error { return f.handler.FSStat(context.Background(), f.bfs, &s) })
	})
	return vfs.Usage{
		TotalBytes: s.TotalSize, FreeBytes: s.FreeSize, AvailableBytes: s.AvailableSize,
		TotalFiles: s.TotalFiles, FreeFiles: s.FreeFiles, AvailableFiles: s.AvailableFiles,
	}, err
}

// Close implements vfs.FileSystem: every open file is closed.
func (f *FS) Close() error {
	return f.alter(&vfs.Op{}, f.shutAll)
}
