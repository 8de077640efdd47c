package state

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// HostLock locks a range of a file for an owner (a.OwnerName) of the host a.Host, which has no stateids: of a.Ref
// only the file counts. It first has the host recorded. The statuses are those of Lock and of Record. If a.Wait is
// true and the status is NFS4ERR_DENIED, the owner waits for the lock (NotifyHosts), unless its host or its address
// waits for too many. No notice comes if the Denied is of a process of this machine (its ClientID is 0): the caller
// tries again, with IfWaits.
func (m *Manager) HostLock(a *LockArgs) (d *Denied, status Status) {
	if _, ok := byterange.At(a.Offset, a.Length, a.Write); !ok {
		return nil, nfs4wire.NFS4ErrInvalid
	}
	a.New, a.id, a.room = true, a.Key.id(), openRoomOf(a.Key.Domain)
	switch s, first := m.MayHold(a.Host, 0, a.Claimed); {
	case s != nfs4wire.NFS4OK:
		return nil, s
	case first:
		if s = m.Record(a.Host, 0, a.Later); s != nfs4wire.NFS4OK {
			return nil, s
		}
	}
	m.Renew(a.Host)
	_, d, status = m.Lock(a)
	return d, status
}

// hostLocker is locker for an owner of a host.
func (g *guard) hostLocker(a *LockArgs) (s, open *State, owner *Owner, status Status) {
	if open, status = g.hostOpen(a); status != nfs4wire.NFS4OK {
		return nil, nil, nil, status
	}
	g.idle = append(g.idle, open) // in case that the lock is refused
	owner = a.Host.holding.owners[ownerKey{true, string(a.OwnerName)}]
	return open.locks[owner], open, owner, nfs4wire.NFS4OK
}

// HostTest looks for a lock that keeps an owner of a host from locking a range: see TestLock. The host is nil if it
// has locked nothing.
func (m *Manager) HostTest(host *Client, owner []byte, key FileKey, offset, length uint64, write bool, claimer vfs.Claimer, later *Later) (*Denied, Status) {
	if host == nil {
		host = &Client{Minor: Host}
	}
	return m.TestLock(host, owner, key, offset, length, write, claimer, later)
}

// HostUnlock unlocks those parts of a range that an owner of a host has locked by the export of r. If claimer is
// not nil, HostUnlock also gives up the server's claims on the range, and waits for that.
func (m *Manager) HostUnlock(host *Client, owner []byte, r *Ref, offset, length uint64, claimer vfs.Claimer) Status {
	what, ok := byterange.At(offset, length, false)
	if !ok {
		return nfs4wire.NFS4ErrInvalid
	}
	id := r.Key.id()
	if claimer == nil {
		return m.hostUnlock(host, owner, r, id, what)
	}
	c := m.claimed(r.Key, claimer)
	defer m.unclaimed(c)
	status := m.hostUnlock(host, owner, r, id, what)
	if status == nfs4wire.NFS4OK {
		// If followLocked fails, the kernel keeps needless claims until the file is closed.
		_ = m.followLocked(c, what)
	}
	return status
}

func (m *Manager) hostUnlock(host *Client, owner []byte, r *Ref, id fileID, what byterange.Range) Status {
	g := m.acquire()
	defer g.release()
	open := g.findHostOpen(host, nil, r, id)
	if open == nil {
		return nfs4wire.NFS4OK
	}
	s := open.locks[host.holding.owners[ownerKey{true, string(owner)}]]
	if s == nil {
		return nfs4wire.NFS4OK
	}
	of := s.file
	if s.held.Ranges().Splits(what.First, what.Last) {
		if status := g.mayGrow(host, of, lockCount{ranges: 1}); status != nfs4wire.NFS4OK {
			return status
		}
	}
	g.counted(s, of.locked.Unlock(&s.held, what.First, what.Last))
	if len(s.held.Ranges()) == 0 {
		g.endLock(s)
	}
	g.released(of)
	return nfs4wire.NFS4OK
}

// HostCancel ends the waiting of an owner of a host for a lock. It returns false if the owner does not wait for it.
func (m *Manager) HostCancel(host *Client, owner []byte, r *Ref, offset, length uint64, write bool) (waited bool) {
	what, ok := byterange.At(offset, length, write)
	if !ok {
		return false
	}
	id := r.Key.id()
	g := m.acquire()
	defer g.release()
	of := g.files.byID[id]
	if of == nil {
		return false
	}
	of.unqueue(g, func(w *waiter) bool {
		is := w.Client == host && w.Owner == string(owner) && w.want == what
		waited = waited || is
		return is
	})
	if waited {
		g.released(of) // the lock may have been reserved for this owner, or its place kept others waiting
	}
	return waited
}
