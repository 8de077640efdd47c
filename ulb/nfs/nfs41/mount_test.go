package nfs41

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A client can register, create a session, work and destroy both.
func TestLifeOfAClient(t *testing.T) {
	p := peer(t)
	s := newClientSession(p, "client")
	want(t, "SEQUENCE alone", s.run(), wire.NFS4OK, 1)
	want(t, "RECLAIM_COMPLETE", s.run(op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{})), wire.NFS4OK, 2)
	want(t, "work", s.run(rootOp, op(wire.OpGetFH)), wire.NFS4OK, 3)
	destroy := op(wire.OpDestroyClientID, &wire.DestroyClientID4Args{Clientid: s.client})
	is(t, "DESTROY_CLIENTID with a session", single(p, destroy, nil), wire.NFS4ErrClientIDBusy)
	is(t, "DESTROY_SESSION", single(p, op(wire.OpDestroySession, &wire.DestroySession4Args{Sessionid: s.id}), nil), wire.NFS4OK)
	want(t, "work in a session that is no more", s.run(rootOp), wire.NFS4ErrBadSession, 1)
	is(t, "DESTROY_CLIENTID", single(p, destroy, nil), wire.NFS4OK)
	is(t, "DESTROY_CLIENTID again", single(p, destroy, nil), wire.NFS4ErrStaleClientID)
}
