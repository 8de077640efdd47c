package state

import (
	"sync/atomic"
	"time"
)

// grace is the grace period: the time after a start in which clients may reclaim the state that
// they held before, and get no other state (RFC 8881 §8.4.2.1).
type grace struct {
	on atomic.Bool
	// until is the planned end of the grace period (endsAt), and claimed the time at which a client last
	// reclaimed state, or was confirmed and may reclaim some: both on the clock of Manager.now.
	until, claimed time.Duration
	// timer makes the Manager's goroutine sweep at the end of the grace period.
	timer *time.Timer
	// ending becomes true when the Manager begins to remove the records of the clients that did not
	// reclaim their state. From then on no client can reclaim anything.
	ending bool
	// claims holds the right to reclaim state of each client that has a record from before this start.
	claims map[name]*claim
	// named holds those claims by what the clients call themselves. A client that has moved may have two.
	named map[owner][]*claim
	// open is the number of claims that settle has not marked as done. At 0 the grace period ends early.
	open int
	// denials is the number of claims, not yet done, that may include an open with a deny mode.
	denials atomic.Int64
	// expected counts, for each kind of state, the claims that are not yet done of clients that held such state. Barred
	// claims count as well.
	expected map[Held]int
}

// A claim is the right of a client to reclaim the state that it held before the restart.
type claim struct {
	Record
	// held is the kinds of state that the client may reclaim: Record.Held of all records of its name and principal.
	held Held
	// done is true when the client has sent RECLAIM_COMPLETE or, in minor version 0, reclaimed something.
	done bool
	// barred is the kinds of state that the client can not reclaim, because Record.Revoked was set at the start. But it may not
	// know yet that it has lost the rest of its state, so its name is kept, and others get no state meanwhile.
	barred Held
}

// reclaim holds how far a client has reclaimed its state from before the restart, and its record.
type reclaim struct {
	// needed is true while the client may reclaim state and its RECLAIM_COMPLETE has not succeeded.
	needed atomic.Bool
	// complete is true when a RECLAIM_COMPLETE of the client has succeeded, said when it has sent one.
	complete, said bool
	// held is the set of kinds of state that this incarnation of the client has held or asked for.
	held Held
	// stored is the client's record on stable storage; nil if it has none. While another one is being written, it lists only
	// the kinds of state that both list: see replaced.
	stored *Record
	// revoked is Record.Revoked: see pardon. takings counts the Releases and Revokes under way that take state from the
	// client. untold is true if the client may not know of all that it lost: a host, or forgetRevoked. lost is the kinds of
	// state of which revoked tells.
	revoked, untold bool
	lost            Held
	takings         int
}

// kept is Record.Kept.
func (k *reclaim) kept() Held {
	if !k.revoked {
		return 0
	}
	return (HeldOpens | HeldDenials | HeldLocks) &^ k.lost
}

// beginGrace begins the grace period if a client has a record. The period
// lasts at least as long as the longest lease that the server promised, because a client may stay
// silent for a whole lease before it notices the restart (RFC 8881 §8.4.2.1).
func (g *guard) beginGrace(known []Record) {
	p := &g.grace
	p.claims, p.named, p.expected = map[name]*claim{}, map[owner][]*claim{}, map[Held]int{}
	long := g.cfg.Grace
	type who struct {
		owner
		principal string
	}
	held := map[who]Held{}
	for _, r := range known {
		long = max(long, r.Lease)
		r.Held = r.Held.spelled()
		o := owner{r.Kind, r.Owner}
		c := &claim{Record: r}
		if r.Revoked {
			c.barred = heldAny &^ r.Kept
		}
		p.claims[r.name()] = c
		p.named[o] = append(p.named[o], c)
		held[who{o, r.Principal}] |= r.Held
	}
	for _, c := range p.claims {
		c.held = held[who{owner{c.Kind, c.Owner}, c.Principal}]
		g.expect(c, 1)
	}
	if p.open > 0 {
		p.until = g.now() + long
		p.timer = time.AfterFunc(long, g.wake)
		p.on.Store(true)
		g.events = append(g.events, &Event{Kind: GraceBegan, Clients: known, For: long})
	}
}

