package nfs41

import (
	"net/netip"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/nfs4test"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/state"
)

// If the RPC layer denies a compound after its SEQUENCE, the compound still ends: its slot accepts
// the next request, and the client's lease can run out.
func TestDeniedCompoundFreesItsSlot(t *testing.T) {
	s, _ := site(t, Config{}, state.Config{})
	a := newClientSession(s.Peer(1), "a")
	a.run(op(wire.OpReclaimComplete, &wire.ReclaimComplete4Args{}))
	// From now on the server serves only clients on privileged ports.
	e := &export.Export{Name: "/export", FS: s.FS, Options: export.Options{Squash: export.NoSquash, Secure: true}}
	if err := s.Exports.Replace([]*export.Export{e}); err != nil {
		t.Fatal(err)
	}
	high := &nfs4test.Peer{Site: s, Minor: 1, Room: rpctest.TCPRoom,
		Conn: s.RPC.NewConn(netip.MustParseAddrPort("10.1.2.3:40000"), netip.AddrPort{}, "tcp", false)}
	call := high.End(high.Begin(high.Message("", op(wire.OpSequence, a.sequenceOp(1)), op(wire.OpExchangeID, exchangeArgs("a", 1)))))
	if _, err := call.Results(); err == nil {
		t.Fatal("an EXCHANGE_ID from a port that is not served is answered")
	}
	a.seq[1]++
	want(t, "the next request of the slot", a.with(a.sequenceOp(1)), wire.NFS4OK, 1)
}
