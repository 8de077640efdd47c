package relay_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client/relay"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
)

// If a client repeats a call on the same connection, as Linux does after 60 s without a reply to
// NFSv3, the server executes the call once. The server cannot recognize the copy, because the
// relay gives each call a new XID. So the copy waits at the relay for the reply to the first
// call, and a later copy gets that reply, too.
func TestACopyWaitsForTheFirstAnswer(t *testing.T) {
	s := testserver.Start(t)
	toy := rpctest.NewProgram()
	s.RPC.Register(toy)
	r := rawDial(t, startRelay(t, relay.Config{Target: s.Targets()["memory"]}))
	r.grant()
	const lane = 3
	call := rpctest.Message(1, rpctest.HOLD, func(w *xdr.Writer) { w.Uint32(lane) })
	r.send(call)
	await.Receive(t, "the call arrives", toy.Arrived(lane))
	r.send(call)
	r.send(null(2)) // sent after the copy: its answer shows that the relay has read the copy
	if _, xid, err := r.reply(); err != nil || xid != 2 {
		t.Fatalf("reply %d: %v", xid, err)
	}
	toy.Release(lane)
	for i := range 3 {
		if i == 2 {
			r.send(call)
		}
		if d, xid, err := r.reply(); err != nil || xid != 1 || d.Err() != nil {
			t.Errorf("reply %d: %v", xid, err)
		}
	}
	if n := toy.Served[rpctest.HOLD].Load(); n != 1 {
		t.Errorf("executed %d times", n)
	}
}
