package state

import "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// usualMemory is the Config.Memory used when the configuration has 0, in bytes.
const usualMemory = 128 << 20

const (
	// maxFileRanges is the largest number of locked ranges in one file, and maxFileLocks the
	// largest number of stateids that lock parts of it. part returns one client's share of each.
	maxFileRanges = 1 << 16
	maxFileLocks  = 1 << 16
	// maxFileClaims is the largest number of locked ranges of a file for which the Manager makes
	// one claim each towards the processes of this machine. There is a bound, because the kernel
	// walks over all claims of the file for each new one.
	maxFileClaims = 1 << 10
	// maxFileWaiters is the largest number of waiters of one file, and maxWaiters the largest
	// number in all. The server does not notify clients beyond these bounds when their locks
	// become free.
	maxFileWaiters = 1 << 10
	maxWaiters     = 1 << 16
	// maxHindrances is the largest number of locks and other waiters that the Manager checks when
	// a lock becomes free. It does not notify the waiters that it did not reach: they ask again
	// by themselves.
	maxHindrances = 1 << 14
)

// usage counts the state of all clients together.
type usage struct {
	opens, locks, owners, ranges, waiters int
	memory                                int // in bytes
}

// Usage is how much state all clients hold.
type Usage struct {
	// Opens and Locks count stateids. Ranges counts the locked byte ranges. Files counts the open
	// files.
	Opens, Locks, Owners, Ranges, Files, Waiters int
	// Memory is the approximate memory of all this state, in bytes.
	Memory int
}

// The memory that one item of each kind takes, in bytes, its file handle included. The numbers
// are a little larger than the measured ones.
const (
	sizeState = 768
	sizeOwner = 512
	// sizeNumbered is what an owner takes in addition if its requests are numbered: its last
	// reply, and the open that it closed last.
	sizeNumbered = 1 << 10
	// sizeRange includes the kernel's memory for the range, if the range is claimed.
	sizeRange  = 352
	sizeFile   = 384
	sizeWaiter = 256
)

// Usage returns how much state all clients hold.
func (m *Manager) Usage() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.files.usage
	return Usage{
		Opens: n.opens, Locks: n.locks, Owners: n.owners, Ranges: n.ranges, Files: len(m.files.byID), Waiters: n.waiters,
		Memory: n.memory,
	}
}

// charge adds n bytes to what c is reckoned to hold. n may be negative.
func (m *Manager) charge(c *Client, n int) {
	m.files.usage.memory += n
	c.holding.memory += n
	c.known.origin.memory += n
}

// crowded reports whether c may hold nothing more, because the clients of its address already
// hold as much memory as they leave to other addresses. If the address is crowded although it
// holds less than half its part, crowded has the sweep evict clients of the address that holds
// most.
func (m *Manager) crowded(c *Client) bool {
	o := c.known.origin
	if o.memory < m.cfg.Memory-m.files.usage.memory {
		return false
	}
	m.relieve(m.ofMemory(), o.memory < m.clients.part(m.cfg.Memory)/2)
	return true
}

// full returns the status for a client that holds too much. In minor version 0 the client gets a
// final error, unless the sweep is about to make room: it evicts clients without a lease and, if an
// address was refused its part, clients of an address with more than that. The client may then try
// again. The caller holds m.mu.
func (m *Manager) full(c *Client) Status {
	if c.Minor == 0 && m.sweeper.courteous == 0 && !m.sweeper.starved {
		return nfs4wire.NFS4ErrResource
	}
	return nfs4wire.NFS4ErrDelay
}

// A lockCount counts lock stateids and the byte ranges that they lock.
type lockCount struct{ locks, ranges int }

func (n lockCount) and(more lockCount) lockCount {
	return lockCount{n.locks + more.locks, n.ranges + more.ranges}
}

// count adds more to the locks that c, and its address, have in the file.
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

// counted notes that the lock s has n ranges more; n may be negative.
func (m *Manager) counted(s *State, n int) {
	if c := m.files.claims[s.Key]; c != nil {
		c.ranges += n
	}
	m.files.usage.ranges += n
	s.Client.holding.ranges += n
	s.file.count(s.Client, lockCount{ranges: n})
	m.charge(s.Client, n*sizeRange)
}

// mayGrow returns NFS4_OK if c may lock more of a file, or else the status to answer.
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

// part returns the number of items that a client may have, if there may be most items in all. all
// is the number in use by all clients, near the number of the client's address, and has the
// client's own number. An address may have half of the items that other addresses do not use. A
// client may have half of the part of its address that the other clients there do not use.
func part(most, all, near, has int) int {
	address := (most - (all - near)) / 2
	return (address - (near - has)) / 2
}

// overfull returns the status for a client that wants more locks in a file than the server keeps.
// own: the client itself holds most of them, so waiting would not help it.
func overfull(c *Client, own bool) Status {
	switch {
	case c.Minor == 0:
		return nfs4wire.NFS4ErrResource
	case own:
		return nfs4wire.NFS4ErrServerFault
	}
	return nfs4wire.NFS4ErrDelay
}