// mayDeny reports whether the client may reclaim an open with a deny mode.
func (r *claim) mayDeny() bool { return r.held&HeldDenials&^r.barred != 0 }

// expect counts a claim, or no longer does so if n is -1: see grace.
func (g *guard) expect(r *claim, n int) {
	g.grace.open += n
	for _, kind := range [...]Held{HeldOpens, HeldDenials, HeldLocks} {
		if r.held&kind != 0 {
			g.grace.expected[kind] += n
		}
	}
	if r.mayDeny() {
		g.expectDenials(int64(n))
	}
}

// expectDenials adds n, which may be negative, to grace.denials.
func (g *guard) expectDenials(n int64) {
	g.grace.denials.Add(n)
	g.files.denials.all.Add(n)
}

// endsAt returns the time at which the grace period ends if no client reclaims anything more. That
// is the planned end (until) or, if it is later, the time of the last reclaim plus a quarter of the
// planned length. The grace period never takes more than twice the planned length.
func (g *grace) endsAt() time.Duration {
	return max(g.until, min(2*g.until, g.claimed+g.until/4))
}

// An owner is what a client calls itself.
type owner struct {
	kind ClientKind
	name string
}

// keeps reports whether the client of id has to wait, because a recorded client of that name may still
// reclaim its state: until the grace period ends if the recorded client has another principal, or Record.Guarded
// is set and id has no integrity protection; until half of it is over if id may be the recorded client at
// another source (see elsewhere). No confirmed client has the name.
func (g *guard) keeps(kind ClientKind, id *Identity) bool {
	if !g.grace.on.Load() || g.grace.ending {
		return false
	}
	n := id.name(kind)
	if r := g.grace.claims[n]; r != nil {
		return !r.done && (r.Principal != id.Principal || r.Guarded && !id.Intact)
	}
	r := g.elsewhere(n, id.Principal)
	return r != nil && r.Address.IsValid() && !r.source().covers(id.source()) && g.now() < g.grace.until/2
}

// elsewhere returns the claim that a client without a claim of its own may share: one of its name, whose client
// has the same principal and has not come, if possible at the same address. Such a client is likely the recorded
// one, but nothing proves it. So the place in the record comes first: see keeps. Records of earlier versions lack
// Privileged, and perhaps the address.
func (g *guard) elsewhere(n name, principal string) (found *claim) {
	for _, r := range g.grace.named[owner{n.kind, n.owner}] {
		if r.done || r.Principal != principal || g.grace.claims[r.name()] != r || g.clients.byName[r.name()].confirmed != nil {
			continue
		}
		if found == nil || r.Address == n.prover.source.address {
			found = r
		}
	}
	return found
}

// shareClaim gives c a claim like one elsewhere, if there is one, with the Record of that one, whose name is not
// that of c. The claim elsewhere stays, in case that c is another client: the recorded one may still come.
func (g *guard) shareClaim(c *Client) {
	if !g.grace.on.Load() || g.grace.ending || g.grace.claims[c.name()] != nil {
		return
	}
	if r := g.elsewhere(c.name(), c.Principal); r != nil {
		own := *r
		g.grace.claims[c.name()] = &own
		g.expect(&own, 1)
	}
}

// claimOf returns the right of c to reclaim state, or nil if c has none, or no longer.
func (g *guard) claimOf(c *Client) *claim {
	if !g.grace.on.Load() || g.grace.ending {
		return nil
	}
	if r := g.claimBefore(c); r != nil && (!r.done || !c.completes()) {
		return r
	}
	return nil
}

// claimBefore returns the entry of c in grace.claims, even if c can no longer reclaim anything by it.
func (g *guard) claimBefore(c *Client) *claim {
	if r := g.grace.claims[c.name()]; r != nil && (r.Principal == c.Principal || c.isHost()) {
		return r
	}
	return nil
}

// dropClaim ends the right of c to reclaim state.
func (g *guard) dropClaim(c *Client) {
	if r := g.claimBefore(c); r != nil {
		g.settle(r)
		delete(g.grace.claims, c.name())
	}
}

