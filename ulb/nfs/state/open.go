package state

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A Ref is a stateid in a request.
type Ref struct {
	ID StateID
	// Client is the client that sent the request; nil in minor version 0.
	Client *Client
	// Key is the file that the request is about, and Export the export by which it reaches the file: see
	// State.Export.
	Key    FileKey
	Export uint32
}

// Resolve returns the state that r names; kind 0 accepts any kind. It takes no lock: see held.
func (m *Manager) Resolve(r *Ref, kind Kind) (*State, Verdict) {
	s, verdict := m.named(&r.ID, r.Client)
	switch {
	case verdict != Granted:
		return nil, verdict
	case s.isRevoked():
		return nil, RevokedID
	case !r.reaches(s), kind != 0 && s.Kind != kind, !s.Owner.Confirmed():
		return nil, UnknownID
	}
	if verdict = s.current(&r.ID, r.Client); verdict != Granted {
		return nil, verdict
	}
	return s, Granted
}

// reaches reports whether the request is about the file of s, in the export by which the client opened it.
// A stateid is valid in no other export, because a caller may see this file there with other rights.
func (r *Ref) reaches(s *State) bool { return s.Key == r.Key && s.Export == r.Export }

// held is Resolve under the mutex: the state exists until release.
func (g *guard) held(r *Ref, kind Kind) (*State, Verdict) {
	s, verdict := g.Resolve(r, kind)
	if verdict == Granted && s.file == nil {
		return nil, UnknownID
	}
	return s, verdict
}

// A Principal identifies who acts in a call, in one export: the caller after the export's squashing. Equal
// Principals are the same. What the call says of its caller (rpc.Cred) is only a claim: root of a client
// that the export squashes is not root.
type Principal struct {
	// Proven is the caller's name if the RPC flavor proves it. If it is "", the caller claims its number.
	Proven string
	// UID is the user whose rights the file system gives to the caller. Anonymous is true if it is the export's
	// anonymous user, who has neither the groups nor the opens of a user with that number.
	UID       uint32
	Anonymous bool
}

// OpenArgs are the arguments of Open.
type OpenArgs struct {
	Client *Client
	// Owner is the open-owner in minor version 0. Otherwise it is nil, and OwnerName is its name.
	Owner     *Owner
	OwnerName []byte
	// Key is the file, and Export the export by which the client opens it: see State.Export.
	Key    FileKey
	Export uint32
	// Access and Deny are those of the OPEN: what the client wants to do, and what others must not do. Needs has the
	// accesses that the OPEN itself uses once: truncation needs write access.
	Access, Deny, Needs Access
	// Later, if not nil, makes Open return AfterDisk where it would have to wait for the disk, or for the end of a Hold.
	// Try makes it return WouldWait where an open that denies writing would have to wait for changes that are under way.
	Later *Later
	Try   bool
	// Claimed is true if the client reclaims an open that it had before the server's restart.
	Claimed bool
	// Roomy is true if RoomToOpen has returned Granted, and the caller has created the file since.
	// Open then does not check again whether there is room for one more open. If it refused the open
	// now, the file would exist, and a repeated OPEN that has to create the file would fail.
	Roomy bool
	// By is the principal that opens the file. It may use File as long as the open has Access.
	By Principal
	// File is open for Access; nil if the file system has no open files. If Open succeeds, the
	// Manager owns File and closes it.
	File vfs.File

	// replaces is an open of the same owner, which the new one replaces; nil if the new one is added to those of the owner.
	replaces *State
	// held is true if no change is under way for which an open with this deny mode has to wait: see denying. If it is
	// false, open grants nothing, and sets unheld if it has no other reason.
	held, unheld bool
}

// An Opening is the result of an Open.
type Opening struct {
	ID StateID
	// Pass is for the accesses in OpenArgs.Needs. The caller ends it after these accesses.
	Pass Pass
	// Confirm is true if the client has to confirm the open-owner before it can use the stateid.
	Confirm bool

	state *State
	// before and beforeSeqid are what TakeBack restores: the modes and the seqid before this Open.
	before      modes
	beforeSeqid uint32
}

// For is State.For of the opened state.
func (o *Opening) For(want Access, by Principal) (vfs.File, Verdict) { return o.state.For(want, by) }

// Open opens the file for the owner, in addition to its earlier opens of the file. If the open
// conflicts with another one, Open returns OpenConflict (RFC 8881 §18.16.3).
func (m *Manager) Open(a *OpenArgs) (o Opening, verdict Verdict) {
	id, room := a.Key.id(), openRoomOf(a.Key.Domain)
	verdict = m.denying(a, id, func(own *Hold) (verdict Verdict) {
		pass, verdict := m.truncating(a, id, own)
		if verdict != Granted {
			return verdict
		}
		if !m.settled(a.Later, func(g *guard) { o, verdict = g.open(a, id, room) }) {
			verdict = AfterDisk
		}
		if o.Pass = pass; verdict != Granted {
			pass.Done()
			o.Pass = Pass{}
		}
		return verdict
	})
	return o, verdict
}

