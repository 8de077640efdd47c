package local

import (
	"time"

	"golang.org/x/sys/unix"
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
func (h host) maxNodes() int64 { return h.fs.maxNodes() }
func (h host) pin() error      { return h.fs.pinOne(&h.fs.stats.pinnedNodes) }
func (h host) unpin()          { h.fs.stats.pinnedNodes.Add(-1) }

func (h host) syncNode(n *node, d *durability) (SyncCall, error) { return h.fs.syncNode(n, d) }

func (h host) syncWriter(n *node, d *durability) error {
	f := n.held(true)
	if f == nil {
		return nil
	}
	defer f.put()
	return h.fs.syncAndConfirm(Fsync, f.fd, d, n, f.fd)
}

func (h host) closeIdle(n *node)   { n.dropIdle(0, false) }
func (h host) manyUnsynced() int64 { return h.fs.manyUnsynced() }
func (h host) mostUnsynced() int64 { return h.fs.mostUnsynced() }
