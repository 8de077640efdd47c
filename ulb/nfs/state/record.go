package state

import (
	"net/netip"
	"slices"
	"time"
)

// Records stores on stable storage which clients hold state, so that after a restart only these may
// reclaim state (RFC 8881 §8.4.2). When a method returns, its effect is on stable storage. The Manager
// calls Begin once, before the other methods, and never two methods at the same time.
type Records interface {
	// Begin counts this start of the server: starts is below 1<<24, and differs at each start.
	Begin() (starts uint32, known []Record, err error)
	// Put adds records, or replaces those with the same names: all of them or none.
	Put(more []Record) error
	// Remove removes records: all of them or none. Records that do not exist are ignored.
	Remove(gone []Record) error
}

// A Record describes one client that may hold state. Kind, Owner and By together identify the client.
type Record struct {
	Kind             ClientKind
	Owner, Principal string
	// Address is the address from which the client sent its EXCHANGE_ID or SETCLIENTID, reduced by
	// clientaddr.Of. The zero value means unknown.
	Address netip.Addr
	Lease   time.Duration // the lease time that the client was told; 0 means unknown
	Held    Held          // the kinds of state that the client has held, or may still reclaim
	// Revoked is true if the server revoked state of the client and the client has not freed all of
	// it yet (FREE_STATEID). After a restart the client can then reclaim nothing but the kinds of state in Kept, of which
	// nothing was revoked. Only a host keeps any.
	Revoked bool
	Kept    Held
	Guarded bool // Client.Guarded
	// Proven and Privileged are those of the Caller that made the client.
	Proven, Privileged bool
}

// By returns what identifies the client besides its name: that its principal is proven or, if it is not, the
// address and whether the port is privileged.
func (r *Record) By() (proven bool, address netip.Addr, privileged bool) {
	p := r.prover()
	return p.proven, p.source.address, p.source.privileged
}

func (r *Record) source() source { return source{r.Address, r.Privileged} }

func (r *Record) prover() prover {
	if r.Proven {
		return prover{proven: true}
	}
	return prover{source: r.source()}
}

func (r *Record) name() name { return name{r.Kind, r.Owner, r.prover()} }

// Held is a set of kinds of state. The zero value means unknown: any kind.
type Held uint8

// Kinds of state.
const (
	HeldOpens   Held = 1 << iota // opens
	HeldDenials                  // opens with a deny mode
	HeldLocks                    // locked byte ranges
	// HeldApart is in every set that this version writes. In a set without it, of an earlier version, HeldOpens includes
	// locks.
	HeldApart

	heldAny = HeldOpens | HeldDenials | HeldLocks | HeldApart
)

// spelled returns h as this version writes it.
func (h Held) spelled() Held {
	switch {
	case h == 0:
		return heldAny
	case h&HeldApart == 0:
		h |= HeldLocks
	}
	return h | HeldOpens | HeldApart
}

// heldBy returns the kinds of state that a client has if it has an open with this deny mode (KindOpen) or a lock
// (KindLock), which it makes through an open.
func heldBy(kind Kind, deny Access) Held {
	switch {
	case kind == KindLock:
		return HeldOpens | HeldLocks
	case deny != 0:
		return HeldOpens | HeldDenials
	}
	return HeldOpens
}

// grounds returns the kind of state that a client loses with an open with this deny mode (KindOpen) or a lock (KindLock).
func grounds(kind Kind, deny Access) Held {
	switch {
	case kind == KindLock:
		return HeldLocks
	case deny != 0:
		return HeldDenials
	}
	return HeldOpens
}

// lostWith returns the kinds of state of which a client loses some if the server takes the open s. A host's locks and shares
// are independent of each other: it reclaims them by requests of their own. All other clients lose all.
func (s *State) lostWith() Held {
	switch {
	case !s.Client.isHost():
		return heldAny
	case s.carriesOnly():
		return HeldLocks
	}
	_, deny := s.modes.union()
	return grounds(KindOpen, deny)
}

// recordOf returns the record of c as it should now be on stable storage.
func (g *guard) recordOf(c *Client) Record {
	k := &c.known.reclaim
	held := HeldOpens | HeldApart | k.held
	if r := g.claimOf(c); r != nil && !k.said {
		held |= r.held &^ r.barred // what it may not reclaim now, it may not reclaim after the next restart either
	}
	return Record{
		Kind: c.Kind, Owner: c.Owner, Principal: c.Principal, Address: c.known.address,
		Lease: g.cfg.Lease, Held: held, Revoked: k.revoked, Kept: k.kept(), Guarded: c.Guarded,
		Proven: c.prover.proven, Privileged: c.privileged,
	}
}

// Epoch returns the number of this start in session IDs and stateids: a multiple of 256, used only once.
func (m *Manager) Epoch() uint32 { return m.epoch }

// Record stores on stable storage that a client may hold opens with this deny mode (KindOpen), or locks (KindLock), before
// the client gets the first of them. If later is not nil, Record does not wait for the disk: it returns AfterDisk if
// the record still has to be written. It returns TryLater if the write failed.
func (m *Manager) Record(c *Client, kind Kind, deny Access, later *Later) Verdict {
	held := heldBy(kind, deny)
	if m.cfg.Records == nil {
		return Granted
	}
	m.mu.Lock()
	if c.known.gone { // no record of it will be written
		m.mu.Unlock()
		return Gone
	}
	recorded := c.known.reclaim.covers(held)
	c.known.reclaim.held |= held
	failing := m.failingLocked()
	m.mu.Unlock()
	switch {
	case recorded:
		return Granted
	case later != nil && failing:
		return TryLater
	case later != nil:
		*later = Later{m: m, record: c}
		return AfterDisk
	}
	m.record(c)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !c.known.reclaim.covers(held) {
		return TryLater
	}
	return Granted
}

