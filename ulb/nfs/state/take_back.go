package state

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/fair"
)

// This file takes single opens from clients with valid leases, if a resource ran out for a client within its
// part. A fair.Tree of the resource says from which client. Opens without locks go before those with locks.
// Their stateids are revoked as by RevokeExport, so their clients learn of it.

// mostTaken is the largest number of opens that one sweep takes: they share one wait for the disk.
const mostTaken = 256

// A loser has to lose an open: client, or if that is nil a client of the address origin.
type loser struct {
	client *Client
	origin *origin
}

// memoryLoser returns the client that loses state so that c gets more memory. It returns false if there is none,
// or if that client has the address of c and no revoked stateids: the clients of one address take no opens from
// each other.
func (g *guard) memoryLoser(c *Client) (loser, bool) {
	v := g.files.memory.Victim(&c.holding.place, sizeMost)
	if v == nil || v.Of.known.origin == c.known.origin && v.Surplus() == 0 {
		return loser{}, false
	}
	return loser{client: v.Of}, true
}

// filesLoser returns the address that loses an open file of a file system so that c can open one. It returns
// false if there is no other one than that of c.
func (g *guard) filesLoser(c *Client, r openRoom) (loser, bool) {
	t := g.files.room(r)
	if t == nil {
		return loser{}, false
	}
	v := t.Victim(c.known.origin.files.node(c, r.domain), 1)
	if v == nil || v.Of == c.known.origin {
		return loser{}, false
	}
	return loser{origin: v.Of}, true
}

// clientsOf returns the clients that l stands for.
func (g *guard) clientsOf(l loser) (all []*Client) {
	if l.client != nil {
		return []*Client{l.client}
	}
	for _, c := range g.clients.byID {
		if c.known.origin == l.origin {
			all = append(all, c)
		}
	}
	return all
}

