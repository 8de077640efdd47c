package state

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A Ref is a stateid as a request has it.
type Ref struct {
	ID nfs4wire.StateID4
	// Client is who asks, or nil in minor version 0.
	Client *Client
	// Key is the file that it is asked about.
	Key FileKey
}

// Resolve returns the state that r names, of the kind given, or of any kind for 0. It
// takes no lock, so that the state may be gone when it returns.
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

// held is Resolve with m.mu held: the state is not gone.
func (m *Manager) held(r *Ref, kind Kind) (*State, Status) {
	s, status := m.Resolve(r, kind)
	if status == nfs4wire.NFS4OK && s.file == nil {
		return nil, nfs4wire.NFS4ErrBadStateID
	}
	return s, status
}

// OpenArgs are what Open works with.
type OpenArgs struct {
	Client *Client
	// Owner is the open-owner where its requests are numbered, else nil: the one
	// called OwnerName.
	Owner     *Owner
	OwnerName []byte
	Key       FileKey
	// Access is what the file is opened for, and Deny what others must not open it
	// for. Needs is access that will be made use of once: what cuts the file writes.
	Access, Deny, Needs Access
	// Try: WouldWait is answered where Open would have to wait.
	Try bool
	// Claimed: it was open before the server's restart.
	Claimed bool
	// Roomy: RoomToOpen has found room, and a file was made since. It is not looked for again:
	// an OPEN that was to find no file would come again, and find its own.
	Roomy bool
	// By is who opens the file. What is granted to it by the OPEN stays granted.
	By Principal
	// File is open for Access, or nil where the file system has no open files. Open
	// takes it over where it succeeds.
	File vfs.File
}

// An Opening is what came of an Open.
type Opening struct {
	ID nfs4wire.StateID4
	// Confirm: the open-owner has to be confirmed before the stateid can be used.
	Confirm bool

	state *State
	// before is what there was.
	before      modes
	beforeSeqid uint32
}

// For is State.For, of what was opened.
func (o *Opening) For(want Access, by Principal) (vfs.File, Status) { return o.state.For(want, by) }

// Open makes the file open for the owner, beside what the owner has it open for already.
// NFS4ERR_SHARE_DENIED: that cannot be beside what is open (RFC 8881 §18.16.3).
func (m *Manager) Open(a *OpenArgs) (o Opening, status Status) {
	if !m.settled(a.Try, func(l *leftovers, late *courtesy) {
		o, status = m.open(a, l, late)
	}) {
		return o, WouldWait
	}
	return o, status
}

func (m *Manager) open(a *OpenArgs, l *leftovers, late *courtesy) (o Opening, status Status) {
	if status := mayBegin(a.Client); status != nfs4wire.NFS4OK {
		return o, status
	}
	if s := m.mayHold(a.Client, a.Claimed); s != nfs4wire.NFS4OK {
		return o, s
	}
	if !m.isRecorded(a.Client, a.Claimed) {
		return o, nfs4wire.NFS4ErrDelay // its lease ran out under this request
	}
	if a.Owner != nil && !a.Owner.Confirmed() {
		// What was opened and not confirmed is replaced (RFC 7530 §16.18.5).
		m.abandon(a.Owner, l)
	}
	if m.shareConflict(a, late) {
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
	if s := m.mayOpen(a.Client, a.Key); s != nfs4wire.NFS4OK && a.File != nil && !a.Roomy {
		if !owner.holds() && a.Owner == nil {
			m.forgetOwner(owner)
		}
		return o, s
	}
	of := m.files.file(a.Key)
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
		m.reclaimed(a.Client)
	}
	return o, nfs4wire.NFS4OK
}

// shareConflict says whether a cannot be beside what is open, its own owner's opens included
// (RFC 8881 §9.7). late receives the clients that stand in the way and have no lease.
func (m *Manager) shareConflict(a *OpenArgs, late *courtesy) (conflict bool) {
	of := m.files.byID[a.Key.id()]
	if of == nil {
		return false
	}
	of.opens.each(a.Deny, a.Access|a.Needs, func(s *State) bool {
		conflict = true
		late.blame(m, s.Client)
		return !late.firm
	})
	return conflict
}

// become makes modes the ways in which s is open, and closes what is open for others.
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

// TakeBack undoes an Open whose result is not given to the client, as far as nothing
// was built on it.
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

// Downgrade is OPEN_DOWNGRADE (RFC 8881 §18.18): what is left has to be what some of the
// opens come to.
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

// CloseOpen is CLOSE (RFC 8881 §18.2, RFC 7530 §16.2). Locks that were made by way of the
// open are given up, as the RFCs leave to the server. With try, WouldWait is answered where
// some of them are claimed towards the processes of this machine: to give that up waits for
// the file system.
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

// claims says whether anything that is locked by way of the open s is claimed.
func (s *State) claims(m *Manager) bool {
	if m.files.claims[s.Key] == nil {
		return false
	}
	for _, lock := range s.locks {
		if len(lock.ranges) > 0 {
			return true
		}
	}
	return false
}

// FreeStateID is FREE_STATEID (RFC 8881 §18.38), also of what was revoked.
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
	case s.Kind != KindLock, len(s.ranges) > 0:
		status = nfs4wire.NFS4ErrLocksHeld
	default:
		m.endLock(s, false, &l)
	}
	m.mu.Unlock()
	m.finish(&l)
	return status
}
