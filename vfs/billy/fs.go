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
	// Sync puts a file on stable storage, where the file system's File has no
	// method Sync() error. The file was opened anew, and is closed afterwards.
	Sync func(gobilly.File) error
	// FSID is Attr.FSID of every file; 0 for one made of Path.
	FSID uint64
}

// FS is a billy file system behind the seam. It implements vfs.FileSystem.
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

	// mu is held during every call into the file system but the reading of
	// data: shared by calls that only look, exclusively by calls that may change
	// something there, which also wait for the end of reading. It guards the
	// tree, of which a look notes something new only with mu held exclusively:
	// see look.
	mu      sync.RWMutex
	reading sync.WaitGroup // reads of data in progress; they begin with mu held
	alone   bool           // mu is held exclusively
	tree
}

var _ vfs.FileSystem = (*FS)(nil)

// New serves what handler mounts for opt.Path. Handler.Mount is called once,
// here, with a connection that carries nothing, and what it mounts is served to
// every client.
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
	f.tree = tree{byHandle: make(map[vfs.Handle]*node), byID: make(map[uint64]*node), life: random(), device: device(info)}
	a := f.shown(info)
	f.root = f.newNode(nil, &a)
	return nil
}

// random is a number that no other process has.
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
