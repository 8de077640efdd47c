package state

import (
	"hash/maphash"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// LockArgs are the arguments of Lock.
type LockArgs struct {
	// Ref is the stateid of the lock, or of the open if New is set.
	Ref
	// New is true if the lock-owner may have no stateid for this open yet. LockOwner is then the
	// lock-owner in minor version 0. Otherwise it is nil, and OwnerName is its name.
	New       bool
	LockOwner *Owner
	OwnerName []byte
	// Offset and Length are as on the wire: a Length of all ones reaches to the end of the file.
	Offset, Length uint64
	Write          bool
	// Later, if not nil, makes Lock return AfterDisk where it would have to wait for the disk.
	Later *Later
	// Claimer, if not nil, also locks the range against the processes of this machine. Lock then
	// waits for the file system: with Try, which needs a Later, it returns WouldWait instead.
	Claimer vfs.Claimer
	Try     bool
	// Claimed is true if the client reclaims a lock that it held before the server's restart.
	Claimed bool
	// Wait is true if the client will wait for a denied lock. Its LockNotice carries Tag.
	Wait bool
	Tag  any

	// Host, if not nil, is the host that locks: see HostLock, which also sets the fields below.
	Host *Client
	// IfWaits makes a host's lock fail with NotFound unless its owner waits for exactly this lock, since the LOCK
	// that had this Tag.
	IfWaits bool
	// Held, if not nil, is called when the host's owner has the lock, with what the owner held of the range before. No
	// call of HostUnlock or HostRestore comes between. It must not call the Manager.
	Held func(before Before)
	id   fileID
	room openRoom

	// unrecorded is the client if its record has to be written before it gets the lock.
	unrecorded *Client
}

// Denied describes a lock that conflicts with a request.
type Denied struct {
	Offset, Length uint64
	Write          bool
	// ClientID is the client ID of the lock's owner or, if that is another client, a number that stands
	// for it. It is 0 for a lock of a process of this machine.
	ClientID uint64
	Owner    string
}

func denied(r *byterange.Range, clientID uint64, owner string) *Denied {
	return &Denied{Offset: r.First, Length: r.Length(), Write: r.Write, ClientID: clientID, Owner: owner}
}

// shown returns d, which may be nil, as the client to may see it. The client ID of another client of minor
// version 0 is a secret, because its requests name the client by nothing else: to sees another number. NLM
// shows no client IDs, and finds the host that holds the lock by it.
func (g *guard) shown(d *Denied, to *Client) *Denied {
	if d == nil || d.ClientID == to.ID || d.ClientID == 0 || to.isHost() {
		return d
	}
	if holder := g.clients.byID[d.ClientID]; holder == nil || holder.secretID() {
		d.ClientID = maphash.Comparable(g.clients.scramble.seed, [2]uint64{d.ClientID, 1})
	}
	return d
}

// Lock is LOCK (RFC 8881 §18.10). With LockConflict it returns a conflicting lock. Before the first lock of a client it
// has the client recorded, and may return the verdicts of Record.
func (m *Manager) Lock(a *LockArgs) (id StateID, d *Denied, verdict Verdict) {
	r, ok := byterange.At(a.Offset, a.Length, a.Write)
	if !ok {
		return id, nil, Invalid
	}
	id, d, verdict = m.lock(a, r)
	if c := a.unrecorded; c != nil {
		a.unrecorded = nil
		if verdict = m.Record(c, KindLock, 0, a.Later); verdict == Granted {
			id, d, verdict = m.lock(a, r)
		}
	}
	return id, d, verdict
}

// lock is Lock without Record.
func (m *Manager) lock(a *LockArgs, r byterange.Range) (id StateID, d *Denied, verdict Verdict) {
	for a.Claimer != nil {
		if a.Try && m.givesUp(a.Key.id()) {
			return id, nil, WouldWait
		}
		m.giveUpNow(a.Key.id())
		var late courtesy
		id, d, verdict, late = m.lockClaimed(a, r)
		// Evict after lockClaimed has released the localClaim: an eviction waits for the disk.
		switch {
		case late.none():
			return id, d, verdict
		case a.Later != nil && m.waits(a.Later, &late):
			return id, nil, AfterDisk
		case a.Later != nil, !m.expel(late.clients):
			return id, d, verdict
		}
	}
	var undo undo
	if !m.settled(a.Later, func(g *guard) {
		id, d, verdict = g.lock(a, r, &undo)
	}) {
		return id, nil, AfterDisk
	}
	return id, d, verdict
}

func (g *guard) lock(a *LockArgs, r byterange.Range, u *undo) (id StateID, d *Denied, verdict Verdict) {
	s, open, owner, verdict := g.locker(a)
	if verdict != Granted {
		return id, nil, verdict
	}
	if verdict := g.mayBegin(open.Client); verdict != Granted {
		return id, nil, verdict
	}
	if verdict := g.mayHold(open.Client, KindLock, 0, a.Claimed); verdict != Granted {
		return id, nil, verdict
	}
	if !g.isRecorded(open.Client, KindLock, 0, a.Claimed) {
		a.unrecorded = open.Client
		return id, nil, TryLater
	}
	needs := AccessRead
	if r.Write {
		needs = AccessWrite
	}
	if open.granted().access&needs == 0 {
		return id, nil, NotOpenFor
	}
	c, of := open.Client, open.file
	name := string(a.OwnerName)
	if owner != nil {
		name = owner.key.name
	}
	if a.IfWaits && !of.awaits(c, name, r, a.Tag) {
		return id, nil, NotFound
	}
	if a.Host != nil && a.Wait {
		u.waiter = &waiter{LockNotice: LockNotice{c, name, a.Tag}, want: r, open: open}
	}
	d = g.lockConflict(of, &r, owner)
	if d == nil {
		d = of.reserved(&r, c, name)
	}
	if d != nil {
		if a.Wait && s != nil && of.deadlocked(g, s, c, name, &r) {
			of.waitsNot(g, c, name, &r)
			return id, nil, Deadlock
		}
		if a.Wait {
			of.queue(g, &waiter{LockNotice: LockNotice{c, name, a.Tag}, want: r, open: open})
		} else {
			of.waitsNot(g, c, name, &r)
		}
		return id, g.shown(d, c), LockConflict
	}
	more := lockCount{ranges: 2}
	if s == nil {
		more.locks = 1
	}
	if verdict := g.mayGrow(c, of, more); verdict != Granted {
		return id, nil, verdict
	}
	if s == nil {
		if s = g.newLock(open, owner, a.OwnerName); s == nil {
			return id, nil, g.full(c)
		}
		u.made = true
		id = s.ID()
	} else {
		u.seqid = s.seqid.Load()
		id = g.bump(s)
	}
	c.known.reclaim.held |= heldBy(KindLock, 0)
	u.state = s
	if a.Claimer != nil || a.Held != nil {
		u.locked, u.before = r, s.held.Ranges().Part(r.First, r.Last)
	}
	g.counted(s, of.locked.Lock(&s.held, r))
	of.waitsNot(g, c, name, &r)
	if !r.Write {
		g.released(of) // waiters may now get their locks, because r may replace a write lock
	}
	if a.Held != nil && a.Claimer == nil {
		a.Held(u.before)
	}
	return id, nil, Granted
}

// waitsNot removes the owner's waiters that overlap r, because the owner has got the lock, or does not
// want to wait for it (RFC 7530 §9.4).
func (of *file) waitsNot(g *guard, c *Client, owner string, r *byterange.Range) {
	of.unqueue(g, func(w *waiter) bool { return w.Client == c && w.Owner == owner && w.want.Overlaps(r) })
}

// locker finds the states and the owner that the arguments name. s and owner are nil if they are new.
func (g *guard) locker(a *LockArgs) (s, open *State, owner *Owner, verdict Verdict) {
	if a.Host != nil {
		return g.hostLocker(a)
	}
	if !a.New {
		s, verdict = g.held(&a.Ref, KindLock)
		if verdict != Granted {
			return nil, nil, nil, verdict
		}
		return s, s.open, s.Owner, verdict
	}
	open, verdict = g.held(&a.Ref, KindOpen)
	if verdict != Granted {
		return nil, nil, nil, verdict
	}
	owner = a.LockOwner
	if owner == nil {
		owner = open.Client.holding.owners[ownerKey{true, string(a.OwnerName)}]
	} else if !owner.known || owner.Client != open.Client {
		return nil, nil, nil, UnknownID
	}
	s = open.locks[owner]
	if s != nil && a.LockOwner != nil && len(s.held.Ranges()) > 0 {
		// The owner already has a stateid with locks, and has to use it (RFC 7530 §16.10.5).
		return nil, nil, nil, HasStateID
	}
	return s, open, owner, verdict
}

// newLock makes the lock state of an owner for an open and, if owner is nil, the lock-owner with this
// name. It returns nil if the client can get no more state, or if no stateid is free.
func (g *guard) newLock(open *State, owner *Owner, name []byte) *State {
	c := open.Client
	if g.crowded(c) {
		return nil
	}
	numbered := owner != nil
	if owner == nil {
		if owner = g.owner(c, name, true); owner == nil {
			return nil
		}
	}
	s := &State{Kind: KindLock, Client: c, Owner: owner, Key: open.Key, Export: open.Export, open: open}
	s.held.Owner, s.held.Group = s, owner
	if !g.enlist(s, open.file) {
		if !numbered {
			g.forgetOwner(owner)
		}
		return nil
	}
	if open.locks == nil {
		open.locks = make(map[*Owner]*State)
	}
	open.locks[owner] = s
	g.files.usage.Locks++
	return s
}

// lockConflict returns a lock of another owner that conflicts with r, or nil, and calls blame for the
// clients of such locks. If one of them has a valid lease, it returns a lock of that client.
func (g *guard) lockConflict(of *file, r *byterange.Range, owner *Owner) (d *Denied) {
	of.locked.Conflicts(r, owner, func(other *State, held *byterange.Range) bool {
		if g.blame(other.Client); d == nil || g.late.firm {
			d = denied(held, other.Client.ID, other.Owner.key.name)
		}
		return !g.late.firm
	})
	return d
}

// TestLock is LOCKT (RFC 8881 §18.11) for the lock-owner of c with this name. If claimer is not nil,
// TestLock also looks for locks of the processes of this machine, and then waits for the file system.
// If later is not nil, it returns AfterDisk where it would have to evict a client.
func (m *Manager) TestLock(c *Client, owner []byte, key FileKey, offset, length uint64, write bool, claimer vfs.Claimer, later *Later) (d *Denied, verdict Verdict) {
	r, ok := byterange.At(offset, length, write)
	switch {
	case !ok:
		return nil, Invalid
	case !m.GoesOn(KindLock, 0):
		return nil, InGracePeriod
	}
	id := key.id()
	if !m.settled(later, func(g *guard) {
		d = nil
		if of := g.files.byID[id]; of != nil {
			d = g.shown(g.lockConflict(of, &r, c.holding.owners[ownerKey{true, string(owner)}]), c)
		}
	}) {
		return nil, AfterDisk
	}
	if d == nil && claimer != nil {
		m.giveUpNow(id)
		d = localLock(claimer, key.Handle, &r)
	}
	if d != nil {
		return d, LockConflict
	}
	return nil, Granted
}

// Unlock is LOCKU (RFC 8881 §18.12). If claimer is not nil, Unlock also gives up the server's claims on
// the range, and waits for that: with try, it does nothing and returns WouldWait instead.
func (m *Manager) Unlock(ref *Ref, offset, length uint64, claimer vfs.Claimer, try bool) (id StateID, verdict Verdict) {
	r, ok := byterange.At(offset, length, false)
	if !ok {
		return id, Invalid
	}
	if claimer == nil {
		return m.unlock(ref, r)
	}
	c := m.claimed(ref.Key, claimer, try, vfs.ClaimNone)
	if c == nil {
		return id, WouldWait
	}
	defer m.unclaimed(c)
	if id, verdict = m.unlock(ref, r); verdict == Granted {
		// If followLocked fails, the kernel keeps needless claims until the file is closed.
		_ = m.followLocked(c, r)
	}
	return id, verdict
}

func (m *Manager) unlock(ref *Ref, r byterange.Range) (id StateID, verdict Verdict) {
	g := m.acquire()
	defer g.release()
	s, verdict := g.held(ref, KindLock)
	if verdict == Granted && s.held.Ranges().Splits(r.First, r.Last) {
		verdict = g.mayGrow(s.Client, s.file, lockCount{ranges: 1})
	}
	if verdict != Granted {
		return id, verdict
	}
	g.counted(s, s.file.locked.Unlock(&s.held, r.First, r.Last))
	g.released(s.file)
	return g.bump(s), verdict
}

// reservation is how long the server reserves a lock that has become free for the first waiter.
const reservation = 3 * time.Second
