package state

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// openFiles are the files that the clients of one address have open, of those file systems
// that have room for so many.
type openFiles struct {
	opens    map[shown]int // how often
	byDomain map[any]int   // how many files
}

// add counts an open of a file, and remove does no longer.
func (o *openFiles) add(of shown) {
	if o.opens == nil {
		o.opens, o.byDomain = map[shown]int{}, map[any]int{}
	}
	if o.opens[of]++; o.opens[of] == 1 {
		o.byDomain[of.domain]++
	}
}

func (o *openFiles) remove(of shown) {
	if o.opens[of]--; o.opens[of] > 0 {
		return
	}
	delete(o.opens, of)
	if o.byDomain[of.domain]--; o.byDomain[of.domain] == 0 {
		delete(o.byDomain, of.domain)
	}
}

// RoomToOpen says whether c may have a new file of a file system open, before that is made:
// NFS4_OK, or why not.
func (m *Manager) RoomToOpen(c *Client, domain any) Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := mayBegin(c); s != nfs4wire.NFS4OK {
		return s
	}
	if m.crowded(c) {
		return m.full(c)
	}
	return m.mayOpen(c, FileKey{Domain: domain})
}

// mayOpen says whether c may have one more file of a file system open: NFS4_OK, or why not.
// An address has no more than three times what it leaves to others of the room that there
// is; where it has less than half its part even so, clients of the address that has most go.
func (m *Manager) mayOpen(c *Client, key FileKey) Status {
	counter, ok := key.Domain.(vfs.OpenCounter)
	if !ok {
		return nfs4wire.NFS4OK
	}
	o := c.known.origin
	if of := m.files.byID[key.id()]; of != nil && o.files.opens[shown{of, key.Domain}] > 0 {
		return nfs4wire.NFS4OK
	}
	open, most := counter.OpenFiles()
	if open > most/2 && m.sweeper.courteous > 0 && m.sweeper.lack == nil {
		// Files of clients whose leases ran out are closed before there is no room left.
		m.relieve(m.ofFiles(key.Domain, counter), false)
	}
	// A file that is being opened is counted already, and belongs to no client yet: some
	// room is left for those.
	if has := o.files.byDomain[key.Domain]; has+1 > 3*(most-most/8-open) {
		m.relieve(m.ofFiles(key.Domain, counter), has < m.clients.part(most)/2)
		return m.full(c)
	}
	return nfs4wire.NFS4OK
}

func (m *Manager) ofFiles(domain any, counter vfs.OpenCounter) *shortage {
	_, most := counter.OpenFiles()
	return &shortage{
		all: most,
		used: func() int {
			open, _ := counter.OpenFiles()
			return open
		},
		has:   func(o *origin) int { return o.files.byDomain[domain] },
		takes: func(c *Client) int { return c.hasOpen(domain) },
	}
}

// hasOpen is how many files of a file system c has open, those counted often that it opened
// often.
func (c *Client) hasOpen(domain any) (n int) {
	for s := range c.holding.states {
		if s.Kind == KindOpen && s.Key.Domain == domain {
			n++
		}
	}
	return n
}
