package state

import "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// usualMemory is Config.Memory where that is 0, in bytes.
const usualMemory = 128 << 20

// clientPart: one client may hold this part of the memory, so that none can take all.
const clientPart = 2

const (
	// maxFileWaiters is how many locks may be waited for in one file, and maxWaiters
	// in all: those beyond are not told when they could be had.
	maxFileWaiters = 1 << 10
	maxWaiters     = 1 << 16
)

// usage is what is held, by all clients together.
type usage struct {
	opens, locks, owners, ranges, waiters int
	names                                 int // bytes of owners' names
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
	sizeState  = 640
	sizeOwner  = 512
	sizeRange  = 32
	sizeFile   = 384
	sizeWaiter = 256
)

// Usage says how much state clients hold.
func (m *Manager) Usage() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.files.usage
	return Usage{
		Opens: n.opens, Locks: n.locks, Owners: n.owners, Ranges: n.ranges, Files: len(m.files.byKey), Waiters: n.waiters,
		Memory: m.memory(),
	}
}

// memory is about how much all state takes, in bytes.
func (m *Manager) memory() int {
	n := m.files.usage
	return (n.opens+n.locks)*sizeState + n.owners*sizeOwner + n.names + n.ranges*sizeRange +
		len(m.files.byKey)*sizeFile + n.waiters*sizeWaiter
}

// memory is about how much h takes, in bytes.
func (h *holdings) memory() int {
	return len(h.states)*(sizeState+sizeFile) + (len(h.openOwners)+len(h.lockOwners))*sizeOwner + h.names + h.ranges*sizeRange
}

// crowded says that c may hold nothing more, or nobody may.
func (m *Manager) crowded(c *Client) bool {
	return c.holding.memory() >= m.cfg.Memory/clientPart || m.memory() >= m.cfg.Memory
}

// full is what a client is answered that holds too much, or where all do.
func full(c *Client) Status {
	if c.Minor == 0 {
		return nfs4wire.NFS4ErrResource
	}
	return nfs4wire.NFS4ErrDelay
}

// account adds n ranges to what the lock s holds.
func (m *Manager) account(s *State, n int) {
	s.Client.holding.ranges += n
	m.files.usage.ranges += n
}

// mayGrow says whether another n ranges of c may be kept.
func (m *Manager) mayGrow(c *Client, n int) bool { return n <= 0 || !m.crowded(c) }
