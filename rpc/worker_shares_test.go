package rpc

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// Eight workers run calls of 10 ms each. A client with one connection always has calls waiting, and so do others. The
// test counts the calls served in a virtual second, out of all.
func TestShareOfTheWorkers(t *testing.T) {
	alone := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		who   string
		of    func(i int) netip.Addr
		least func(k int) float64 // the share that the client must have beside k connections
	}{
		{"connections of one other address", func(int) netip.Addr { return netip.MustParseAddr("10.0.0.2") }, func(int) float64 { return 0.45 }},
		{"addresses of one /24", func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) }, func(int) float64 { return 0.45 }},
		{"/64s of one /48", func(i int) netip.Addr {
			return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 6: byte(i >> 8), 7: byte(i), 15: 1})
		}, func(int) float64 { return 0.45 }},
		{"connections of its own address", func(int) netip.Addr { return alone }, func(k int) float64 { return 0.9 / float64(k+1) }},
		{"sites", func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i), 1}) }, func(k int) float64 { return 0.9 / float64(k+1) }},
	} {
		for _, k := range []int{1, 4, 8, 16} {
			t.Run(fmt.Sprintf("%d %s", k, c.who), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					conns := []*Conn{{client: alone}}
					for i := range k {
						conns = append(conns, &Conn{client: c.of(i)})
					}
					own, all := serveInTurn(conns)
					share := float64(own) / float64(all)
					t.Logf("%d of %d calls: %.3f", own, all, share)
					if share < c.least(k) {
						t.Errorf("its share is %.3f, less than %.3f", share, c.least(k))
					}
				})
			})
		}
	}
}

// serveInTurn serves calls of the connections for a second. Each connection always has 16 calls in progress. It returns
// the number of calls of the first connection and of all.
func serveInTurn(conns []*Conn) (first, all int) {
	const second, depth = time.Second, 16
	cfg := Config{Workers: 16, LaneWorkers: 4, Ready: func() int { return 0 }}
	cfg.defaults()
	served := make(chan *Conn, 10000)
	var x *executor
	end := time.Now().Add(second)
	x = newExecutor(&cfg, func(c *Call) {
		time.Sleep(10 * time.Millisecond)
		if time.Now().Before(end) {
			served <- c.Conn
			x.submit(&Call{Arrived: Arrived{Conn: c.Conn}}, 1)
		}
	}, func(*Call) {})
	for range depth {
		for _, c := range conns {
			x.submit(&Call{Arrived: Arrived{Conn: c}}, 1)
		}
	}
	time.Sleep(second + time.Millisecond)
	x.close(context.Background())
	for all = len(served); len(served) > 0; {
		if <-served == conns[0] {
			first++
		}
	}
	return first, all
}
