package relay_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/relay"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
)

// A relay that is closed ends the connections of its clients, with the calls that are
// under way, and leaves nothing behind.
func TestRelayClose(t *testing.T) {
	s := testserver.Start(t)
	toy := rpctest.NewProgram()
	s.RPC.Register(toy)
	l, err := net.Listen("tcp", testserver.Loopback.String())
	must(t, err)
	ended := make(chan relay.Event, 1)
	r, err := relay.New(relay.Config{Target: s.Targets()["memory"], Event: func(e relay.Event) { ended <- e }})
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	raw := rawDial(t, client.Target{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port})
	raw.grant()
	raw.send(rpctest.Message(1, rpctest.STALL, func(w *xdr.Writer) { w.Uint32(5) }))
	raw.send(null(2))
	if _, xid, err := raw.reply(); err != nil || xid != 2 {
		t.Fatalf("reply %d: %v", xid, err)
	}
	r.Close()
	if err := await.Receive(t, "Serve ends", served); err != relay.ErrClosed {
		t.Errorf("Serve ended with %v", err)
	}
	if e := await.Receive(t, "the end of the connection is told", ended); e.Err != relay.ErrClosed || e.Calls != 3 {
		t.Errorf("event %+v", e)
	}
	if m := raw.record(); m != nil {
		t.Errorf("a reply after the end: %x", m)
	}
	toy.Release(5)
	if n := r.Clients(); n != 0 {
		t.Errorf("%d clients", n)
	}
}

// A client that stops in the middle of a call, or does not read, loses its
// connection; more clients than allowed get none.
func TestRelayBoundsClients(t *testing.T) {
	s := testserver.Start(t)
	ended := make(chan relay.Event, 1)
	at := startRelay(t, relay.Config{
		Target: s.Targets()["memory"], Timeout: 3 * time.Second, Clients: 1,
		Event: func(e relay.Event) { ended <- e },
	})
	r := rawDial(t, at)
	r.grant()
	other := rawDial(t, at)
	if m := other.record(); m != nil {
		t.Errorf("a second client got %x", m)
	}
	r.c.Write([]byte{0x80, 0x10, 0, 0, 0, 0, 0, 9})
	if m := r.record(); m != nil {
		t.Errorf("half a call was answered by %x", m)
	}
	if e := await.Receive(t, "the end of the connection is told", ended); e.Err == nil || !strings.Contains(e.Err.Error(), "in the middle of a record") {
		t.Errorf("ended with %v", e.Err)
	}
}

// A lost connection to the server is the relay's affair: calls that were not
// answered are sent again, and the client notices nothing.
func TestRelayOutlivesConnections(t *testing.T) {
	s := testserver.Start(t)
	toy := rpctest.NewProgram()
	s.RPC.Register(toy)
	r := rawDial(t, startRelay(t, relay.Config{Target: s.Targets()["memory"]}))
	r.grant()
	const lane = 8
	r.send(rpctest.Message(1, rpctest.STALL, func(w *xdr.Writer) { w.Uint32(lane) }))
	await.Receive(t, "the call arrives", toy.Arrived(lane))
	s.Lose()
	toy.Release(lane)
	d, xid, err := r.reply()
	must(t, err)
	if n := d.Uint32(); xid != 1 || n != lane {
		t.Errorf("reply %d says %d", xid, n)
	}
	s.Lose()
	r.send(null(2))
	if _, xid, err := r.reply(); err != nil || xid != 2 {
		t.Errorf("reply %d: %v", xid, err)
	}
}
