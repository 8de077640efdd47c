package local

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// groupCommit makes changes of names and attributes durable for all callers
// that ask at the same time: while one round is at the disk the next one
// collects. A round syncs each directory and file in it once.
//
// What is to be synced: a directory for its names, a file for its attributes;
// a file that was just made as well, unless the file system's log holds both in
// one transaction (ext4, XFS). Both directories of a rename.
type groupCommit struct {
	fs    *FS
	turn  chan struct{} // holds one token: the goroutine that has it runs the round
	mu    sync.Mutex
	round *commitRound
}

type commitRound struct {
	nodes   map[*node]struct{}
	waiting int  // callers
	whole   bool // something in it has no descriptor that could be synced
	done    chan struct{}
	err     error
}

// abreast is how many syncs of a round run at once: the disk's cache is then
// flushed for several of them together.
const abreast = 8

func (g *groupCommit) init(fs *FS) {
	g.fs = fs
	g.turn = make(chan struct{}, 1)
}

// durable returns when the changes made to nodes are durable, at once where the
// FS or the caller does not ask for that. The nodes are not put.
func (fs *FS) durable(op *vfs.Op, nodes ...*node) error {
	if !fs.cfg.Sync || op.Async {
		return nil
	}
	g := &fs.names
	g.mu.Lock()
	if g.round == nil {
		g.round = &commitRound{nodes: make(map[*node]struct{}), done: make(chan struct{})}
	}
	r := g.round
	r.waiting++
	for _, n := range nodes {
		switch n.typ {
		case vfs.Regular, vfs.Directory:
			r.nodes[n] = struct{}{}
		default:
			r.whole = true
		}
	}
	g.mu.Unlock()
	select {
	case <-r.done:
	case g.turn <- struct{}{}:
		g.mu.Lock()
		mine := g.round == r
		if mine {
			g.round = nil
		}
		g.mu.Unlock()
		if mine {
			r.err = g.run(r)
			close(r.done)
		}
		<-g.turn
		<-r.done
	}
	return r.err
}

// run syncs what is in the round. The callers wait, and hold the nodes.
func (g *groupCommit) run(r *commitRound) error {
	g.fs.stats.rounds.Add(1)
	if r.whole {
		if g.fs.sync(Syncfs, g.fs.mount) != nil {
			return g.fs.syncFailed()
		}
		return nil
	}
	var failed atomic.Bool
	if len(r.nodes) == 1 {
		for n := range r.nodes {
			failed.Store(g.fs.syncName(n) != nil)
		}
	} else {
		work := make(chan *node)
		var wg sync.WaitGroup
		for range min(abreast, len(r.nodes)) {
			wg.Go(func() {
				for n := range work {
					if g.fs.syncName(n) != nil {
						failed.Store(true)
					}
				}
			})
		}
		for n := range r.nodes {
			work <- n
		}
		close(work)
		wg.Wait()
	}
	if failed.Load() {
		return g.fs.syncFailed()
	}
	return nil
}

// syncName makes a node durable with its attributes, or its names if it is a
// directory. One that has been removed meanwhile needs nothing: the round has
// its directory.
func (fs *FS) syncName(n *node) error {
	if n.typ == vfs.Regular {
		since := n.data.failures.Load()
		n.wrote() // attributes count as a write: a call that runs already may miss them
		return fs.syncData(n, true, since)
	}
	f, err := fs.file(&daemonOp, n, false)
	if err != nil {
		var st unix.Stat_t
		if fstat(n.fd, &st) == nil && st.Nlink == 0 {
			return nil
		}
		return fs.sync(Syncfs, fs.mount)
	}
	defer f.put()
	return fs.sync(Fsync, f.fd)
}
