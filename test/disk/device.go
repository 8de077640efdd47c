package disk

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// A request is what the kernel asks of a disk.
type request struct {
	kind     requestKind
	at, size int64
}

type requestKind int

const (
	read requestKind = iota
	write
	flush
)

// A Device is a disk whose faults are at will: a file of a FUSE file system that
// this process serves, with a file system in it that is mounted through a loop
// device. Requests are served one after the other.
type Device struct {
	// Image is the path of the file.
	Image string

	mu       sync.Mutex
	thawed   *sync.Cond
	platter  *platter
	requests int // writes and flushes so far
	// strikeAt is the request at which strike is called, with mu held, before the
	// request is served; 0: none.
	strikeAt int
	strike   func()
	struck   chan struct{} // closed when it was
	// fails, unless nil, says what a request ends with.
	fails  func(r request) syscall.Errno
	frozen bool
	// stable are the slots that were flushed at any time.
	stable map[stored]bool
	// left is the disk after its power was cut; nil before.
	left *platter
	// off is set before left is made: a reply that came while it was not set came
	// before the power went.
	off atomic.Bool
}

// stored is a value in its place: see valueOf.
type stored struct {
	value value
	place uint64
}

// isStable says whether a slot with a value was ever flushed.
func (d *Device) isStable(v value, file, slot int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stable[stored{v, placeOf(file, slot, 0)}]
}

// NewDevice serves a disk until the test ends.
func NewDevice(t testing.TB) *Device {
	t.Helper()
	d := &Device{platter: newPlatter(0)}
	d.thawed = sync.NewCond(&d.mu)
	dir := t.TempDir()
	server, err := fs.Mount(dir, &root{device: d}, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, Name: "disk", FsName: "disk", MaxWrite: 1 << 20,
	}})
	if err != nil {
		t.Skipf("FUSE cannot be mounted here: %v", err)
	}
	guard(t, dir)
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Errorf("unmounting the disk: %v", err)
		}
	})
	d.Image = filepath.Join(dir, imageName)
	return d
}

// insert exchanges the disk. Nothing of the former one may be in use.
func (d *Device) insert(p *platter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.platter, d.left = p, nil
	d.stable = make(map[stored]bool)
	p.flushed = func(b *block) {
		if v, place := valueOf(b[:]); v != 0 {
			d.stable[stored{v, place}] = true
		}
	}
	d.requests, d.strikeAt, d.strike, d.fails, d.frozen = 0, 0, nil, nil, false
	d.struck = make(chan struct{})
	d.off.Store(false)
}

// strikeIn has a fault strike at the nth write or flush from now on.
func (d *Device) strikeIn(n int, strike func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strikeAt, d.strike = d.requests+n, strike
}

// cutLocked cuts the power. What is written afterwards is seen, and lost.
func (d *Device) cutLocked(s survivors, r *rand.Rand) {
	if d.left == nil {
		d.off.Store(true)
		d.left = d.platter.cut(s, r)
	}
}

func (d *Device) cut(s survivors, r *rand.Rand) *platter {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutLocked(s, r)
	return d.left
}

// freezeLocked has requests wait until thaw.
func (d *Device) freezeLocked() { d.frozen = true }

func (d *Device) thaw() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = false
	d.thawed.Broadcast()
}

// heal takes away what makes requests fail.
func (d *Device) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = nil
}

// serve is called with each request, and does what serves it, unless that fails.
func (d *Device) serve(r request, do func()) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.kind != read {
		d.requests++
		if d.requests == d.strikeAt {
			d.strike()
			close(d.struck)
		}
	}
	for d.frozen {
		d.thawed.Wait()
	}
	if d.fails != nil {
		if errno := d.fails(r); errno != 0 {
			return errno
		}
	}
	do()
	return 0
}

const imageName = "image"

type root struct {
	fs.Inode
	device *Device
}

// OnAdd implements fs.NodeOnAdder.
func (n *root) OnAdd(ctx context.Context) {
	n.AddChild(imageName, n.NewPersistentInode(ctx, &imageFile{device: n.device}, fs.StableAttr{Mode: fuse.S_IFREG}), true)
}

// An imageFile is the disk as a file.
type imageFile struct {
	fs.Inode
	device *Device
}

// Getattr implements fs.NodeGetattrer.
func (n *imageFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.device.mu.Lock()
	defer n.device.mu.Unlock()
	out.Mode, out.Size = 0o600, uint64(n.device.platter.size)
	return 0
}

// Setattr implements fs.NodeSetattrer: the disk keeps its size.
func (n *imageFile) Setattr(ctx context.Context, f fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return n.Getattr(ctx, f, out)
}

// Open implements fs.NodeOpener.
func (n *imageFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

// Read implements fs.NodeReader.
func (n *imageFile) Read(_ context.Context, _ fs.FileHandle, b []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	p := &n.device.platter
	errno := n.device.serve(request{read, at, int64(len(b))}, func() {
		b = b[:max(0, min(int64(len(b)), (*p).size-at))]
		(*p).read(b, at)
	})
	return fuse.ReadResultData(b), errno
}

// Write implements fs.NodeWriter.
func (n *imageFile) Write(_ context.Context, _ fs.FileHandle, b []byte, at int64) (uint32, syscall.Errno) {
	errno := n.device.serve(request{write, at, int64(len(b))}, func() { n.device.platter.write(b, at) })
	return uint32(len(b)), errno
}

// Fsync implements fs.NodeFsyncer.
func (n *imageFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return n.device.serve(request{kind: flush}, func() { n.device.platter.flush() })
}

// Flush implements fs.NodeFlusher: close(2) makes nothing stable.
func (n *imageFile) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }

// Allocate implements fs.NodeAllocater: the disk knows no holes.
func (n *imageFile) Allocate(context.Context, fs.FileHandle, uint64, uint64, uint32) syscall.Errno {
	return syscall.EOPNOTSUPP
}
