package state

import (
	"iter"
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
)

// This file lists for the administrator what clients hold. A list is made in pieces: the Manager's mutex is free
// between two pieces, and each piece does little (pieceSteps), so that a list of many opens delays no request. So a
// list is no snapshot: it has everything that exists from its beginning to its end, and may have what begins or ends
// meanwhile.

// pieceSteps is the number of steps after which a piece ends: it looks at one stateid, range or client in each. A
// piece that meets an open with waiters goes on until it has looked at all waiters of the file (maxFileWaiters).
const pieceSteps = 256

// A ClientEntry describes one client.
type ClientEntry struct {
	Client    *Client
	Confirmed bool
	// Silent is the time since the client last renewed its lease. A host has no lease: its time counts from its last lock.
	Silent time.Duration
	// Expired is true if the lease has run out, so that the state of the client goes to others that want it.
	Expired bool
	// Sessions, Running, Opens, Locks, Ranges and Waiting count the client's sessions, its requests that the server is
	// executing, its open and its lock stateids, the byte ranges that it has locked, and those for which it waits.
	Sessions, Running, Opens, Locks, Ranges, Waiting int
	// Revoked counts the stateids that the server took away and the client has not freed.
	Revoked int
	// Memory is the memory of the client's state, in bytes.
	Memory int
}

// An OpenEntry describes what one open-owner has open in a file.
type OpenEntry struct {
	Client       *Client
	Owner        string
	ID           StateID
	Key          FileKey
	Export       uint32
	Access, Deny Access
	// Locks counts the lock stateids that hang on the open.
	Locks int
	// Revoked is true if the server took the open away, and the client has not freed its stateid. Access and Deny are 0 then.
	Revoked bool
}

// A LockEntry describes a byte range that one lock-owner has locked, or for which it waits.
type LockEntry struct {
	Client *Client
	Owner  string
	Key    FileKey
	Export uint32
	Range  byterange.Range
	// Waits is true if the owner does not have the lock, but waits for it, and has last asked for it at Asked. By then is the
	// client of a lock that is in the way, and ByOwner its owner. By is nil if none is: the lock has just become free,
	// an earlier waiter comes first, or a process of this machine has it.
	Waits   bool
	Asked   time.Time
	By      *Client
	ByOwner string
}

// Clients lists all clients, in no particular order.
func (m *Manager) Clients() iter.Seq[*ClientEntry] {
	return func(yield func(*ClientEntry) bool) {
		held := m.countHeld()
		var piece []*ClientEntry
		m.mu.Lock()
		g, left := &guard{Manager: m}, pieceSteps
		// The iteration goes on in the map that others have changed meanwhile, which the language permits.
		for _, c := range m.clients.byID {
			piece = append(piece, g.describe(c, held[c]))
			if left--; left > 0 {
				continue
			}
			m.mu.Unlock()
			if !yieldAll(&piece, yield) {
				return
			}
			m.mu.Lock()
			left = pieceSteps
		}
		m.mu.Unlock()
		yieldAll(&piece, yield)
	}
}

func (g *guard) describe(c *Client, held heldCount) *ClientEntry {
	now, h := g.now(), &c.holding
	return &ClientEntry{
		Client: c, Confirmed: c.known.confirmed,
		Silent: now - time.Duration(c.known.renewed.Load()), Expired: g.expired(c, now),
		Sessions: int(c.known.sessions.Load()), Running: int(c.known.running.Load()),
		Opens: held.opens, Locks: held.locks, Ranges: h.ranges, Waiting: h.waiters, Revoked: len(h.revoked), Memory: c.memory(),
	}
}

// heldCount counts the stateids of a client.
type heldCount struct{ opens, locks int }

func (m *Manager) countHeld() map[*Client]heldCount {
	all := make(map[*Client]heldCount)
	m.walk(func(_ *guard, s *State, _ uint64, _ int) (uint64, int) {
		if s.file != nil && !s.carriesOnly() {
			n := all[s.Client]
			if s.Kind == KindOpen {
				n.opens++
			} else {
				n.locks++
			}
			all[s.Client] = n
		}
		return 0, 1
	}, nil)
	return all
}

// carriesOnly reports whether s is the open of a host on which its locks hang: the host has opened nothing.
func (s *State) carriesOnly() bool { return s.Client.isHost() && s.modes == mode(0, 0) }

