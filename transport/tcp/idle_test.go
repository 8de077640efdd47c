package tcp

import (
	"io"
	"maps"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/footprint"
)

// A connection that is idle, or whose peer has stopped anywhere in a record, keeps no ring. It
// keeps only the part of the record that has arrived, and the record for its next call. The test
// counts the program's table as part of the connection.
func TestIdleConnectionsAreSmall(t *testing.T) {
	// A ring has 64 KiB, and the buffer of the in-memory stream counts too.
	const conns, most = 10, 48<<10 + waitingBuffer
	null := fragments(rpctest.Message(1, rpctest.NULL, nil))
	for name, rest := range map[string][]byte{
		"between records": nil,
		"inside a mark":   null[:3],
		"inside a header": null[:20],
		"inside a record": fragments(make([]byte, 9000))[:2000],
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{MaxConns: conns}, func(t *testing.T, f *fixture, connect func() net.Conn) {
				for range conns {
					c := connect()
					go c.Write(append(null[:len(null):len(null)], rest...))
					if _, err := io.ReadFull(c, make([]byte, 28)); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait() // all connections wait for their peers
				f.mu.Lock()
				all := slices.Collect(maps.Keys(f.conns))
				f.mu.Unlock()
				if len(all) != conns {
					t.Fatalf("%d connections", len(all))
				}
				for _, c := range all {
					n := footprint.Of(c, (*Config)(nil), (*rpc.Server)(nil), (*mem.Pool)(nil), (*counters)(nil), (*census.Seat)(nil))
					if t.Logf("%d bytes", n); n > most {
						t.Errorf("a connection keeps %d bytes", n)
					}
				}
			})
		})
	}
}
