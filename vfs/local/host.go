package local

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A host gives the nodes of an FS, and its syncer, what they need from the FS and from the kernel.
type host struct{ fs *FS }

var (
	_ nodeHost = host{}
	_ disk     = host{}
)

func (h host) now() time.Time { return h.fs.now() }

func (h host) fstat(fd int) (st unix.Stat_t, err error) {
	err = h.fs.kind.fstat(fd, &st)
	return st, err
}

func (h host) close(n *node) {
	n.memory.forget(h.fs)
	unix.Close(n.fd)
}

func (h host) closeFD(fd int)  { unix.Close(fd) }
func (h host) maxNodes() int64 { return h.fs.holdings.mostNodes() }
func (h host) pin() error      { return h.fs.holdings.pin(&h.fs.holdings.pinnedNodes) }
func (h host) unpin()          { h.fs.holdings.pinnedNodes.Add(-1) }

// daemonOp is the Op of calls that the daemon makes on its own behalf.
var daemonOp = vfs.Op{Cred: func() *vfs.Cred { c := Identity(); return &c }()}

// syncNode syncs n through its writable descriptor if it has one, because only the descriptor that wrote
// the data is sure to get the error of a failure. If n is nil or cannot be opened, syncNode syncs the
// whole file system. If n was removed, it syncs nothing.
func (h host) syncNode(n *node, d *durability) (SyncCall, error) {
	fs := h.fs
	if n != nil {
		f, err := n.held(true), error(nil)
		if f == nil {
			f, err = fs.file(&daemonOp, n, false)
		}
		if err == nil {
			defer f.put()
			return Fsync, fs.syncs.callAndConfirm(Fsync, f.fd, d, n.inode)
		}
		var st unix.Stat_t
		if fs.kind.links && sysFstat(n.fd, &st) == nil && st.Nlink == 0 {
			return Fsync, nil
		}
	}
	return fs.syncs.all(d, fs.root.inode)
}

func (h host) syncWriter(n *node, d *durability) error {
	f := n.held(true)
	if f == nil {
		return nil
	}
	defer f.put()
	return h.fs.syncs.callAndConfirm(Fsync, f.fd, d, n.inode)
}

func (h host) closeIdle(n *node)   { n.dropIdle(0, false) }
func (h host) manyUnsynced() int64 { return h.fs.holdings.manyUnsynced() }
func (h host) mostUnsynced() int64 { return h.fs.holdings.mostUnsynced() }
