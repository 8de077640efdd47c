package rdma

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// Connections, messages, parts and errors are counted by version, and the callback Chosen learns the version
// of each connection.
func TestCountsByVersion(t *testing.T) {
	var mu sync.Mutex
	var chosen []int
	b := newBench(t, benchConfig{server: Config{Version2: true, Chosen: func(_ netip.AddrPort, version int) {
		mu.Lock()
		defer mu.Unlock()
		chosen = append(chosen, version)
	}}})
	stats := b.server.Stats()
	one := b.dial(DialConfig{})
	for range 3 {
		if err := do(t, one, null(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if c := stats.Version(1); c.Connections != 1 || c.Accepted != 1 || c.Received != 3 || c.Sent != 3 || c.Errors != 0 {
		t.Errorf("version 1: %+v", c)
	}
	if c := stats.Version(2); c != (VersionCounts{}) {
		t.Errorf("version 2 before it is used: %+v", c)
	}

	two := b.dial(DialConfig{Version2: true})
	if err := do(t, two, null(), nil); err != nil {
		t.Fatal(err)
	}
	c := stats.Version(2)
	if c.Connections != 1 || c.Accepted != 1 || c.Received != 2 || c.Sent != 2 || c.PartsReceived != 0 || c.PartsSent != 0 { // properties, and a call
		t.Errorf("version 2: %+v", c)
	}
	long := exchangeFor(rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(pattern(2 * DefaultInlineSize)) })
	long.MaxArgs, long.MaxResults = 3*DefaultInlineSize, 3*DefaultInlineSize
	if err := do(t, two, long, func(d *xdr.Decoder) { d.Opaque(rpctest.MaxEcho) }); err != nil {
		t.Fatal(err)
	}
	if c = stats.Version(2); c.PartsReceived == 0 || c.PartsSent == 0 {
		t.Errorf("after a call and a reply in parts: %+v", c)
	}

	p := b.peer2()
	p.open()
	m := call2(0x77, rpctest.NULL)
	m[7] = 9 // the version
	p.send(m)
	p.next()
	if c := stats.Version(2); c.Errors != 1 {
		t.Errorf("after an error: %+v", c)
	}
	if c := stats.Version(1); c.Received != 3 || c.Sent != 3 || c.Errors != 0 {
		t.Errorf("version 1 after the work of version 2: %+v", c)
	}

	before := stats.Version(2)
	one.Close()
	two.Close()
	await.Until(t, "the connections are gone", func() bool {
		return stats.Version(1).Connections == 0 && stats.Version(2).Connections == 1
	})
	if c := stats.Version(2); c.Received != before.Received || c.Sent != before.Sent {
		t.Errorf("before a connection ended: %+v, afterwards: %+v", before, c)
	}
	if n := len(stats.versions.live); n != 1 {
		t.Errorf("%d connections are remembered", n)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(chosen) != 3 || chosen[0] != 1 || chosen[1] != 2 || chosen[2] != 2 {
		t.Errorf("the chosen versions are %v", chosen)
	}
}

// A NULL takes two messages in each version: the call, and the reply. In version 2 the credits travel in them too, so
// no message carries credits alone.
func TestNullTakesTwoMessages(t *testing.T) {
	const calls = 1000
	for version := 1; version <= 2; version++ {
		b := newBench(t, benchConfig{server: Config{Version2: true}, provider: rdmatest.Config{Quiet: true}})
		c := b.dial(DialConfig{Version2: version == 2})
		stats, began := b.server.Stats(), b.server.Stats().Version(version)
		for i, at := range []int{1, 16, DefaultCredits} {
			runCalls(t, c, at, calls, null)
			want := int64(i+1) * calls
			await.Until(t, "all replies are counted", func() bool { return stats.Version(version).Sent-began.Sent >= want })
			n := stats.Version(version)
			if in, out := n.Received-began.Received, n.Sent-began.Sent; in != want || out != want {
				t.Errorf("version %d, depth %d: %d messages from the client and %d from the server for %d calls", version, at, in, out, want)
			}
		}
	}
}
