package state

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A Ref is a stateid in a request.
type Ref struct {
	ID nfs4wire.StateID4
	// Client is the client that sent the request; nil in minor version 0.
	Client *Client
	// Key is the file that the request is about.
	Key FileKey
}

// Resolve returns the state that r names. kind 0 accepts any kind. Resolve takes no lock, so the
// state may already be gone when it returns.
func (m *Manager) Resolve(r *Ref, kind Kind) (*State, Status) {
	s, status := m.named(&r.ID, r.Client)
	switch {
	case status != nfs4wire.NFS4OK:
		return nil, status
	case s.revoked.Load():
		return nil, nfs4wire.NFS4ErrAdminRevoked
	case s.Key != r.Key, kind != 0 && s.Kind != kind, !s.Owner.Confirmed():
		return nil, nfs4wire.NFS4ErrBadStateID
	}
	if status = s.current(&r.ID, r.Client); status != nfs4wire.NFS4OK {
		return nil, status
	}
	return s, nfs4wire.NFS4OK
}

// held is Resolve for a caller that holds m.mu: the state exists until the caller releases m.mu.
func (m *Manager) held(r *Ref, kind Kind) (*State, Status) {
	s, status := m.Resolve(r, kind)
	if status == nfs4wire.NFS4OK && s.file == nil {
		return nil, nfs4wire.NFS4ErrBadStateID
	}
	return s, status
}

// OpenArgs are the arguments of Open.
type OpenArgs struct {
	Client *Client
	// Owner is the open-owner if its requests are numbered (minor version 0). If it is nil,
	// OwnerName is the open-owner's name.
	Owner     *Owner
	OwnerName []byte
	Key       FileKey
	// Access has the accesses that the client asks for, Deny those that it denies to others.
	// Needs has the accesses that the OPEN itself uses once: truncation needs write access.
	Access, Deny, Needs Access
	// Try makes Open return WouldWait if it would have to wait.
	Try bool
	// Claimed is true if the client reclaims an open that it had before the server's restart.
	Claimed bool
	// Roomy is true if RoomToOpen has returned NFS4_OK, and the caller has created a file since.
	// Open then does not check again whether the client may have more state and open files. If Open
	// failed now, the client would repeat its OPEN, and an OPEN that has to create the file would
	// fail because the file exists.
	Roomy bool
	// By is the principal that opens the file. It may use File as long as the open has the access
	// for which File is open.
	By Principal
	// File is open for Access; nil if the file system has no open files. If Open succeeds, the
	// Manager owns File and closes it.
	File vfs.File
}

// An Opening is the result of an Open.
type Opening struct {
	ID nfs4wire.StateID4
	// Confirm is true if the client has to confirm the open-owner before it can use the stateid.
	Confirm bool

	state *State
	// before and beforeSeqid are the modes and the seqid that the state had before this Open.
	// TakeBack restores them.
	before      modes
	beforeSeqid uint32
}

// For is State.For of the opened state.
func (o *Opening) For(want Access, by Principal) (vfs.File, Status) { return o.state.For(want, by) }

// Open opens the file for the owner, in addition to its earlier opens of the file. If the open
// conflicts with another one, Open returns NFS4ERR_SHARE_DENIED (RFC 8881 §18.16.3).
func (m *Manager) Open(a *OpenArgs) (o Opening, status Status) {
	id, room := a.Key.id(), openRoomOf(a.Key.Domain)
	if !m.settled(a.Try, func(l *leftovers, late *courtesy) {
		o, status = m.open(a, id, room, l, late)
	}) {
		return o, WouldWait
	}
	return o, status
}

func (m *Manager) open(a *OpenArgs, id fileID, room openRoom, l *leftovers, late *courtesy) (o Opening, status Status) {
	if status := mayBegin(a.Client); status != nfs4wire.NFS4OK {
		return o, status
	}
	if s := m.mayHold(a.Client, a.Deny, a.Claimed); s != nfs4wire.NFS4OK {
		return o, s
	}
	if !m.isRecorded(a.Client, a.Deny, a.Claimed) {
		return o, nfs4wire.NFS4ErrDelay // the client's lease ran out during this request
	}
	if a.Owner != nil && !a.Owner.Confirmed() {
		// The new OPEN replaces the unconfirmed opens (RFC 7530 §16.18.5).
		m.abandon(a.Owner, l)
	}
	if m.conflictLocked(id, a.Deny, a.Access|a.Needs, nil, late) { // opens of the same owner conflict too (RFC 8881 §9.7)
		return o, nfs4wire.NFS4ErrShareDenied
	}
	if !a.Roomy && m.crowded(a.Client) {
		return o, m.full(a.Client)
	}
	owner := a.Owner
	if owner == nil {
		owner = m.owner(a.Client, a.OwnerName, false)
	}
	if owner == nil || !owner.known {
		return o, m.full(a.Client)
	}
	if s := m.mayOpen(a.Client, id, room); s != nfs4wire.NFS4OK && a.File != nil && !a.Roomy {
		if !owner.holds() && a.Owner == nil {
			m.forgetOwner(owner)
		}
		return o, s
	}
	of := m.files.file(id)
	s := owner.states[shown{of, a.Key.Domain}]
	if s == nil {
		s = &State{Kind: KindOpen, Client: a.Client, Owner: owner, Key: a.Key}
		s.opened.Store(&opened{})
		if !m.enlist(s, of) {
			m.tidy(of)
			if !owner.holds() && a.Owner == nil {
				m.forgetOwner(owner)
			}
			return o, m.full(a.Client)
		}
		m.files.usage.opens++
		o.ID = s.ID()
	} else {
		o.before, o.beforeSeqid = s.modes, s.seqid.Load()
		o.ID = s.bump()
	}
	if a.Claimed {
		owner.confirmed.Store(true) // RFC 7530 §9.1.11
	}
	if o.state, o.Confirm = s, !owner.Confirmed(); o.Confirm {
		m.awaits(owner)
	}
	if old := s.opened.Load(); !old.grants[a.Access].open {
		next := *old
		next.grants[a.Access] = grant{true, a.By, a.File}
		s.opened.Store(&next)
	} else {
		l.close(a.File)
	}
	m.become(s, s.modes|mode(a.Access, a.Deny), l)
	if a.Claimed {
		a.Client.known.reclaim.held |= heldBy(a.Deny)
		m.reclaimed(a.Client)
	}
	return o, nfs4wire.NFS4OK
}

