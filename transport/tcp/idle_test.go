package tcp

import (
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/footprint"
)

// A connection that has nothing to do, or has stopped somewhere in a record, keeps
// no ring: little beside what it has of the record, the record of its next call, and
// the program's table, which is counted with it.
func TestIdleConnectionsAreSmall(t *testing.T) {
	if raceEnabled {
		t.Skip("what a connection keeps is looked at beside its goroutine")
	}
	const conns, most = 10, 48 << 10 // a ring has 64 KiB
	null := fragments(rpctest.Message(1, rpctest.NULL, nil))
	for name, rest := range map[string][]byte{
		"between records": nil,
		"inside a mark":   null[:3],
		"inside a header": null[:20],
		"inside a record": fragments(make([]byte, 9000))[:2000],
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, Config{MaxConns: conns})
			for range conns {
				c := f.raw()
				if _, err := c.Write(append(null[:len(null):len(null)], rest...)); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, make([]byte, 28)); err != nil {
					t.Fatal(err)
				}
			}
			await.Until(t, "all connections wait for their peers", func() bool { return f.parked() == conns })
			f.mu.Lock()
			all := slices.Collect(maps.Keys(f.conns))
			f.mu.Unlock()
			for _, c := range all {
				n := footprint.Of(c, (*Config)(nil), (*rpc.Server)(nil), (*mem.Pool)(nil), (*counters)(nil), (*census.Seat)(nil))
				if t.Logf("%d bytes", n); n > most {
					t.Errorf("a connection keeps %d bytes", n)
				}
			}
		})
	}
}

// parked is how many connections wait for their peer.
func (f *fixture) parked() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		if c.doing.Load() != atWork {
			n++
		}
	}
	return n
}