// truncating begins the truncation that belongs to the open, if one does. It begins after the open's own hold, so that
// two such opens do not wait for each other, and no other hold may stop it. A file that the caller has just created
// has no other holds that matter.
func (m *Manager) truncating(a *OpenArgs, id fileID, own *Hold) (p Pass, v Verdict) {
	if a.Needs&AccessWrite == 0 {
		return p, Granted
	}
	p = m.ways.begin(&a.Key.Handle)
	if a.Roomy {
		return p, Granted
	}
	i := Intent{Use: UseWrite, File: a.Key.Handle, Client: a.Client, Later: a.Later}
	h := m.files.denials.heldBy(id, &i, own)
	if h == nil {
		return p, Granted
	}
	p.Done()
	switch h.stopped(&i) {
	case Delayed:
		return Pass{}, AfterDisk
	case No:
		return Pass{}, OpenConflict
	}
	return Pass{}, TryLater
}

// grantWait is how long an OPEN that denies writing waits for changes that are under way.
const grantWait = 5 * time.Second

// denying opens a file by f. If the open denies writing, denying gets a hold that stops new changes of the file, waits until
// those under way have ended, and passes the hold to f. If another open seems to conflict, denying first runs f without a
// hold, and does not wait if f refuses for that conflict (OpenArgs.held). If the caller has just created the file, denying
// does not wait: if the open failed now, the file would exist, and a repeated OPEN that has to create it would fail.
func (m *Manager) denying(a *OpenArgs, id fileID, f func(own *Hold) Verdict) Verdict {
	a.held, a.unheld = a.Deny&AccessWrite == 0, false
	if a.held {
		return f(nil)
	}
	// The other open may have ended when f looks, and for a share it may be the one that f replaces.
	if m.conflicts(a, id) {
		if v := f(nil); !a.unheld {
			return v
		}
	}
	a.held = true
	h := &Hold{Key: a.Key, Stops: ofDenyWrite, Conflict: func(*Intent) Answer { return Delayed }}
	long := grantWait
	if a.Try || a.Roomy {
		long = 0
	}
	switch {
	case m.announce(h, long):
		defer m.Lift(h)
		return f(h)
	case a.Roomy:
		return f(nil)
	case a.Try:
		return WouldWait
	}
	return TryLater
}

// conflicts reports whether an open of a client with a valid lease conflicts: the caller need not wait for more.
func (m *Manager) conflicts(a *OpenArgs, id fileID) bool {
	g := m.acquire()
	defer g.release()
	return g.conflict(id, a.Deny, a.Access|a.Needs, nil) && g.late.firm
}

func (g *guard) open(a *OpenArgs, id fileID, room openRoom) (o Opening, verdict Verdict) {
	if verdict := g.mayBegin(a.Client); verdict != Granted {
		return o, verdict
	}
	if s := g.mayHold(a.Client, KindOpen, a.Deny, a.Claimed); s != Granted {
		return o, s
	}
	if !g.isRecorded(a.Client, KindOpen, a.Deny, a.Claimed) {
		return o, TryLater // the client's lease ran out during this request
	}
	if a.Owner != nil && !a.Owner.Confirmed() {
		// The new OPEN replaces the unconfirmed opens (RFC 7530 §16.18.5).
		g.abandon(a.Owner)
	}
	var by *Intent
	if a.replaces != nil {
		by = &Intent{By: a.replaces}
	}
	if g.conflict(id, a.Deny, a.Access|a.Needs, by) { // opens of the same owner conflict too (RFC 8881 §9.7)
		return o, OpenConflict
	}
	if !a.held {
		a.unheld = true
		return o, TryLater
	}
	if !a.Roomy && g.crowded(a.Client) {
		return o, g.full(a.Client)
	}
	if s := g.mayOpen(a.Client, id, room); s != Granted && a.File != nil && !a.Roomy {
		return o, s
	}
	owner := a.Owner
	if owner == nil {
		owner = g.owner(a.Client, a.OwnerName, false)
	}
	if owner == nil || !owner.known {
		return o, g.full(a.Client)
	}
	of := g.files.byID[id]
	if of == nil {
		of = &file{id: id}
		g.files.byID[id] = of
	}
	s := owner.states[place{shown{of, a.Key.Domain}, a.Export}]
	if s != nil && s.isRevoked() {
		return o, TryLater // the server still ends its locks
	}
	if s == nil {
		s = &State{Kind: KindOpen, Client: a.Client, Owner: owner, Key: a.Key, Export: a.Export}
		s.opened.Store(&opened{})
		if !g.enlist(s, of) {
			g.tidy(of)
			if !owner.holds() && a.Owner == nil {
				g.forgetOwner(owner)
			}
			return o, g.full(a.Client)
		}
		g.files.usage.Opens++
		o.ID = s.ID()
	} else {
		o.before, o.beforeSeqid = s.modes, s.seqid.Load()
		o.ID = g.bump(s)
	}
	if a.Claimed {
		owner.confirmed.Store(true) // RFC 7530 §9.1.11
	}
	if o.state, o.Confirm = s, !owner.Confirmed(); o.Confirm {
		g.files.unconfirmed[owner] = g.now()
	}
	if old := s.opened.Load(); !old.grants[a.Access].open {
		next := *old
		next.grants[a.Access] = grant{true, a.By, a.File}
		s.opened.Store(&next)
	} else {
		g.close(a.File)
	}
	now := mode(a.Access, a.Deny)
	if a.replaces == nil {
		now |= s.modes
	}
	g.become(s, now)
	if a.Client.known.reclaim.held |= heldBy(KindOpen, a.Deny); a.Claimed {
		g.reclaimed(a.Client)
	}
	return o, Granted
}

