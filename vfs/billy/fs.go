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

// DefaultMaxFileSize is the largest size, in bytes, of files on a file system that shows no inode
// numbers. Such file systems usually keep a file in one piece of memory, which a write at a large
// offset would make them allocate.
const DefaultMaxFileSize = 1 << 30

// Options say how a billy file system is served. The zero value is usable.
type Options struct {
	// Path is the directory passed to Handler.Mount; "/" if empty.
	Path string
	// Sole: only clients of this FS change the files, so changes are reported
	// as atomic and clients may keep what they cached.
	Sole bool
	// MaxFileSize is in bytes. 0 means no limit if the file system shows inode numbers, and
	// otherwise DefaultMaxFileSize.
	MaxFileSize uint64
	// Sync puts a file on stable storage if the file system's File has no method Sync() error.
	// The package opens the file for it and closes it afterwards.
	Sync func(gobilly.File) error
	// FSID is Attr.FSID of every file; 0 means a hash of Path.
	FSID uint64
}

// FS implements vfs.FileSystem by a billy file system.
type FS struct {
	opt      Options
	handler  nfs.Handler
	bfs      gobilly.Filesystem
	change   gobilly.Change // nil where nothing can be changed
	chmod    gobilly.Chmod
	unix     nfs.UnixChange
	readOnly bool
	restless bool // the times of files change by themselves
	verifier atomic.Uint64

	// mu is held during every call into the file system, except reads of data. Read-only calls
	// share it. Calls that may change the file system hold it exclusively and also wait for the
	// end of reads. It guards the tree; a read-only call that has to change the tree holds mu
	// exclusively: see look.
	mu      sync.RWMutex
	reading sync.WaitGroup // reads of data in progress; they begin with mu held
	alone   bool           // mu is held exclusively
	tree
}

var _ vfs.FileSystem = (*FS)(nil)

// New mounts opt.Path through handler and serves the result to every client. It calls
// Handler.Mount once, with a connection that carries nothing.
func New(handler nfs.Handler, opt Options) (*FS, error) {
	opt.Path = cmp.Or(opt.Path, "/")
	status, bfs, _ := handler.Mount(context.Background(), newMountConn(), nfs.MountRequest{Dirpath: []byte(opt.Path)})
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

// plant finds the root, or makes it, because some file systems have no root until they have
// another file.
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
	// Some file systems show the time of the look instead of the time of the change. For those,
	// the FS keeps the times of changes itself.
	again, err := f.bfs.Lstat(root)
	f.restless = err == nil && !again.ModTime().Equal(info.ModTime())
	f.tree = tree{byHandle: make(map[vfs.Handle]*node), byID: make(map[uint64]*node), life: random(), device: device(info)}
	a := f.shown(info)
	f.root = f.newNode(nil, &a)
	return nil
}

// random returns a number that no other process uses.
func random() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
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

// Usage implements vfs.FileSystem. If the handler fills nothing in, the file system counts as
// large and empty, as in go-nfs.
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
