package state

import "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// usualMemory is Config.Memory where that is 0, in bytes.
const usualMemory = 128 << 20

const (
	// maxFileRanges is how many ranges of one file may be locked, and maxFileLocks by how
	// many stateids. The clients of one address may have as many of either as they leave to
	// others, and a client as many as it leaves to the others of its address.
	maxFileRanges = 1 << 16
	maxFileLocks  = 1 << 16
	// maxFileClaims is how many locked ranges of a file are claimed one by one towards the
	// processes of this machine: with each claim the kernel looks at all of the file.
	maxFileClaims = 1 << 10
	// maxFileWaiters is how many locks may be waited for in one file, and maxWaiters
	// in all: those beyond are not told when they could be had.
	maxFileWaiters = 1 << 10
	maxWaiters     = 1 << 16
	// maxHindrances is how many locks and other waiters are looked at when something
	// becomes free. Waiters that are not looked at for that reason are not told that they
	// could have their lock: they ask again by themselves.
	maxHindrances = 1 << 14
)

// usage is what is held, by all clients together.
type usage struct {
	opens, locks, owners, ranges, waiters int
	memory                                int // bytes
}

// Usage is how much state clients hold.
type Usage struct {
	// Opens and Locks are stateids, Ranges what the locks consist of. Files are those
	// that are open.
	Opens, Locks, Owners, Ranges, Files, Waiters int
	// Memory is about how much all of it takes, in bytes.
	Memory int
}

// What one of each takes in memory, in bytes, handles included. It is a little
// more than was measured.
const (
	sizeState = 768
	sizeOwner = 512
	// sizeNumbered is what an owner takes more whose requests are numbered: its last
	// reply, and the open that it closed last.
	sizeNumbered = 1 << 10
	// sizeRange is with what the kernel has of it, where it is claimed.
	sizeRange  = 352
	sizeFile   = 384
	sizeWaiter = 256
)

// Usage says how much state clients hold.
func (m *Manager) Usage() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.files.usage
	return Usage{
		Opens: n.opens, Locks: n.locks, Owners: n.owners, Ranges: n.ranges, Files: len(m.files.byID), Waiters: n.waiters,
		Memory: n.memory,
	}
}

// charge notes that c holds n bytes more, or with n below 0, less.
func (m *Manager) charge(c *Client, n int) {
	m.files.usage.memory += n
	c.holding.memory += n
	c.known.origin.memory += n
}

// crowded says that c may hold nothing more: the clients of its address hold as much as
// they leave to those of others. Where it holds less than half its part even so, clients of
// the address that holds most go.
func (m *Manager) crowded(c *Client) bool {
	o := c.known.origin
	if o.memory < m.cfg.Memory-m.files.usage.memory {
		return false
	}
	m.relieve(m.ofMemory(), o.memory < m.clients.part(m.cfg.Memory)/2)
	return true
}

// full is what a client is answered that holds too much. In minor version 0 that is an end,
// unless there are clients whose leases ran out: these go, and the client may come again.
// It is called with m.mu held.
func (m *Manager) full(c *Client) Status {
	if c.Minor == 0 && m.sweeper.courteous == 0 {
		return nfs4wire.NFS4ErrResource
	}
	return nfs4wire.NFS4ErrDelay
}

// A lockCount counts stateids of locks, and the ranges that they stand for.
type lockCount struct{ locks, ranges int }

func (n lockCount) and(more lockCount) lockCount {
	return lockCount{n.locks + more.locks, n.ranges + more.ranges}
}

// count adds to what c has locked of the file.
func (of *file) count(c *Client, more lockCount) {
	if of.by == nil {
		of.by = make(map[any]lockCount)
	}
	of.held = of.held.and(more)
	for _, who := range [...]any{c, c.known.origin} {
		has := of.by[who].and(more)
		if of.by[who] = has; has == (lockCount{}) {
			delete(of.by, who)
		}
	}
}

// relock has change change what the lock s holds of r, and nothing else of it but that a
// range may become one with those that it touches.
func (m *Manager) relock(s *State, r byteRange, change func(ranges) ranges) {
	of := s.file
	for _, was := range s.ranges.touching(r) {
		of.locked.remove(s, was.start)
	}
	before := len(s.ranges)
	s.ranges = change(s.ranges)
	for _, is := range s.ranges.touching(r) {
		of.locked.add(s, is)
	}
	n := len(s.ranges) - before
	if c := m.files.claims[s.Key]; c != nil {
		c.ranges += n
	}
	m.files.usage.ranges += n
	s.Client.holding.ranges += n
	of.count(s.Client, lockCount{ranges: n})
	m.charge(s.Client, n*sizeRange)
}

// mayGrow says whether c may have more locked of a file: NFS4_OK, or why not.
func (m *Manager) mayGrow(c *Client, of *file, more lockCount) Status {
	has, near := of.by[c], of.by[c.known.origin]
	switch {
	case has.ranges+more.ranges > part(maxFileRanges, of.held.ranges, near.ranges, has.ranges):
		return overfull(c, 2*has.ranges > of.held.ranges)
	case more.locks > 0 && has.locks+more.locks > part(maxFileLocks, of.held.locks, near.locks, has.locks):
		return overfull(c, 2*has.locks > of.held.locks)
	case m.crowded(c):
		return m.full(c)
	}
	return nfs4wire.NFS4OK
}

// part is how many of most things a client may have that has some, where clients of its address
// have near, and all clients have all: as many as it leaves to the others of its address, of
// those that the address leaves to other addresses.
func part(most, all, near, has int) int {
	address := (most - (all - near)) / 2
	return (address - (near - has)) / 2
}

// overfull is what a client is answered that wants more of a file than is kept. own: it has
// most of that itself, so that to wait would not help it.
func overfull(c *Client, own bool) Status {
	switch {
	case c.Minor == 0:
		return nfs4wire.NFS4ErrResource
	case own:
		return nfs4wire.NFS4ErrServerFault
	}
	return nfs4wire.NFS4ErrDelay
}
