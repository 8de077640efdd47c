package relay

import (
	"context"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A service whose connection was lost is connected to again with the next call.
func TestLineConnectsAgain(t *testing.T) {
	s := testserver.Start(t)
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var conns []*client.Conn
	l := line{relay: r, dial: func(ctx context.Context) (*client.Conn, error) {
		c, err := client.Dial(ctx, s.Targets()["tcp"])
		conns = append(conns, c)
		return c, err
	}}
	null := func() {
		t.Helper()
		ended := make(chan error, 1)
		f := &forward{x: rpc.Exchange{Program: nfs3wire.Program, Version: nfs3wire.Version, Done: func(x *rpc.Exchange) { ended <- x.Err }}}
		l.carry(f)
		if err := await.Receive(t, "the call ends", ended); err != nil {
			t.Error(err)
		}
	}
	null()
	null()
	if len(conns) != 1 {
		t.Errorf("%d connections for two calls", len(conns))
	}
	await.Until(t, "the connection is made", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !l.dialing
	})
	conns[0].Close()
	null()
	if len(conns) != 2 {
		t.Errorf("%d connections after one was lost", len(conns))
	}
	l.close()
	if !conns[1].Lost() {
		t.Error("a connection is left open")
	}
}