// become gives s the modes in now, and closes the open files for accesses that s no longer has.
func (g *guard) become(s *State, now modes) {
	s.file.opens.remove(s)
	s.modes = now
	s.file.opens.add(s)
	next := *s.opened.Load()
	next.access, _ = now.union()
	for i := range next.grants {
		if unused := &next.grants[i]; unused.open && !now.has(Access(i)) {
			g.close(unused.file)
			*unused = grant{}
		}
	}
	s.opened.Store(&next)
	g.tidy(s.file)
}

// TakeBack undoes an Open that the client does not learn of, unless a later request uses its stateid.
func (m *Manager) TakeBack(o *Opening) {
	g := m.acquire()
	defer g.release()
	if s := o.state; s.file != nil && s.seqid.Load() == o.ID.Seqid && len(s.locks) == 0 {
		if o.before == 0 {
			g.drop(s)
		} else {
			g.become(s, o.before)
			s.seqid.Store(o.beforeSeqid)
		}
	}
}

// ConfirmOpen is OPEN_CONFIRM (RFC 7530 §16.18).
func (m *Manager) ConfirmOpen(r *Ref) (id StateID, verdict Verdict) {
	g := m.acquire()
	defer g.release()
	s, verdict := m.Find(&r.ID, r.Client)
	switch {
	case verdict != Granted:
		return id, verdict
	case s.file == nil, !r.reaches(s), s.Kind != KindOpen, s.Owner.Confirmed():
		return id, UnknownID
	}
	s.Owner.confirmed.Store(true)
	delete(m.files.unconfirmed, s.Owner)
	return g.bump(s), Granted
}

// Downgrade is OPEN_DOWNGRADE (RFC 8881 §18.18). The new access and deny bits must be the union
// of some of the earlier opens.
func (m *Manager) Downgrade(r *Ref, access, deny Access) (id StateID, verdict Verdict) {
	g := m.acquire()
	defer g.release()
	s, verdict := g.held(r, KindOpen)
	if verdict != Granted {
		return id, verdict
	}
	left := s.modes.within(access, deny)
	if a, d := left.union(); a != access || d != deny {
		return id, Invalid
	}
	g.become(s, left)
	return g.bump(s), verdict
}

// CloseOpen is CLOSE (RFC 8881 §18.2, RFC 7530 §16.2). It also ends the locks made through the open,
// as the RFCs allow. If it has to give up local claims for these locks, it waits for the file system:
// with try, it then does nothing and returns WouldWait.
//
// The locks end in pieces. If the client opens the file once more between two pieces, CloseOpen returns OldID and leaves the
// open, because the server has granted it to the client. The locks that have ended stay ended.
func (m *Manager) CloseOpen(r *Ref, try bool) (id StateID, verdict Verdict) {
	return m.closeOpen(r, try, nil)
}

// closeOpen is CloseOpen. It calls between as a piecewise does.
func (m *Manager) closeOpen(r *Ref, try bool, between func() bool) (id StateID, verdict Verdict) {
	p := m.inPieces(between)
	defer p.end()
	for {
		s, verdict := p.held(r, KindOpen)
		switch {
		case verdict == RevokedID && !p.told(&r.ID, r.Client):
			return id, TryLater
		case verdict != Granted:
			return id, verdict
		case try && p.hasClaims(s):
			return id, WouldWait
		}
		p.waits = !try
		if len(s.locks) > 0 {
			p.endLocks(s) // between two pieces the client may have made another lock, or lost the open
			continue
		}
		id = p.bump(s)
		p.endOpen(s) // in this piece, because there are no locks
		return id, verdict
	}
}

// hasClaims reports whether the server has local claims for locks made through the open s.
func (g *guard) hasClaims(s *State) bool {
	if g.files.claims[s.Key] == nil {
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
func (m *Manager) FreeStateID(id *StateID, c *Client) Verdict {
	g := m.acquire()
	defer g.release()
	s, verdict := g.named(id, c)
	if verdict == Granted && !s.isRevoked() {
		verdict = s.current(id, c)
	}
	switch {
	case verdict != Granted:
		return verdict
	case s.isRevoked() && s.file != nil:
		return TryLater // the server still ends its locks
	case s.isRevoked():
		g.acknowledge(s)
	case s.Kind != KindLock, len(s.held.Ranges()) > 0:
		return HoldsLocks
	default:
		g.endLock(s)
	}
	return verdict
}
