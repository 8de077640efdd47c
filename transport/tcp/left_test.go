package tcp

import (
	"net"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// The sweep ends a connection whose peer has left, also while the connection reads nothing: because it
// has as many calls as it may have, or because it waits for the memory of a long call. Then none of its
// requests for memory waits any more.
func TestConnectionThatDoesNotReadNoticesItsEnd(t *testing.T) {
	var many []byte
	for i := range uint32(200) { // more than MaxInFlight
		many = append(many, fragments(rpctest.Message(i, rpctest.GET, u32(1<<20)))...)
	}
	long := fragments(rpctest.Message(1, rpctest.PUT, func(w *xdr.Writer) {
		w.String("x")
		w.Payload(make([]byte, 1<<20), true, nil)
	}))
	long = long[:32<<10]
	for _, c := range []struct {
		name    string
		sent    []byte
		waiting int
		reset   bool
	}{
		{"many calls, reset", many, 128, true},
		{"many calls, closed", many, 128, false},
		{"a long call, reset", long, 1, true},
		{"a long call, closed", long, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPool(t, 16<<20)
			f := start(t, Config{Pool: p, Stall: time.Second, MaxInFlight: 128})
			other := p.OpenShare("other", nil)
			defer other.Close()
			b, ok := other.TryGet(15 << 20)
			if !ok {
				t.Fatal("no memory")
			}
			defer b.Release()
			peer := f.raw()
			if _, err := peer.Write(c.sent); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "the calls wait", func() bool { return p.Stats().Waiting == c.waiting })
			if c.reset {
				peer.(*net.TCPConn).SetLinger(0)
			}
			peer.Close()
			await.Until(t, "nothing waits", func() bool { return p.Stats().Waiting == 0 && f.Stats().Connections == 0 })
		})
	}
}
