package tcp

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// A connection whose peer has closed its side holds no ring while it waits for its answers. The
// process has few rings, and a client that reconnects while the server's disk is stuck leaves many
// such connections. The answers still reach the peer.
func TestHalfClosedConnectionsHoldNoRing(t *testing.T) {
	f := start(t, Config{})
	release := sync.OnceFunc(func() { f.program.Release(1) })
	t.Cleanup(release)
	const half = 20
	var conns []net.Conn
	for i := range uint32(half) {
		c := f.raw()
		if _, err := c.Write(fragments(rpctest.Message(i, rpctest.HOLD, u32(1)))); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		<-f.program.Arrived(1)
		conns = append(conns, c)
	}
	await.Until(t, "no ring is lent", func() bool {
		_, lent := rings.Count()
		return lent == 0
	})
	release()
	for i, c := range conns {
		c.SetDeadline(time.Now().Add(10 * time.Second))
		if answer, err := io.ReadAll(c); err != nil || len(answer) < 4+24+8 {
			t.Errorf("connection %d: an answer of %d bytes, %v", i, len(answer), err)
		}
	}
}

// A connection holds no ring while it waits, during Shutdown, until its peer has closed its side.
func TestShutdownHoldsNoRing(t *testing.T) {
	f := start(t, Config{})
	const conns = 20
	var peers []net.Conn
	for range conns {
		peers = append(peers, f.raw())
	}
	await.Until(t, "all are accepted", func() bool { return f.Stats().Accepted == conns })
	down := make(chan error, 1)
	go func() { down <- f.Shutdown(context.Background()) }()
	for _, c := range peers {
		c.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Fatalf("%v instead of the end of the output", err)
		}
		if _, err := c.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "all have read during Shutdown", func() bool { return f.Stats().Received == conns })
	if _, lent := rings.Count(); lent > 0 {
		t.Errorf("%d rings are lent", lent)
	}
	for _, c := range peers {
		c.Close()
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}
