package nfs41

import (
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// destroySession is DESTROY_SESSION (RFC 8881 §18.37). The request may come in the session
// that it destroys. The slots are then gone when the reply is sent.
func (m *Minor) destroySession(k *nfs4.Compound) nfs4.Status {
	var args wire.DestroySession4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
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
func (m *Minor) destroyClientID(k *nfs4.Compound) nfs4.Status {
	var args wire.DestroyClientID4Args
	args.Decode(k.Args)
	if !k.Decoded() {
		return wire.NFS4ErrBadXDR
	}
	found := m.state.Client(args.Clientid)
	c := clientOf(found)
	switch {
	case c == nil:
		return wire.NFS4ErrStaleClientID
	case found == k.Client:
		return wire.NFS4ErrClientIDBusy
	case !m.mayManage(k, found):
		return wire.NFS4ErrStaleClientID
	case !c.protect.permits(&k.Call.Cred, wire.OpDestroyClientID):
		return wire.NFS4ErrWrongCred
	}
	return m.state.Destroy(found)
}
