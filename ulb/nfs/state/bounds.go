package state

import "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// usualMemory is Config.Memory where that is 0, in bytes.
const usualMemory = 128 << 20

const (
	// maxFileRanges is how many ranges of one file may be locked, and maxFileLocks by how
	// many stateids: each LOCK looks at the latter, and the kernel at all of the former.
	maxFileRanges = 1 << 14
	maxFileLocks  = 1 << 13
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
	sizeRange  = 288
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

// account adds n ranges to what the lock s holds.
func (m *Manager) account(s *State, n int) {
	m.files.usage.ranges += n
	s.file.ranges += n
	s.Client.holding.ranges += n
	m.charge(s.Client, n*sizeRange)
}

// mayGrow says whether c may have another n ranges of a file: NFS4_OK, or why not.
func (m *Manager) mayGrow(c *Client, of *file, n int) Status {
	switch {
	case of.ranges+n > maxFileRanges:
		return overfull(c)
	case m.crowded(c):
		return m.full(c)
	}
	return nfs4wire.NFS4OK
}

// overfull is what a client is answered that wants more of a file than is kept. To wait
// would not help it.
func overfull(c *Client) Status {
	if c.Minor == 0 {
		return nfs4wire.NFS4ErrResource
	}
	return nfs4wire.NFS4ErrServerFault
}