// become gives s the modes in now, and closes the open files for accesses that s no longer has.
func (m *Manager) become(s *State, now modes, l *leftovers) {
	s.file.opens.remove(s)
	s.modes = now
	s.file.opens.add(s)
	next := *s.opened.Load()
	next.access, _ = now.union()
	for i := range next.grants {
		if g := &next.grants[i]; g.open && !now.has(Access(i)) {
			l.close(g.file)
			*g = grant{}
		}
	}
	s.opened.Store(&next)
	m.tidy(s.file)
}

// TakeBack undoes an Open whose result does not reach the client, unless a later request already
// uses its stateid.
func (m *Manager) TakeBack(o *Opening) {
	var l leftovers
	m.mu.Lock()
	if s := o.state; s.file != nil && s.seqid.Load() == o.ID.Seqid && len(s.locks) == 0 {
		if o.before == 0 {
			m.drop(s, &l)
		} else {
			m.become(s, o.before, &l)
			s.seqid.Store(o.beforeSeqid)
		}
	}
	m.mu.Unlock()
	m.finish(&l)
}

// ConfirmOpen is OPEN_CONFIRM (RFC 7530 §16.18).
func (m *Manager) ConfirmOpen(r *Ref) (id nfs4wire.StateID4, status Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, status := m.Find(&r.ID, r.Client)
	switch {
	case status != nfs4wire.NFS4OK:
		return id, status
	case s.file == nil, s.Key != r.Key, s.Kind != KindOpen, s.Owner.Confirmed():
		return id, nfs4wire.NFS4ErrBadStateID
	}
	s.Owner.confirmed.Store(true)
	delete(m.files.unconfirmed, s.Owner)
	return s.bump(), nfs4wire.NFS4OK
}

// Downgrade is OPEN_DOWNGRADE (RFC 8881 §18.18). The new access and deny bits must be the union
// of some of the earlier opens.
func (m *Manager) Downgrade(r *Ref, access, deny Access) (id nfs4wire.StateID4, status Status) {
	var l leftovers
	m.mu.Lock()
	s, status := m.held(r, KindOpen)
	if status == nfs4wire.NFS4OK {
		left := s.modes.within(access, deny)
		if a, d := left.union(); a != access || d != deny {
			status = nfs4wire.NFS4ErrInvalid
		} else {
			m.become(s, left, &l)
			id = s.bump()
		}
	}
	m.mu.Unlock()
	m.finish(&l)
	return id, status
}

// CloseOpen is CLOSE (RFC 8881 §18.2, RFC 7530 §16.2). It also ends the locks made through the
// open; the RFCs leave that to the server. If the Manager has local claims for these locks, giving
// them up waits for the file system: with try, CloseOpen then does nothing and returns WouldWait.
func (m *Manager) CloseOpen(r *Ref, try bool) (id nfs4wire.StateID4, status Status) {
	var l leftovers
	m.mu.Lock()
	s, status := m.held(r, KindOpen)
	switch {
	case status != nfs4wire.NFS4OK:
	case try && s.claims(m):
		status = WouldWait
	default:
		id = s.bump()
		m.drop(s, &l)
	}
	m.mu.Unlock()
	m.finish(&l)
	return id, status
}

// claims reports whether the server has claims in the local file system for locks made through the
// open s (see localClaim).
func (s *State) claims(m *Manager) bool {
	if m.files.claims[s.Key] == nil {
		return false
	}
	for _, lock := range s.locks {
		if len(lock.held.Ranges()) > 0 {
			return true
		}
	}
	return false
}

// FreeStateID is FREE_STATEID (RFC 8881 §18.38). It also frees revoked stateids.
func (m *Manager) FreeStateID(id *nfs4wire.StateID4, c *Client) Status {
	var l leftovers
	m.mu.Lock()
	s, status := m.named(id, c)
	if status == nfs4wire.NFS4OK && !s.revoked.Load() {
		status = s.current(id, c)
	}
	switch {
	case status != nfs4wire.NFS4OK:
	case s.revoked.Load():
		m.acknowledge(s)
	case s.Kind != KindLock, len(s.held.Ranges()) > 0:
		status = nfs4wire.NFS4ErrLocksHeld
	default:
		m.endLock(s, false, &l)
	}
	m.mu.Unlock()
	m.finish(&l)
	return status
}