// Opens lists all opens, in no particular order.
func (m *Manager) Opens() iter.Seq[*OpenEntry] {
	return func(yield func(*OpenEntry) bool) {
		var piece []*OpenEntry
		m.walk(func(_ *guard, s *State, _ uint64, _ int) (uint64, int) {
			if _, taken := s.Client.holding.revoked[s]; s.Kind == KindOpen && !s.carriesOnly() && (s.file != nil || taken) {
				e := &OpenEntry{Client: s.Client, Owner: s.Owner.key.name, ID: s.ID(), Key: s.Key, Export: s.Export,
					Locks: len(s.locks), Revoked: taken}
				if s.file != nil {
					e.Access, e.Deny = s.modes.union()
				}
				piece = append(piece, e)
			}
			return 0, 1
		}, func() bool { return yieldAll(&piece, yield) })
	}
}

// Locks lists all locked ranges and those for which owners wait. The ranges of one owner in one file follow each
// other in ascending order.
func (m *Manager) Locks() iter.Seq[*LockEntry] {
	return func(yield func(*LockEntry) bool) { m.locks(yield) }
}

// Waiting lists the ranges for which owners wait, as Locks does, without those that are locked.
func (m *Manager) Waiting() iter.Seq[*LockEntry] {
	return func(yield func(*LockEntry) bool) {
		var piece []*LockEntry
		m.walk(func(_ *guard, s *State, _ uint64, _ int) (next uint64, steps int) {
			if s.file == nil || s.Kind != KindOpen {
				return 0, 1
			}
			waits, steps := s.listWaits()
			piece = append(piece, waits...)
			return 0, steps
		}, func() bool { return yieldAll(&piece, yield) })
	}
}

func (m *Manager) locks(yield func(*LockEntry) bool) pieces {
	var piece []*LockEntry
	return m.walk(func(g *guard, s *State, from uint64, room int) (next uint64, steps int) {
		switch {
		case s.file == nil:
			return 0, 1
		case s.Kind == KindOpen:
			var waits []*LockEntry
			waits, steps = s.listWaits()
			piece = append(piece, waits...)
			return 0, steps
		}
		ranges := s.held.Ranges()
		first, _ := slices.BinarySearchFunc(ranges, from, func(r byterange.Range, from uint64) int {
			if r.Last < from { // by Last: the range at from may have become a part of one that begins before it
				return -1
			}
			return 1
		})
		for i, r := range ranges[first:] {
			if i == room {
				return r.First, room
			}
			piece = append(piece, &LockEntry{Client: s.Client, Owner: s.Owner.key.name, Key: s.Key, Export: s.Export, Range: r})
		}
		return 0, max(1, len(ranges)-first)
	}, func() bool { return yieldAll(&piece, yield) })
}

// listWaits returns the entries of those that wait for locks through the open s. steps is how many waiters it looked at.
func (s *State) listWaits() (all []*LockEntry, steps int) {
	if s.waiters == 0 {
		return nil, 1
	}
	for _, w := range s.file.waiting {
		if w.open != s {
			continue
		}
		e := &LockEntry{Client: w.Client, Owner: w.Owner, Key: s.Key, Export: s.Export, Range: w.want, Waits: true, Asked: w.asked}
		s.file.locked.Conflicts(&w.want, w.Client.holding.owners[ownerKey{true, w.Owner}], func(other *State, _ *byterange.Range) bool {
			e.By, e.ByOwner = other.Client, other.Owner.key.name
			return false
		})
		all = append(all, e)
	}
	return all, len(s.file.waiting)
}

// yieldAll passes the entries to yield, and empties the piece. It returns false if yield has. The caller does not hold
// the mutex.
func yieldAll[E any](piece *[]E, yield func(E) bool) bool {
	for _, e := range *piece {
		if !yield(e) {
			return false
		}
	}
	*piece = (*piece)[:0]
	return true
}

// pieces tells what a walk did: the number of its pieces, and the most steps of one.
type pieces struct{ n, most int }

func (all *pieces) add(steps int) {
	all.n++
	all.most = max(all.most, steps)
}

// walk calls look for every stateid that the slab has, in pieces. look is called with room steps left, and returns how
// many it took. If it could not finish in this room, it returns a next that is not 0: look is then called for the same
// state again, in the next piece and with next as from. Without the mutex, walk calls between, unless it is nil, after each
// piece, and ends if between returns false.
func (m *Manager) walk(look func(g *guard, s *State, from uint64, room int) (next uint64, steps int), between func() bool) (all pieces) {
	p := m.inPieces(between)
	b := &m.files.slab
	var from uint64
	for at := uint32(0); at < b.used && !p.stopped; {
		next, n := uint64(0), 1
		if s := b.slot(at).state.Load(); s != nil {
			next, n = look(p.guard, s, from, p.room())
		}
		if from = next; from == 0 {
			at++
		}
		p.step(n)
	}
	return p.end()
}
