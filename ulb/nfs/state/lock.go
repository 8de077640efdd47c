package state

import (
	"hash/maphash"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
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
	// waits for the file system.
	Claimer vfs.Claimer
	// Claimed is true if the client reclaims a lock that it held before the server's restart.
	Claimed bool
	// Wait is true if the client will wait for a denied lock. Its LockNotice carries Tag.
	Wait bool
	Tag  any

	// Host, if not nil, is the host that locks: see HostLock, which also sets the fields below.
	Host *Client
	// IfWaits makes a host's lock fail with NFS4ERR_NOENT unless its owner waits for exactly this lock, since the LOCK
	// that had this Tag.
	IfWaits bool
	// Held, if not nil, is called when the host's owner has the lock, with what the owner held of the range before. No
	// call of HostUnlock or HostRestore comes between. It must not call the Manager.
	Held func(before Before)
	id   fileID
	room openRoom
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
	if holder := g.clients.byID[d.ClientID]; holder == nil || holder.Minor == 0 {
		d.ClientID = maphash.Comparable(g.clients.scramble.seed, [2]uint64{d.ClientID, 1})
	}
	return d
}

// Lock is LOCK (RFC 8881 §18.10). With NFS4ERR_DENIED it returns a conflicting lock.
func (m *Manager) Lock(a *LockArgs) (id nfs4wire.StateID4, d *Denied, status Status) {
	r, ok := byterange.At(a.Offset, a.Length, a.Write)
	if !ok {
		return id, nil, nfs4wire.NFS4ErrInvalid
	}
	for a.Claimer != nil {
		m.giveUpNow(a.Key.id())
		var late courtesy
		id, d, status, late = m.lockClaimed(a, r)
		// Evict after lockClaimed has released the localClaim: an eviction waits for the disk.
		switch {
		case late.none():
			return id, d, status
		case a.Later != nil && m.waits(a.Later, &late):
			return id, nil, AfterDisk
		case a.Later != nil, !m.expel(late.clients):
			return id, d, status
		}
	}
	var undo undo
	if !m.settled(a.Later, func(g *guard) {
		id, d, status = g.lock(a, r, &undo)
	}) {
		return id, nil, AfterDisk
	}
	return id, d, status
}

func (g *guard) lock(a *LockArgs, r byterange.Range, u *undo) (id nfs4wire.StateID4, d *Denied, status Status) {
	s, open, owner, status := g.locker(a)
	if status != nfs4wire.NFS4OK {
		return id, nil, status
	}
	if status := g.mayBegin(open.Client); status != nfs4wire.NFS4OK {
		return id, nil, status
	}
	if status := g.mayHold(open.Client, 0, a.Claimed); status != nfs4wire.NFS4OK {
		return id, nil, status
	}
	needs := AccessRead
	if r.Write {
		needs = AccessWrite
	}
	if open.granted().access&needs == 0 {
		return id, nil, nfs4wire.NFS4ErrOpenMode
	}
	c, of := open.Client, open.file
	name := string(a.OwnerName)
	if owner != nil {
		name = owner.key.name
	}
	if a.IfWaits && !of.awaits(c, name, r, a.Tag) {
		return id, nil, nfs4wire.NFS4ErrNoEnt
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
			return id, nil, nfs4wire.NFS4ErrDeadlock
		}
		if a.Wait {
			of.queue(g, &waiter{LockNotice: LockNotice{c, name, a.Tag}, want: r, open: open})
		} else {
			of.waitsNot(g, c, name, &r)
		}
		return id, g.shown(d, c), nfs4wire.NFS4ErrDenied
	}
	more := lockCount{ranges: 2}
	if s == nil {
		more.locks = 1
	}
	if status := g.mayGrow(c, of, more); status != nfs4wire.NFS4OK {
		return id, nil, status
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
	return id, nil, nfs4wire.NFS4OK
}

// waitsNot removes the owner's waiters that overlap r, because the owner has got the lock, or does not
// want to wait for it (RFC 7530 §9.4).
func (of *file) waitsNot(g *guard, c *Client, owner string, r *byterange.Range) {
	of.unqueue(g, func(w *waiter) bool { return w.Client == c && w.Owner == owner && w.want.Overlaps(r) })
}

// locker finds the states and the owner that the arguments name. s and owner are nil if they are new.
func (g *guard) locker(a *LockArgs) (s, open *State, owner *Owner, status Status) {
	if a.Host != nil {
		return g.hostLocker(a)
	}
	if !a.New {
		s, status = g.held(&a.Ref, KindLock)
		if status != nfs4wire.NFS4OK {
			return nil, nil, nil, status
		}
		return s, s.open, s.Owner, status
	}
	open, status = g.held(&a.Ref, KindOpen)
	if status != nfs4wire.NFS4OK {
		return nil, nil, nil, status
	}
	owner = a.LockOwner
	if owner == nil {
		owner = open.Client.holding.owners[ownerKey{true, string(a.OwnerName)}]
	} else if !owner.known || owner.Client != open.Client {
		return nil, nil, nil, nfs4wire.NFS4ErrBadStateID
	}
	s = open.locks[owner]
	if s != nil && a.LockOwner != nil && len(s.held.Ranges()) > 0 {
		// The owner already has a stateid with locks, and has to use it (RFC 7530 §16.10.5).
		return nil, nil, nil, nfs4wire.NFS4ErrBadSeqID
	}
	return s, open, owner, status
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
func (m *Manager) TestLock(c *Client, owner []byte, key FileKey, offset, length uint64, write bool, claimer vfs.Claimer, later *Later) (d *Denied, status Status) {
	r, ok := byterange.At(offset, length, write)
	switch {
	case !ok:
		return nil, nfs4wire.NFS4ErrInvalid
	case m.InGrace():
		return nil, nfs4wire.NFS4ErrGrace
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
		return d, nfs4wire.NFS4ErrDenied
	}
	return nil, nfs4wire.NFS4OK
}

// Unlock is LOCKU (RFC 8881 §18.12). If claimer is not nil, Unlock also gives up the server's claims on
// the range, and waits for that.
func (m *Manager) Unlock(ref *Ref, offset, length uint64, claimer vfs.Claimer) (id nfs4wire.StateID4, status Status) {
	r, ok := byterange.At(offset, length, false)
	if !ok {
		return id, nfs4wire.NFS4ErrInvalid
	}
	if claimer == nil {
		return m.unlock(ref, r)
	}
	c := m.claimed(ref.Key, claimer)
	defer m.unclaimed(c)
	if id, status = m.unlock(ref, r); status == nfs4wire.NFS4OK {
		// If followLocked fails, the kernel keeps needless claims until the file is closed.
		_ = m.followLocked(c, r)
	}
	return id, status
}

func (m *Manager) unlock(ref *Ref, r byterange.Range) (id nfs4wire.StateID4, status Status) {
	g := m.acquire()
	defer g.release()
	s, status := g.held(ref, KindLock)
	if status == nfs4wire.NFS4OK && s.held.Ranges().Splits(r.First, r.Last) {
		status = g.mayGrow(s.Client, s.file, lockCount{ranges: 1})
	}
	if status != nfs4wire.NFS4OK {
		return id, status
	}
	g.counted(s, s.file.locked.Unlock(&s.held, r.First, r.Last))
	g.released(s.file)
	return g.bump(s), status
}

// reservation is how long the server reserves a lock that has become free for the first waiter.
const reservation = 3 * time.Second
