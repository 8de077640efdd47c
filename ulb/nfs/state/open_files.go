package state

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// openFiles counts the files that the clients of one address have open.
type openFiles struct {
	opens    map[shown]int // opens of each file
	byDomain map[any]int   // open files of each file system
}

// add counts one more open of a file.
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

// RoomToOpen returns NFS4_OK if c may open a new file of the file system with this domain (see
// DomainOf), or else the error to answer. A caller asks before it creates the file.
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

// mayOpen returns NFS4_OK if c may open the file of this key, or else the error to answer. A file
// that the clients of the same address have open already does not count again. All clients of an
// address may have at most three times as many open files of a file system as the file system can
// still open; an eighth of the file system's limit is left out of this count. If mayOpen refuses c,
// it makes the sweep free open files: see relieve.
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
		// Let the sweep evict clients without a valid lease already now, while the file system can
		// still open files.
		m.relieve(m.ofFiles(key.Domain, counter), false)
	}
	// The counter already includes files that are being opened and belong to no client yet. An
	// eighth of the limit stays free for them.
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

// hasOpen returns the number of opens that c has in a file system.
func (c *Client) hasOpen(domain any) (n int) {
	for s := range c.holding.states {
		if s.Kind == KindOpen && s.Key.Domain == domain {
			n++
		}
	}
	return n
}
