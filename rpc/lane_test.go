package rpc

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
)

// At the end of a connection the executor drops exactly its calls that wait, in whichever lanes, also if
// lanes were used again for other keys. A connection remembers few lanes in which none of its calls waits.
func TestConnectionsForgetTheirLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 1))
			cfg := Config{Workers: 2, LaneWorkers: 1}
			cfg.defaults()
			var dropped []*Call
			held := make(chan struct{})
			x := newExecutor(&cfg, func(*Call) { <-held }, func(c *Call) { dropped = append(dropped, c) })
			waiting := make(map[*Conn][]*Call)
			var conns []*Conn
			for i := range 4 {
				conns = append(conns, &Conn{client: netip.AddrFrom4([4]byte{10, 0, 0, byte(i / 2)})})
			}
			for lane := range 40 { // two running calls for each lane
				x.submit(&Call{Arrived: Arrived{Conn: new(Conn)}}, lane)
				x.submit(&Call{Arrived: Arrived{Conn: new(Conn)}}, lane)
			}
			synctest.Wait()
			for range 500 {
				i := r.IntN(len(conns))
				of := conns[i]
				if r.IntN(10) > 0 {
					c := &Call{Arrived: Arrived{Conn: of}}
					x.submit(c, r.IntN(40))
					waiting[of] = append(waiting[of], c)
					continue
				}
				dropped = nil
				of.gone.Store(true)
				x.forget(of)
				for _, c := range waiting[of] {
					if !slices.Contains(dropped, c) {
						t.Fatal("a waiting call of an ended connection is not dropped")
					}
				}
				if len(dropped) != len(waiting[of]) {
					t.Fatalf("%d calls are dropped, %d waited", len(dropped), len(waiting[of]))
				}
				delete(waiting, of)
				conns[i] = &Conn{client: of.client}
			}
			close(held)
			synctest.Wait()
			of := new(Conn)
			for lane := range 100 {
				x.submit(&Call{Arrived: Arrived{Conn: of}}, lane)
				synctest.Wait()
			}
			if n := len(of.lanes); n > 2*mostLanes {
				t.Errorf("a connection remembers %d lanes", n)
			}
			x.close(context.Background())
		}
	})
}