// record writes the records of clients that are missing or outdated, together with those of all clients in
// m.unrecorded: however many goroutines call it at once, each waits for one or two disk writes.
// Afterwards reclaim.stored shows whether the write succeeded; Records itself reports its errors.
func (m *Manager) record(some ...*Client) {
	m.mu.Lock()
	m.unrecorded = append(m.unrecorded, some...)
	m.mu.Unlock()
	m.recording.lock()
	defer m.recording.unlock()
	g := m.acquire()
	var all []*Client
	var more []Record
	if len(m.forgotten) >= maxClients {
		m.unrecorded = nil // write no more records until the forgotten ones are removed
		m.failed = max(m.now(), 1)
		m.wake()
	}
	for _, c := range m.unrecorded {
		k := &c.known.reclaim
		need := g.recordOf(c)
		if r := g.claimOf(c); r != nil && r.Record == need {
			k.stored = &need
		}
		if !c.known.gone && (k.stored == nil || *k.stored != need) {
			k.replaced(&need)
			all, more = append(all, c), append(more, need)
		}
	}
	m.unrecorded = nil
	g.release()
	if len(more) == 0 || m.wrote(m.cfg.Records.Put(more)) != nil {
		return
	}
	g = m.acquire()
	defer g.release()
	for i, c := range all {
		c.known.reclaim.stored = &more[i]
		if c.known.gone { // the Manager removed the client meanwhile, when it had no record to remove
			g.forget(c)
		}
	}
}

// replaced notes that the record by is about to be written. It may list fewer kinds of state than the one before, which
// another incarnation or run of the server wrote. The client gets no such state from now on without a record of its own.
func (k *reclaim) replaced(by *Record) {
	if k.stored != nil && k.stored.Held&^by.Held != 0 {
		both := *k.stored
		both.Held &= by.Held
		k.stored = &both
	}
}

// forget makes the sweep remove the record of a client that is gone, or expired without any state.
func (g *guard) forget(c *Client) {
	r := g.claimOf(c)
	if r == nil && c.known.reclaim.stored == nil {
		return
	}
	if r != nil {
		g.dropClaim(c)
	}
	g.forgotten = append(g.forgotten, g.recordOf(c))
	g.wake()
}

// hasRecord reports whether the confirmed client with this name has a record on stable storage.
func (g *guard) hasRecord(n name) bool {
	c := g.clients.byName[n].confirmed
	return c != nil && c.known.reclaim.stored != nil
}

// removeForgotten removes the records of forgotten clients that no new incarnation has taken over.
func (m *Manager) removeForgotten() {
	m.mu.Lock()
	none := len(m.forgotten) == 0
	m.mu.Unlock()
	if none {
		return
	}
	m.recording.lock()
	defer m.recording.unlock()
	var gone []Record
	g := m.acquire()
	for _, r := range m.forgotten {
		if !g.hasRecord(r.name()) {
			gone = append(gone, r)
		}
	}
	m.forgotten = nil
	g.release()
	if len(gone) == 0 || m.cfg.Records.Remove(gone) == nil {
		return
	}
	m.mu.Lock()
	m.forgotten = append(m.forgotten, gone...)
	m.mu.Unlock()
}

// rewrite writes the records of clients whose Revoked flag has changed. If such a client is gone,
// rewrite writes the record of its next incarnation, which has taken over the record. If the record is to be
// removed (forget), it is still on the disk without the flag, and the client stays in m.marked. If another goroutine is
// writing, rewrite waits for it, even if nothing is left to write: what the other has taken from m.marked is not on the
// disk yet.
func (m *Manager) rewrite() {
	m.recording.lock()
	defer m.recording.unlock()
	g := m.acquire()
	if len(m.marked) == 0 {
		g.release()
		return
	}
	var all, recorded, kept []*Client
	var more []Record
	for _, c := range m.marked {
		if n := c.name(); slices.ContainsFunc(m.forgotten, func(r Record) bool { return r.name() == n }) {
			kept = append(kept, c)
			continue
		}
		if c.known.gone {
			if c = m.clients.byName[c.name()].confirmed; c == nil {
				continue
			}
		}
		all = append(all, c)
		if c.known.reclaim.stored != nil || g.claimOf(c) != nil {
			need := g.recordOf(c)
			c.known.reclaim.replaced(&need)
			recorded, more = append(recorded, c), append(more, need)
		}
	}
	m.marked = kept
	g.release()
	failed := len(more) > 0 && m.cfg.Records.Put(more) != nil
	m.mu.Lock()
	defer m.mu.Unlock()
	revoked := func(c *Client) bool { return c.known.reclaim.revoked }
	m.withheld = failed && slices.ContainsFunc(all, revoked) || slices.ContainsFunc(kept, revoked)
	if failed {
		m.marked = append(m.marked, all...)
		return
	}
	for i, c := range recorded {
		if c.known.reclaim.stored != nil {
			c.known.reclaim.stored = &more[i]
		}
	}
}

// hasMarked reports whether rewrite has something to write. The sweep asks first, because rewrite waits for a write that
// is under way even if it has nothing to write.
func (m *Manager) hasMarked() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.marked) > 0
}
