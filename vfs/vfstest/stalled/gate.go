package stalled

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A gate makes the kernel's requests to the serving process wait, or one of them fail, on demand.
// Before a request is served, the serving process calls wait.
type gate struct {
	mu      sync.Mutex
	changed *sync.Cond
	stalled bool
	pass    int // number of requests that still pass while stalled is set
	waiting int // number of requests that wait
	// The request after unhurt more is answered with errno, and not served. If errno is fuse.OK, no
	// request is.
	unhurt int
	errno  fuse.Status
}

func newGate() *gate {
	g := new(gate)
	g.changed = sync.NewCond(&g.mu)
	return g
}

// wait returns fuse.OK when the request may be served. With another result, it must not be served, and
// that is the answer.
func (g *gate) wait() fuse.Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	if errno := g.errno; errno != fuse.OK {
		if g.unhurt--; g.unhurt < 0 {
			g.errno = fuse.OK
			return errno
		}
	}
	if g.stalled && g.pass > 0 {
		g.pass--
		return fuse.OK
	}
	g.waiting++
	for g.stalled {
		g.changed.Wait()
	}
	g.waiting--
	return fuse.OK
}

// fail lets some more requests pass, and answers the next one with errno. It returns 1 if the request of
// an earlier call has not come yet, else 0.
func (g *gate) fail(after int, errno fuse.Status) (pending int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.errno != fuse.OK {
		pending = 1
	}
	g.unhurt, g.errno = after, errno
	return pending
}

// stall lets some more requests pass, as many as the argument says, and makes all later ones wait
// until gate.open is called.
func (g *gate) stall(after int) {
	g.mu.Lock()
	g.stalled, g.pass = true, after
	g.mu.Unlock()
}

func (g *gate) open() {
	g.mu.Lock()
	g.stalled = false
	g.changed.Broadcast()
	g.mu.Unlock()
}

// held returns the number of requests that wait.
func (g *gate) held() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

// gated passes requests to RawFileSystem. For a request whose answer a caller waits for, it first
// calls gate.wait. For a notification (Forget, Release), which no caller waits for, it does not.
type gated struct {
	fuse.RawFileSystem
	gate *gate
}

type cancelled = <-chan struct{}

func (g gated) Lookup(c cancelled, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Lookup(c, h, name, out)
}

func (g gated) GetAttr(c cancelled, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.GetAttr(c, in, out)
}

func (g gated) SetAttr(c cancelled, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.SetAttr(c, in, out)
}

func (g gated) Mknod(c cancelled, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Mknod(c, in, name, out)
}

func (g gated) Mkdir(c cancelled, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Mkdir(c, in, name, out)
}

func (g gated) Unlink(c cancelled, h *fuse.InHeader, name string) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Unlink(c, h, name)
}

func (g gated) Rmdir(c cancelled, h *fuse.InHeader, name string) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Rmdir(c, h, name)
}

func (g gated) Rename(c cancelled, in *fuse.RenameIn, from, to string) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Rename(c, in, from, to)
}

func (g gated) Link(c cancelled, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Link(c, in, name, out)
}

func (g gated) Symlink(c cancelled, h *fuse.InHeader, to, name string, out *fuse.EntryOut) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Symlink(c, h, to, name, out)
}

func (g gated) Readlink(c cancelled, h *fuse.InHeader) ([]byte, fuse.Status) {
	if s := g.gate.wait(); s != fuse.OK {
		return nil, s
	}
	return g.RawFileSystem.Readlink(c, h)
}

func (g gated) Access(c cancelled, in *fuse.AccessIn) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Access(c, in)
}

func (g gated) GetXAttr(c cancelled, h *fuse.InHeader, attr string, to []byte) (uint32, fuse.Status) {
	if s := g.gate.wait(); s != fuse.OK {
		return 0, s
	}
	return g.RawFileSystem.GetXAttr(c, h, attr, to)
}

func (g gated) ListXAttr(c cancelled, h *fuse.InHeader, to []byte) (uint32, fuse.Status) {
	if s := g.gate.wait(); s != fuse.OK {
		return 0, s
	}
	return g.RawFileSystem.ListXAttr(c, h, to)
}

func (g gated) SetXAttr(c cancelled, in *fuse.SetXAttrIn, attr string, data []byte) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.SetXAttr(c, in, attr, data)
}

func (g gated) RemoveXAttr(c cancelled, h *fuse.InHeader, attr string) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.RemoveXAttr(c, h, attr)
}

func (g gated) Create(c cancelled, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Create(c, in, name, out)
}

// Tmpfile returns ENOSYS, because the serving process finds files by name, and this file would
// have none.
func (g gated) Tmpfile(cancelled, *fuse.CreateIn, *fuse.CreateOut) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return fuse.Status(fuse.ENOSYS)
}

func (g gated) Open(c cancelled, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Open(c, in, out)
}

func (g gated) Read(c cancelled, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	if s := g.gate.wait(); s != fuse.OK {
		return nil, s
	}
	return g.RawFileSystem.Read(c, in, buf)
}

func (g gated) Lseek(c cancelled, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Lseek(c, in, out)
}

func (g gated) Write(c cancelled, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	if s := g.gate.wait(); s != fuse.OK {
		return 0, s
	}
	return g.RawFileSystem.Write(c, in, data)
}

// Writev is for servers that accept a request in pieces. This server uses Write.
func (g gated) Writev(cancelled, *fuse.WriteIn, [][]byte) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}

func (g gated) CopyFileRange(c cancelled, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	if s := g.gate.wait(); s != fuse.OK {
		return 0, s
	}
	return g.RawFileSystem.CopyFileRange(c, in)
}

func (g gated) Ioctl(c cancelled, in *fuse.IoctlIn, inbuf []byte, out *fuse.IoctlOut, outbuf []byte) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Ioctl(c, in, inbuf, out, outbuf)
}

func (g gated) Flush(c cancelled, in *fuse.FlushIn) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Flush(c, in)
}

func (g gated) Fsync(c cancelled, in *fuse.FsyncIn) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Fsync(c, in)
}

func (g gated) Fallocate(c cancelled, in *fuse.FallocateIn) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Fallocate(c, in)
}

func (g gated) OpenDir(c cancelled, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.OpenDir(c, in, out)
}

func (g gated) ReadDir(c cancelled, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.ReadDir(c, in, out)
}

func (g gated) ReadDirPlus(c cancelled, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.ReadDirPlus(c, in, out)
}

func (g gated) FsyncDir(c cancelled, in *fuse.FsyncIn) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.FsyncDir(c, in)
}

func (g gated) StatFs(c cancelled, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.StatFs(c, in, out)
}

func (g gated) Statx(c cancelled, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	if s := g.gate.wait(); s != fuse.OK {
		return s
	}
	return g.RawFileSystem.Statx(c, in, out)
}
