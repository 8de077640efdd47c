package nfs41

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// sessionFlags are the flags that a client may set.
const sessionFlags = wire.CreateSession4FlagPersist | wire.CreateSession4FlagConnBackChan | wire.CreateSession4FlagConnRDMA

// createSession is CREATE_SESSION (RFC 8881 §18.36).
func (m *Minor) createSession(k *nfs4.Compound, args *wire.CreateSession4Args) nfs4.Status {
	owner := m.state.Client(args.Clientid)
	c := clientOf(owner)
	switch {
	case c == nil:
		return wire.NFS4ErrStaleClientID
	case !c.protect.permits(&k.Call.Cred, wire.OpCreateSession):
		return wire.NFS4ErrWrongCred
	case !mayManage(k, owner) && !m.collides(k, owner):
		return wire.NFS4ErrStaleClientID // a client with a new address has to send EXCHANGE_ID again
	}
	switch {
	case !k.Call.Try:
		c.creating.Lock()
	case !c.creating.TryLock(): // another CREATE_SESSION of the client is running
		return k.Block(state.Disk{})
	}
	defer c.creating.Unlock()
	switch next := args.Sequence - c.sequence.Load(); {
	case next == 0:
		return c.replayLocked(k)
	case next == 1, next == 2 && c.failed:
	default:
		return wire.NFS4ErrSeqMisordered
	}
	made, s := m.createLocked(k, owner, args)
	switch s {
	case wire.NFS4OK:
		c.sequence.Store(args.Sequence)
		c.last, c.failed = made, false
		return c.replayLocked(k)
	case wire.NFS4ErrDelay, wire.NFS4ErrClIDInUse, wire.NFS4ErrStaleClientID:
		return s // the number is not used up: the client will repeat the request, or another client sent it
	}
	if args.Sequence-c.sequence.Load() == 2 {
		c.sequence.Store(args.Sequence - 1)
		c.last = &created{status: s}
	}
	c.failed = true
	return s
}

// collides reports whether a call would confirm a client that another principal made (RFC 8881 §18.36.4).
func (m *Minor) collides(k *nfs4.Compound, owner *state.Client) bool {
	return !m.state.Confirmed(owner) && owner.Principal != nfs4.PrincipalOf(&k.Call.Cred)
}

// replayLocked writes the stored result of the latest CREATE_SESSION, and returns its status. If
// there is none, it returns NFS4ERR_SEQ_MISORDERED.
func (c *client) replayLocked(k *nfs4.Compound) nfs4.Status {
	if c.last == nil {
		return wire.NFS4ErrSeqMisordered
	}
	if c.last.status == wire.NFS4OK {
		c.last.result.Encode(k.W)
	}
	return c.last.status
}

// createLocked executes a CREATE_SESSION with a new sequence number: it confirms the client and
// makes the session. The caller holds client.creating.
func (m *Minor) createLocked(k *nfs4.Compound, owner *state.Client, args *wire.CreateSession4Args) (*created, nfs4.Status) {
	c := clientOf(owner)
	if m.collides(k, owner) {
		return nil, wire.NFS4ErrClIDInUse
	}
	if args.Flags&^sessionFlags != 0 {
		return nil, wire.NFS4ErrInvalid
	}
	sess := &Session{owner: owner, client: c, minor: m, minorVersion: k.Minor, program: args.CBProgram}
	if !sess.fore.negotiate(&args.ForeChanAttrs, m.cfg.Slots) || !sess.back.accept(&args.BackChanAttrs) {
		return nil, wire.NFS4ErrTooSmall
	}
	sec, s := m.choose(&k.Call.Cred, &args.SecParms)
	if s != wire.NFS4OK {
		return nil, s
	}
	sess.security.Store(sec)
	sess.place.Address = k.Call.Conn.Peer.Addr()
	back := !c.anySession(func(*Session) bool { return true }) && m.state.Holds(owner)
	var got shape
	if want := (shape{int(sess.fore.Maxrequests), sess.fore.maxCached()}); !c.full() {
		got = m.makeRoom(sess, want, back)
		// A client that has restarted does not use the sessions of its earlier incarnation, which may have all that its
		// address may have.
		if earlier := clientOf(m.state.Earlier(owner)); got.slots == 0 && earlier != nil {
			earlier.endSessions()
			got = m.makeRoom(sess, want, back)
		}
	}
	if got.slots == 0 {
		m.state.Relieve()
		return nil, wire.NFS4ErrNoSpace
	}
	sess.fore.Maxrequests, sess.fore.MaxresponsesizeCached = uint32(got.slots), uint32(got.cached)
	if v := m.state.Confirm(owner); v != state.Granted {
		sess.giveBack()
		return nil, k.Answer(v)
	}
	sess.init()
	if !m.sessions.add(sess) {
		sess.giveBack()
		return nil, wire.NFS4ErrNoSpace
	}
	if s := c.join(sess); s != wire.NFS4OK {
		sess.end()
		return nil, s
	}
	flags := uint32(0)
	caller := k.Call.Conn.Caller()
	calls := args.Flags&wire.CreateSession4FlagConnBackChan != 0 && caller != nil
	sess.bind(k.Call.Conn, true, calls)
	if calls {
		flags |= wire.CreateSession4FlagConnBackChan
		sess.ping(caller)
	}
	m.state.Renew(owner)
	return &created{result: wire.CreateSession4ResOK{
		Sessionid: sess.ID, Sequence: args.Sequence, Flags: flags,
		ForeChanAttrs: sess.fore.ChannelAttrs4, BackChanAttrs: sess.back.ChannelAttrs4,
	}}, wire.NFS4OK
}

// destroySession is DESTROY_SESSION (RFC 8881 §18.37). The request may come in the session
// that it destroys. The slots are then gone when the reply is sent.
func (m *Minor) destroySession(k *nfs4.Compound, args *wire.DestroySession4Args) nfs4.Status {
	s := m.sessions.find(&args.Sessionid)
	switch {
	case s == nil:
		return wire.NFS4ErrBadSession
	case s == SessionOf(k) && k.Index != k.Count-1:
		return wire.NFS4ErrNotOnlyOp
	case s.binding(k.Call.Conn) == nil:
		return wire.NFS4ErrConnNotBoundToSession
	case !s.client.protect.permits(&k.Call.Cred, wire.OpDestroySession):
		return wire.NFS4ErrWrongCred
	case !s.client.part(s):
		return wire.NFS4ErrBadSession
	}
	s.end()
	return wire.NFS4OK
}

// destroyClientID is DESTROY_CLIENTID (RFC 8881 §18.50).
func (m *Minor) destroyClientID(k *nfs4.Compound, args *wire.DestroyClientID4Args) nfs4.Status {
	found := m.state.Client(args.Clientid)
	c := clientOf(found)
	switch {
	case c == nil:
		return wire.NFS4ErrStaleClientID
	case found == k.Client:
		return wire.NFS4ErrClientIDBusy
	case !c.protect.permits(&k.Call.Cred, wire.OpDestroyClientID):
		return wire.NFS4ErrWrongCred
	case !mayManage(k, found):
		return wire.NFS4ErrStaleClientID
	}
	return k.Answer(m.state.Destroy(found))
}