// expendable returns the opens of the clients that the shortage is about, in the order in which they are
// taken: those without locks first, and first those of the client with the most state.
func (lack *shortage) expendable(clients []*Client) (all []*State) {
	for _, c := range clients {
		for s := range c.holding.states {
			if s.Kind == KindOpen && (lack.domain == nil || s.Key.Domain == lack.domain) {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *State) int {
		return cmp.Or(cmp.Compare(min(1, len(a.locks)), min(1, len(b.locks))),
			cmp.Compare(len(b.Client.holding.states), len(a.Client.holding.states)))
	})
	return all
}

// takings are what a sweep takes: the opens, with the memory that each of them frees, and the clients that it
// removes because they hold only memory.
type takings struct {
	opens   map[*State]int
	clients []*Client
	by      netip.Addr
	// left is the number of states of an owner that stay.
	left map[*Owner]int
}

// toTake chooses what the sweep takes because of a shortage. Revoked stateids go first: it forgets them.
func (g *guard) toTake(lack *shortage) takings {
	all := takings{opens: make(map[*State]int), left: make(map[*Owner]int), by: lack.by}
	left := make(map[loser][]*State)
	for len(all.opens) < mostTaken && lack.short(len(all.opens)) {
		l, ok := lack.loser()
		if !ok {
			break
		}
		if c := l.client; c != nil && len(c.holding.revoked) > 0 {
			if g.now()-c.holding.lost < tellWithin {
				break // the client that is short of memory repeats its request
			}
			g.forgetRevoked(c)
			continue
		}
		opens, known := left[l]
		if !known {
			opens = lack.expendable(g.clientsOf(l))
		}
		if len(opens) == 0 {
			if !known && l.client != nil { // the client holds only owners
				all.clients = []*Client{l.client}
			}
			break
		}
		s := opens[0]
		left[l] = opens[1:]
		all.opens[s] = all.frees(s)
		g.count(s, -all.opens[s]) // so that the next loser is the one that then has most
	}
	for s, size := range all.opens {
		g.count(s, size)
	}
	return all
}

// tellWithin is the time that a client has to learn that stateids were revoked, and to free them. After that time the
// server forgets them if memory is short, and the client gets NFS4ERR_BAD_STATEID for them.
const tellWithin = time.Second

// forgetRevoked forgets the revoked stateids of a client. The client can reclaim nothing after a restart (pardon),
// because it may not know what it has lost.
func (g *guard) forgetRevoked(c *Client) {
	c.known.reclaim.untold = true
	for s := range c.holding.revoked {
		g.acknowledge(s)
	}
}

// frees returns the memory of the open s, of its locks, and of the owners that hold nothing without them. The
// stateids stay as revoked ones, but frees does not subtract their memory: if it did, a client with more of them than
// its part would lose all that it has.
func (all *takings) frees(s *State) int {
	size := s.size() + all.ends(s.Owner, len(s.Owner.states))
	for _, lock := range s.locks {
		size += lock.size() + len(lock.held.Ranges())*sizeRange + all.ends(lock.Owner, len(lock.Owner.own))
	}
	return size
}

// ends notes that o, which had n states before the sweep, loses one more. If that is the last one, ends returns the
// memory of o.
func (all *takings) ends(o *Owner, n int) int {
	left, known := all.left[o]
	if !known {
		left = n
	}
	if all.left[o] = left - 1; left == 1 && !o.Client.numbered() {
		return o.size()
	}
	return 0
}

// count adds the open s and its memory, size, to the trees of resources, or removes both if size is negative.
func (g *guard) count(s *State, size int) {
	g.charge(s.Client, size)
	if size < 0 {
		s.Client.known.origin.files.remove(&g.files, s.shown())
	} else {
		s.Client.known.origin.files.add(&g.files, s.Client, s.shown())
	}
}

// takeAway takes what toTake has chosen. It waits for the disk, and the caller holds no lock.
func (m *Manager) takeAway(all takings) {
	if len(all.opens) == 0 {
		return
	}
	took := make(map[*Client]int)
	for s := range all.opens {
		took[s.Client]++
	}
	losers := make([]*Client, 0, len(took))
	for c := range took {
		losers = append(losers, c)
	}
	m.take(losers, func(s *State) bool { return all.opens[s] > 0 }, nil)
	g := m.acquire()
	for _, c := range losers {
		g.events = append(g.events, &Event{Kind: Reduced, Clients: []Record{g.recordOf(c)}, By: all.by, Opens: took[c]})
	}
	g.release()
}

// openFiles counts the files that the clients of one address have open.
type openFiles struct {
	opens    map[shown]int               // opens of each file
	byDomain map[any]*fair.Node[*origin] // its places in files.open: open files of each file system
}

// node returns the place of the address of c in the tree of a file system, or one that is in no tree.
func (o *openFiles) node(c *Client, domain any) *fair.Node[*origin] {
	if n := o.byDomain[domain]; n != nil {
		return n
	}
	return &fair.Node[*origin]{Of: c.known.origin, Address: c.known.address}
}

// open returns how many files of a file system the clients of the address have open.
func (o *openFiles) open(domain any) int {
	if n := o.byDomain[domain]; n != nil {
		return int(n.Held())
	}
	return 0
}

// add counts one more open of a file, by c.
func (o *openFiles) add(all *files, c *Client, of shown) {
	if o.opens == nil {
		o.opens, o.byDomain = map[shown]int{}, map[any]*fair.Node[*origin]{}
	}
	if o.opens[of]++; o.opens[of] > 1 {
		return
	}
	t := all.open[of.domain]
	if t == nil {
		t = &fair.Tree[*origin]{}
		all.open[of.domain] = t
	}
	n := o.node(c, of.domain)
	o.byDomain[of.domain] = n
	t.Add(n, 1, 0)
}

func (o *openFiles) remove(all *files, of shown) {
	if o.opens[of]--; o.opens[of] > 0 {
		return
	}
	delete(o.opens, of)
	t, n := all.open[of.domain], o.byDomain[of.domain]
	if t.Add(n, -1, 0); n.Held() == 0 {
		delete(o.byDomain, of.domain)
	}
	if t.Held() == 0 {
		delete(all.open, of.domain)
	}
}

// room returns the tree of the open files of a file system, of which an eighth stays free for files that are
// being opened and belong to no client yet. It returns nil if no client has one open.
func (all *files) room(r openRoom) *fair.Tree[*origin] {
	t := all.open[r.domain]
	if t != nil {
		t.Size = int64(r.most - r.most/8)
	}
	return t
}
