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

// A request is a read, a write or a flush that the kernel sends to a disk.
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

// A Device is a disk that fails on demand. It is a file of a FUSE file system that this process
// serves. A loop device over this file has the file system under test. The Device serves one
// request at a time.
type Device struct {
	// Image is the path of the file whose content is the content of the disk.
	Image string

	mu       sync.Mutex
	thawed   *sync.Cond
	platter  *platter
	requests int // writes and flushes so far
	// Before the Device serves its write or flush with the number strikeAt, it calls strike, with
	// mu held. If strikeAt is 0, it does not call strike.
	strikeAt int
	strike   func()
	struck   chan struct{} // closed when strike has returned
	// fails, unless nil, returns the error with which a request fails, or 0 if it succeeds.
	fails  func(r request) syscall.Errno
	frozen bool
	// stable has the values, with their places, that flushes have made stable since the last call
	// of insert.
	stable map[stored]bool
	// left is the content of the disk after a power cut, or nil if the power was not cut.
	left *platter
	// off is set before left. If off is not set after a reply has arrived, the reply was sent
	// before the power cut.
	off atomic.Bool
}

// A stored is a value and its place on the disk: see valueOf.
type stored struct {
	value value
	place uint64
}

// isStable reports whether a flush has made this value stable in a slot of a file since the last
// call of insert.
func (d *Device) isStable(v value, file, slot int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stable[stored{v, placeOf(file, slot, 0)}]
}

// NewDevice creates a disk and serves it until the test ends.
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

// insert replaces the content of the disk, resets the counters, and ends all faults. The caller
// ensures that nothing uses the old content.
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

// strikeIn makes the Device call the function strike before it serves the nth write or flush from
// now on.
func (d *Device) strikeIn(n int, strike func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strikeAt, d.strike = d.requests+n, strike
}

// cutLocked cuts the power. Later writes succeed, and the kernel can read them, but they are lost.
// The parameter s determines which of the unflushed writes survive.
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

// freezeLocked makes requests wait until thaw is called.
func (d *Device) freezeLocked() { d.frozen = true }

func (d *Device) thaw() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = false
	d.thawed.Broadcast()
}

// heal makes requests succeed again.
func (d *Device) heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = nil
}

// serve handles a request: it calls the function do to execute the request, or returns an error if
// the Device is to fail it. It waits while the Device is frozen.
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

// An imageFile is the image of the disk, as a file in the FUSE file system. Device.platter has its
// content.
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

// Setattr implements fs.NodeSetattrer. It does not change the size of the disk.
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

// Flush implements fs.NodeFlusher. It makes nothing stable, because it is only a close(2).
func (n *imageFile) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }

// Allocate implements fs.NodeAllocater. It always fails, because the disk supports no holes.
func (n *imageFile) Allocate(context.Context, fs.FileHandle, uint64, uint64, uint32) syscall.Errno {
	return syscall.EOPNOTSUPP
}
