package tcp

import (
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
)

// A connection that has nothing to do, or has stopped somewhere in a record, costs
// tens of KiB at most; both ends of it are counted here.
func TestIdleConnectionsAreSmall(t *testing.T) {
	const conns, most = 400, 48 << 10
	null := fragments(rpctest.Message(1, rpctest.NULL, nil))
	for name, rest := range map[string][]byte{
		"between records": nil,
		"inside a mark":   null[:3],
		"inside a header": null[:20],
		"inside a record": fragments(make([]byte, 9000))[:2000],
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, Config{MaxConns: conns})
			used := func() uint64 {
				runtime.GC()
				runtime.GC() // empties the pools
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return m.HeapAlloc + m.StackInuse
			}
			before := used()
			var all []net.Conn
			for range conns {
				c := f.raw()
				if _, err := c.Write(append(null[:len(null):len(null)], rest...)); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, make([]byte, 28)); err != nil {
					t.Fatal(err)
				}
				all = append(all, c)
			}
			for f.parked() != conns {
				runtime.Gosched()
			}
			if each := int64(used()-before) / conns; each > most {
				t.Errorf("%d bytes a connection", each)
			} else {
				t.Logf("%d bytes a connection", each)
			}
			for _, c := range all {
				c.Close()
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
