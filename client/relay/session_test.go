package relay

import (
	"context"
	"net"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// If a line's connection was lost, the next call makes a new one.
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
		await.Until(t, "the connection is made", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return !l.dialing
		})
	}
	null()
	null()
	if len(conns) != 1 {
		t.Errorf("%d connections for two calls", len(conns))
	}
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

// The memory of calls is released, however they end.
func TestRelayGivesMemoryBack(t *testing.T) {
	s := testserver.Start(t)
	r, err := New(Config{Target: s.Targets()["memory"], MountPort: int(s.TCP.Port())})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	l, err := net.Listen("tcp", testserver.Loopback.String())
	if err != nil {
		t.Fatal(err)
	}
	go r.Serve(l)
	at := l.Addr().(*net.TCPAddr)
	c := testserver.Dial(t, client.Target{Transport: client.TCP, Host: at.IP.String(), Port: at.Port, Cred: client.Self()})
	ctx, n := testserver.Within(t), c.NFS3()
	root, err := c.MountRoot(ctx, "/x", 0)
	if err != nil {
		t.Fatal(err)
	}
	file, _, err := n.Create(ctx, root, "file", nfs3wire.CreateHow3{})
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 300_000)
	if _, err := n.Write(ctx, file, 0, data, nfs3wire.Unstable); err != nil {
		t.Error(err)
	}
	if _, _, err := n.Read(ctx, file, 0, data); err != nil {
		t.Error(err)
	}
	if _, _, err := n.Read(ctx, root, 0, data); err == nil {
		t.Error("a directory was read")
	}
	await.Until(t, "all memory is given back", func() bool { return r.pool.Stats().InUse == 0 })
}
