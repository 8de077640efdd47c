package nfs41

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// bindConnToSession is BIND_CONN_TO_SESSION (RFC 8881 §18.34). It ignores a request to switch the
// connection to RDMA: the connection keeps its framing.
func (m *Minor) bindConnToSession(k *nfs4.Compound, args *wire.BindConnToSession4Args) nfs4.Status {
	s := m.sessions.find(&args.Sessid)
	switch {
	case s == nil:
		return wire.NFS4ErrBadSession
	case !s.client.protect.permits(&k.Call.Cred, wire.OpBindConnToSession):
		return wire.NFS4ErrWrongCred
	case s.owner.Dying():
		return wire.NFS4ErrDelay
	}
	conn := k.Call.Conn
	fore, back, ok := directions(args.Dir, conn.Caller() != nil)
	if b := s.binding(conn); b != nil && ok {
		fore, back, ok = b.agrees(args.Dir, back)
	}
	if !ok {
		return wire.NFS4ErrInvalid
	}
	if !s.bind(conn, fore, back) {
		return wire.NFS4ErrDelay
	}
	if caller := conn.Caller(); back && caller != nil {
		s.ping(caller)
	}
	m.state.Renew(s.owner)
	res := wire.BindConnToSession4ResOK{Sessid: s.ID, Dir: wire.Cdfs4Fore}
	switch {
	case fore && back:
		res.Dir = wire.Cdfs4Both
	case back:
		res.Dir = wire.Cdfs4Back
	}
	res.Encode(k.W)
	return wire.NFS4OK
}

// directions returns the channels that a new connection gets. callable is true if the connection can carry
// calls to the client; if it cannot, and the client demands a backchannel, ok is false.
func directions(d wire.ChannelDirFromClient4, callable bool) (fore, back, ok bool) {
	switch d {
	case wire.Cdfc4Fore:
		return true, false, true
	case wire.Cdfc4Back:
		return false, true, callable
	case wire.Cdfc4ForeOrBoth:
		return true, callable, true
	}
	return true, true, callable
}

// agrees returns the channels that a bound connection carries after a further BIND_CONN_TO_SESSION. ok is
// false if the client demands other channels than the connection has. If the client would accept a
// backchannel, a callable connection gets it: the client may have found out that the session has none.
func (b *binding) agrees(d wire.ChannelDirFromClient4, callable bool) (fore, back, ok bool) {
	switch d {
	case wire.Cdfc4Fore:
		return true, false, b.fore && !b.back
	case wire.Cdfc4Back:
		return false, true, b.back && !b.fore
	case wire.Cdfc4ForeOrBoth:
		return true, b.back || callable, b.fore
	}
	return b.fore, true, b.back
}

// backchannelCtl is BACKCHANNEL_CTL (RFC 8881 §18.33).
func (m *Minor) backchannelCtl(k *nfs4.Compound, args *wire.BackchannelCtl4Args) nfs4.Status {
	s := SessionOf(k)
	if !s.client.protect.permits(&k.Call.Cred, wire.OpBackchannelCtl) {
		return wire.NFS4ErrWrongCred
	}
	more, st := m.choose(&k.Call.Cred, &args.SecParms)
	if st != wire.NFS4OK {
		return st
	}
	s.mu.Lock()
	s.program = args.CBProgram
	s.security.Store(s.security.Load().with(more, time.Now()))
	s.mu.Unlock()
	if caller := s.caller(); caller != nil {
		s.down.Store(false)
		s.ping(caller)
	}
	return wire.NFS4OK
}
