package memfs

import (
	"crypto/rand"
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// Limits of this file system.
const (
	maxName     = 255
	maxLink     = 1 << 16
	maxText     = 4095 // bytes in the text of a symlink
	maxFileSize = math.MaxInt64
)

// Defaults of Options.
const (
	DefaultBytes = 1 << 30
	DefaultFiles = 1 << 20
)

// Options configures New. The zero value is usable.
type Options struct {
	// Bytes is the maximum total size of the files' data and extended attributes, in bytes; 0
	// means DefaultBytes. Calls that need more fail with ENOSPC.
	Bytes uint64
	// Files is the maximum number of files; 0 means DefaultFiles.
	Files uint64
	// FSID is Attr.FSID of every file; 0 means a random one.
	FSID uint64
	// RootMode, RootUID and RootGID are the root directory's mode, owner and group. Mode 0 means
	// 0755.
	RootMode         uint32
	RootUID, RootGID uint32
	// If Unsynced is set, the FS remembers which data is not synced, so that Crash can lose it. A
	// Write is then only as stable as its caller asked.
	Unsynced bool
}

// FS is a file system in memory. It implements vfs.FileSystem.
type FS struct {
	opt      Options
	key      uint64 // the first 8 bytes of every handle
	root     *node
	nodes    nodeTable
	lastID   atomic.Uint64
	files    atomic.Int64
	bytes    atomic.Int64
	verifier atomic.Uint64
	// A rename between two directories locks renames, so that no other rename gives a directory
	// another parent meanwhile.
	renames sync.Mutex
	// If Options.Unsynced is set, every call with an Op locks world shared (ReadDir only at its
	// start), and Crash locks it exclusively.
	world  sync.RWMutex
	faults atomic.Pointer[faults]
	// failing is locked while faults is created.
	failing sync.Mutex
}

var _ vfs.FileSystem = (*FS)(nil)

// New makes an empty file system: a root directory with nothing in it.
func New(opt Options) *FS {
	if opt.Bytes == 0 {
		opt.Bytes = DefaultBytes
	}
	opt.Bytes = min(opt.Bytes, math.MaxInt64)
	if opt.Files == 0 {
		opt.Files = DefaultFiles
	}
	opt.Files = min(opt.Files, math.MaxInt64)
	if opt.RootMode == 0 {
		opt.RootMode = 0o755
	}
	if opt.FSID == 0 {
		opt.FSID = random()
	}
	f := &FS{opt: opt, key: random()}
	f.verifier.Store(random())
	f.files.Add(1)
	f.root = f.newNode(vfs.Directory, opt.RootMode, opt.RootUID, opt.RootGID, f.now())
	f.root.dir = newDirectory(f.root)
	f.root.attr.Nlink = 2
	f.nodes.put(f.root)
	return f
}

func random() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) | 1
}

func (f *FS) now() vfs.Time {
	t := time.Now()
	return vfs.Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
}

// reserve takes n bytes of the free space. If there is less, it takes nothing and returns false.
func (f *FS) reserve(n int) bool {
	if f.bytes.Add(int64(n)) > int64(f.opt.Bytes) {
		f.bytes.Add(-int64(n))
		return false
	}
	return true
}

// Root implements vfs.FileSystem.
func (f *FS) Root() vfs.Handle { return f.handle(f.root) }

// Lane implements vfs.FileSystem.
func (f *FS) Lane() any { return f }

// Info implements vfs.FileSystem.
func (f *FS) Info(op *vfs.Op, h vfs.Handle) (vfs.Info, error) {
	if err := f.enter(op, Info); err != nil {
		return vfs.Info{}, err
	}
	defer f.leave()
	if _, err := f.find(h); err != nil {
		return vfs.Info{}, err
	}
	return vfs.Info{
		MaxFileSize:     maxFileSize,
		MaxName:         maxName,
		MaxLink:         maxLink,
		TimeGranularity: vfs.Time{Nsec: 1},
		HardLinks:       true,
		Symlinks:        true,
		CanSetTime:      true,
	}, nil
}

// Usage implements vfs.FileSystem.
func (f *FS) Usage(op *vfs.Op, h vfs.Handle) (vfs.Usage, error) {
	if err := f.enter(op, Usage); err != nil {
		return vfs.Usage{}, err
	}
	defer f.leave()
	if _, err := f.find(h); err != nil {
		return vfs.Usage{}, err
	}
	u := vfs.Usage{TotalBytes: f.opt.Bytes, TotalFiles: f.opt.Files}
	u.FreeBytes = u.TotalBytes - min(u.TotalBytes, uint64(max(f.bytes.Load(), 0)))
	u.FreeFiles = u.TotalFiles - min(u.TotalFiles, uint64(max(f.files.Load(), 0)))
	u.AvailableBytes, u.AvailableFiles = u.FreeBytes, u.FreeFiles
	return u, nil
}

// Verifier implements vfs.FileSystem.
func (f *FS) Verifier() (v [8]byte) {
	binary.LittleEndian.PutUint64(v[:], f.verifier.Load())
	return v
}

// Close implements vfs.FileSystem. The garbage collector frees the memory.
func (f *FS) Close() error { return nil }
