package relay_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/relay"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Closing a relay ends its clients' connections, with the calls in progress, and leaves nothing
// behind.
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

// A client that stops in the middle of a call loses its connection. The relay refuses clients
// beyond Config.Clients.
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

// If the connection to the server is lost, the relay makes a new one and sends unanswered calls
// again. The client notices nothing.
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

// startBeside runs a relay, and also returns a channel with the events of its clients'
// connections.
func startBeside(t *testing.T, cfg relay.Config) (client.Target, <-chan relay.Event) {
	ended := make(chan relay.Event, 8)
	cfg.Event = func(e relay.Event) { ended <- e }
	return startRelay(t, cfg), ended
}

// If the server has no MOUNT service, calls of MOUNT get PROG_UNAVAIL, and calls of NFS are
// carried.
func TestRelayWithoutMount(t *testing.T) {
	s := testserver.Start(t)
	l, err := net.Listen("tcp", testserver.Loopback.String())
	must(t, err)
	l.Close() // nothing listens there any more
	at, ended := startBeside(t, relay.Config{Target: s.Targets()["memory"], MountPort: l.Addr().(*net.TCPAddr).Port})
	c := testserver.Dial(t, at)
	for range 2 {
		err = c.Null(testserver.Within(t), mount3wire.Program, mount3wire.Version)
		if e, ok := errors.AsType[*rpc.ReplyError](err); !ok || *e != (rpc.ReplyError{Stat: rpc.AcceptProgUnavail}) {
			t.Errorf("MOUNT: %v", err)
		}
		must(t, c.Null(testserver.Within(t), nfs3wire.Program, nfs3wire.Version))
	}
	c.Close()
	if e := await.Receive(t, "the end of the connection is told", ended); e.Err != nil || e.Calls != 4 || e.Client.Addr() != testserver.Loopback.Addr() {
		t.Errorf("event %+v", e)
	}
}

// If the relay cannot reach the server, it ends the client's connection, so that the client tries
// again. It reports the reason.
func TestRelayWithoutServer(t *testing.T) {
	s := testserver.Start(t)
	target := s.Targets()["memory"]
	r, err := relay.New(relay.Config{Target: target})
	must(t, err)
	must(t, r.Check(testserver.Within(t)))
	r.Close()
	target.Port = 1
	ended := make(chan relay.Event, 1)
	r, err = relay.New(relay.Config{Target: target, Event: func(e relay.Event) { ended <- e }})
	must(t, err)
	defer r.Close()
	if err := r.Check(testserver.Within(t)); err == nil {
		t.Error("a server was found where there is none")
	}
	l, err := net.Listen("tcp", testserver.Loopback.String())
	must(t, err)
	go r.Serve(l)
	raw := rawDial(t, client.Target{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port})
	raw.send(null(1))
	raw.send(null(2))
	if m := raw.record(); m != nil {
		t.Errorf("answered by %x", m)
	}
	if e := await.Receive(t, "the end of the connection is told", ended); e.Err == nil || e.Err == relay.ErrClosed {
		t.Errorf("event %+v", e)
	}
}

// If a client closes its side while calls are in progress, the relay waits for them no longer
// than Config.Timeout.
func TestRelayForgetsClientsThatLeft(t *testing.T) {
	s := testserver.Start(t)
	toy := rpctest.NewProgram()
	s.RPC.Register(toy)
	at, ended := startBeside(t, relay.Config{Target: s.Targets()["memory"], Timeout: 500 * time.Millisecond})
	raw := rawDial(t, at)
	raw.grant()
	const lane = 6
	raw.send(rpctest.Message(1, rpctest.STALL, func(w *xdr.Writer) { w.Uint32(lane) }))
	await.Receive(t, "the call arrives", toy.Arrived(lane))
	raw.c.(*net.TCPConn).CloseWrite()
	if m := raw.record(); m != nil {
		t.Errorf("answered by %x", m)
	}
	if e := await.Receive(t, "the end of the connection is told", ended); e.Err == nil || !strings.Contains(e.Err.Error(), "not answered in time") {
		t.Errorf("event %+v", e)
	}
	toy.Release(lane)
}

// While a client has Config.Calls calls in progress, the relay reads no more from it until one of
// them is answered.
func TestRelayHoldsClientsBack(t *testing.T) {
	s := testserver.Start(t)
	toy := rpctest.NewProgram()
	s.RPC.Register(toy)
	raw := rawDial(t, startRelay(t, relay.Config{Target: s.Targets()["memory"], Calls: 2}))
	raw.grant()
	for _, lane := range []uint32{1, 2} {
		raw.send(rpctest.Message(lane, rpctest.STALL, func(w *xdr.Writer) { w.Uint32(lane) }))
		await.Receive(t, "the call arrives", toy.Arrived(lane))
	}
	raw.send(null(3))
	for _, want := range []uint32{1, 3, 2} {
		if want != 3 {
			toy.Release(want)
		}
		if _, xid, err := raw.reply(); err != nil || xid != want {
			t.Errorf("reply %d instead of %d: %v", xid, want, err)
		}
	}
}