// mayReclaim reports whether c may reclaim state of any kind.
func (g *guard) mayReclaim(c *Client) bool {
	r := g.claimOf(c)
	return !c.known.reclaim.complete && r != nil && r.held&(HeldOpens|HeldDenials|HeldLocks)&^r.barred != 0
}

// reclaimed marks the claim of a client of minor version 0, which has reclaimed something, as done. Its
// record then stays when the grace period ends.
func (g *guard) reclaimed(c *Client) {
	if r := g.claimOf(c); r != nil && !c.completes() {
		r.done = true // grace.open stays: a client of minor version 0 has no message to say that it is done
		if c.known.reclaim.stored == nil && r.name() == c.name() {
			c.known.reclaim.stored = &r.Record
		}
	}
}

// settle marks a claim as done, and no longer counts it.
func (g *guard) settle(r *claim) {
	if r.done {
		return
	}
	r.done = true
	g.expect(r, -1)
	g.wake()
}

// ReclaimComplete executes a RECLAIM_COMPLETE for all file systems (RFC 8881 §18.51): it writes the
// record of the client. The client may get new state when the grace period is over. If later is not nil,
// ReclaimComplete does not wait for the disk, and returns AfterDisk where it would have to. It returns
// AlreadyComplete if an earlier RECLAIM_COMPLETE of the client succeeded, TryLater if the record could not be
// written, and Gone if the Manager has removed the client.
func (m *Manager) ReclaimComplete(c *Client, later *Later) Verdict {
	k := &c.known.reclaim
	g := m.acquire()
	defer func() { g.release() }()
	if m.cfg.Records == nil || k.complete {
		return g.complete(c)
	}
	k.said = true
	switch need := g.recordOf(c); {
	case later == nil:
	case c.known.gone:
		return g.complete(c)
	case k.stored != nil && (*k.stored == need || g.failingLocked()):
		return g.complete(c)
	case g.failingLocked():
		return TryLater
	default:
		*later = Later{m: m, record: c}
		return AfterDisk
	}
	g.release()
	m.record(c)
	g = m.acquire()
	if k.stored == nil && !k.complete {
		return TryLater
	}
	return g.complete(c)
}

// complete does the part of ReclaimComplete that needs no disk.
func (g *guard) complete(c *Client) Verdict {
	k := &c.known.reclaim
	switch {
	case k.complete:
		return AlreadyComplete
	case c.known.gone:
		return Gone
	}
	if r := g.claimOf(c); r != nil {
		g.settle(r)
	}
	k.complete = true
	k.needed.Store(false)
	return Granted
}

// sweepGrace ends the grace period if its time is over or all claims are settled. It first removes the
// records of the clients that did not reclaim their state, because another client may now get that state
// (RFC 8881 §8.4.3, the second edge condition). If the removal fails, the grace period goes on.
func (m *Manager) sweepGrace() {
	p := &m.grace
	if !p.on.Load() {
		return
	}
	m.recording.lock()
	defer m.recording.unlock()
	g := m.acquire()
	if left := p.endsAt() - m.now(); p.open > 0 && left > 0 && !p.ending {
		p.timer.Reset(left)
		g.release()
		return
	}
	p.ending = true
	var lapsed, lost []Record
	elsewhere := map[name]bool{} // whether the recorded client has come, to another place
	for n, r := range p.claims {
		if r.done && r.name() != n {
			elsewhere[r.name()] = true
		}
	}
	for n, r := range p.claims {
		if r.done || r.name() != n || g.hasRecord(n) {
			continue
		}
		if lapsed = append(lapsed, r.Record); !elsewhere[n] {
			lost = append(lost, r.Record)
		}
	}
	g.release()
	if len(lapsed) > 0 && m.cfg.Records.Remove(lapsed) != nil {
		return
	}
	g = m.acquire()
	p.claims, p.named = nil, nil
	g.expectDenials(-p.denials.Load())
	g.release()
	p.on.Store(false)
	m.tell(&Event{Kind: GraceEnded, Clients: lost})
}
