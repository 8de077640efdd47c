package nfs41

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// If there is no memory for the state of an OPEN, the OPEN creates no file. Otherwise the client
// would repeat the OPEN and find its own file (RFC 8881 §18.16.3, GUARDED4).
func TestOpenWithoutRoomMakesNoFile(t *testing.T) {
	s, _ := site(t, Config{}, state.Config{Memory: 5000})
	a := newClientSession(s.Peer(1), "a")
	a.run(op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{}))
	root := putExport(a)
	guarded := func(name string) *wire.Open4Args {
		return &wire.Open4Args{
			ShareAccess: wire.Open4ShareAccessBoth, Owner: wire.StateOwner4{Owner: []byte("owner")},
			Openhow: wire.Openflag4{Opentype: wire.Open4Create, How: wire.Createhow4{Mode: wire.Guarded4}},
			Claim:   wire.OpenClaim4{Claim: wire.ClaimNull, File: []byte(name)},
		}
	}
	r := a.run(root, op(wire.OpOpen, guarded("first")))
	want(t, "an open that takes the memory", r, wire.NFS4OK, 3)
	var first wire.Open4Res
	r.Ops[2].Into(t, &first)
	second := op(wire.OpOpen, guarded("second"))
	for range 2 {
		want(t, "a file of its own without room", a.run(root, second), wire.NFS4ErrServerFault, 3)
	}
	lookup := op(wire.OpLookup, &wire.Lookup4Args{Objname: []byte("first")})
	want(t, "CLOSE", a.run(root, lookup, op(wire.OpClose, &wire.Close4Args{OpenStateid: first.ResOK.Stateid})), wire.NFS4OK, 4)
	want(t, "with room", a.run(root, second), wire.NFS4OK, 3)
}
