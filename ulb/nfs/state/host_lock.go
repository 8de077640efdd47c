package state

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// LocalRetry is the time after which a caller of HostLock asks again for a lock that a process of this machine has.
const LocalRetry = 2 * time.Second

// HostLock locks a range of a file for an owner (a.OwnerName) of the host a.Host, which has no stateids: of a.Ref
// only the file counts. It first has the host recorded. The verdicts are those of Lock and of Record. If a.Wait is
// true and the verdict is LockConflict, the owner waits for the lock (NotifyHosts), unless its host or its address
// waits for too many. No notice comes if the Denied is of a process of this machine (its ClientID is 0): the caller
// tries again after LocalRetry, with IfWaits.
func (m *Manager) HostLock(a *LockArgs) (d *Denied, verdict Verdict) {
	if _, ok := byterange.At(a.Offset, a.Length, a.Write); !ok {
		return nil, Invalid
	}
	a.New, a.id, a.room = true, a.Key.id(), openRoomOf(a.Key.Domain)
	if m.hostEnds(a.Host, a.Later) {
		return nil, AfterDisk
	}
	switch s, first := m.MayHold(a.Host, KindLock, 0, a.Claimed); {
	case s != Granted:
		return nil, s
	case first:
		if s = m.Record(a.Host, KindLock, 0, a.Later); s != Granted {
			return nil, s
		}
	}
	m.Renew(a.Host)
	_, d, verdict = m.Lock(a)
	return d, verdict
}

// hostLocker is locker for an owner of a host.
func (g *guard) hostLocker(a *LockArgs) (s, open *State, owner *Owner, verdict Verdict) {
	if open, verdict = g.hostOpen(a); verdict != Granted {
		return nil, nil, nil, verdict
	}
	g.idle = append(g.idle, open) // in case that the lock is refused
	owner = a.Host.holding.owners[ownerKey{true, string(a.OwnerName)}]
	return open.locks[owner], open, owner, Granted
}

// HostTest looks for a lock that keeps an owner of a host from locking a range: see TestLock. The host is nil if it
// has locked nothing.
func (m *Manager) HostTest(host *Client, owner []byte, key FileKey, offset, length uint64, write bool, claimer vfs.Claimer, later *Later) (*Denied, Verdict) {
	if host == nil {
		host = &Client{Kind: Host}
	}
	return m.TestLock(host, owner, key, offset, length, write, claimer, later)
}

// A HostRange is a range of a file, for an owner of a host.
type HostRange struct {
	Ref   // of which the host (Client), the file and the export count
	Owner []byte
	// Offset and Length are as in LockArgs.
	Offset, Length uint64
	// Claimer is nil unless the server has claims on the file. A change of the locks then waits for the file system: with
	// Try, nothing changes, and the verdict is WouldWait.
	Claimer vfs.Claimer
	Try     bool
}

// HostUnlock unlocks those parts of a range that an owner of a host has locked by the export of r, and ends its waiting
// for locks that overlap the range. If that succeeds, it calls done, unless it is nil: see LockArgs.Held.
func (m *Manager) HostUnlock(r *HostRange, done func()) Verdict {
	return m.hostChange(r, func(g *guard, what *byterange.Range, id fileID) Verdict {
		verdict := g.hostUnlock(r, what, id)
		if verdict == Granted && done != nil {
			done()
		}
		return verdict
	})
}

// hostChange calls change for the locks in a range, and then makes the server's claims match them.
func (m *Manager) hostChange(r *HostRange, change func(g *guard, what *byterange.Range, id fileID) Verdict) Verdict {
	what, ok := byterange.At(r.Offset, r.Length, false)
	if !ok {
		return Invalid
	}
	id := r.Key.id()
	guarded := func() Verdict {
		g := m.acquire()
		defer g.release()
		return change(g, &what, id)
	}
	if r.Claimer == nil {
		return guarded()
	}
	c := m.claimed(r.Key, r.Claimer, r.Try, vfs.ClaimNone)
	if c == nil {
		return WouldWait
	}
	defer m.unclaimed(c)
	verdict := guarded()
	if verdict == Granted {
		// If followLocked fails, the kernel keeps needless claims until the file is closed.
		_ = m.followLocked(c, what)
	}
	return verdict
}

// hostLockState returns what an owner of a host has locked in a file, or nil.
func (g *guard) hostLockState(r *HostRange, id fileID) *State {
	open := g.findHostOpen(r.Client, nil, &r.Ref, id)
	if open == nil {
		return nil
	}
	return open.locks[r.Client.holding.owners[ownerKey{true, string(r.Owner)}]]
}

func (g *guard) hostUnlock(r *HostRange, what *byterange.Range, id fileID) Verdict {
	if of := g.files.byID[id]; of != nil {
		of.waitsNot(g, r.Client, string(r.Owner), what)
		g.released(of)
	}
	s := g.hostLockState(r, id)
	if s == nil {
		return Granted
	}
	of := s.file
	if s.held.Ranges().Splits(what.First, what.Last) {
		if verdict := g.mayGrow(r.Client, of, lockCount{ranges: 1}); verdict != Granted {
			return verdict
		}
	}
	g.counted(s, of.locked.Unlock(&s.held, what.First, what.Last))
	if len(s.held.Ranges()) == 0 {
		g.endLock(s)
	}
	g.released(of)
	return Granted
}

// HostAwaits reports whether an owner of a host waits for exactly this lock, since the LOCK that had this tag.
func (m *Manager) HostAwaits(r *HostRange, write bool, tag any) bool {
	what, ok := byterange.At(r.Offset, r.Length, write)
	id := r.Key.id()
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.files.byID[id]
	return ok && of != nil && of.awaits(r.Client, string(r.Owner), what, tag)
}

// HostHolds reports whether an owner of a host has locked something in a range. It returns false for what the server is about
// to end, because it ends the host, or takes away what the host has locked in the file.
func (m *Manager) HostHolds(r *HostRange) bool {
	what, ok := byterange.At(r.Offset, r.Length, false)
	if !ok || r.Client.known.ending.Load() {
		return false
	}
	id := r.Key.id()
	g := m.acquire()
	defer g.release()
	s := g.hostLockState(r, id)
	return s != nil && !s.isRevoked() && len(s.held.Ranges().Part(what.First, what.Last)) > 0
}

// HostCancel ends the waiting of an owner of a host for a lock. It returns false if the owner does not wait for it. With a
// Claimer it first waits until no LOCK of the file is with the file system: if the claim is refused, the owner of that LOCK
// begins to wait then (undo.waiter).
func (m *Manager) HostCancel(r *HostRange, write bool) (waited bool) {
	m.hostChange(r, func(g *guard, what *byterange.Range, id fileID) Verdict {
		want := *what
		want.Write = write
		if of := g.files.byID[id]; of != nil {
			of.unqueue(g, func(w *waiter) bool {
				is := w.Client == r.Client && w.Owner == string(r.Owner) && w.want == want
				waited = waited || is
				return is
			})
			if waited {
				g.released(of) // the lock may have been reserved for this owner, or its place kept others waiting
			}
		}
		return NotFound // no lock has changed, so the claims need not follow
	})
	return waited
}
