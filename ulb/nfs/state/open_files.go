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
	room := openRoomOf(domain)
	g := m.acquire()
	defer g.release()
	if s := g.mayBegin(c); s != nfs4wire.NFS4OK {
		return s
	}
	if g.crowded(c) {
		return g.full(c)
	}
	return g.mayOpen(c, fileID{}, room)
}

// An openRoom is how many files a file system (its domain) had open at one moment, and the most that
// it can open. most is 0 if there is no limit.
type openRoom struct {
	domain     any
	open, most int
}

// openRoomOf asks the file system. The caller does not hold Manager.mu.
func openRoomOf(domain any) openRoom {
	r := openRoom{domain: domain}
	if counter, ok := domain.(vfs.OpenCounter); ok {
		r.open, r.most = counter.OpenFiles()
	}
	return r
}

// mayOpen returns NFS4_OK if c may open this file of the file system, or else the error to answer.
// A file that the clients of the same address have open already does not count again. All clients
// of an address may have at most three times as many open files of a file system as the file system
// can still open; an eighth of the file system's limit is left out of this count. If mayOpen
// refuses c, it makes the sweep free open files: see relieve.
func (g *guard) mayOpen(c *Client, id fileID, r openRoom) Status {
	o := c.known.origin
	if of := g.files.byID[id]; r.most == 0 || of != nil && o.files.opens[shown{of, r.domain}] > 0 {
		return nfs4wire.NFS4OK
	}
	if r.open > r.most/2 && g.sweeper.courteous > 0 && g.sweeper.lack == nil {
		// Let the sweep evict clients without a valid lease already now, while the file system can
		// still open files.
		g.relieve(ofFiles(r), false)
	}
	// The counter already includes files that are being opened and belong to no client yet. An
	// eighth of the limit stays free for them.
	if has := o.files.byDomain[r.domain]; has+1 > 3*(r.most-r.most/8-r.open) {
		g.relieve(ofFiles(r), has < g.clients.part(r.most)/2)
		return g.full(c)
	}
	return nfs4wire.NFS4OK
}

// ofFiles returns the shortage of open files that r shows. The sweep does not ask the file system
// again.
func ofFiles(r openRoom) *shortage {
	return &shortage{
		all: r.most, used: func() int { return r.open },
		has: func(o *origin) int { return o.files.byDomain[r.domain] }, takes: func(c *Client) int { return c.hasOpen(r.domain) },
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
