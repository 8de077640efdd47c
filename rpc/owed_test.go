package rpc

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// After each arrival and each end of a call, no call waits that may have a worker. Otherwise it would wait for
// the end of a call that may never end.
func TestNoWorkerIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(300) {
			r := rand.New(rand.NewPCG(seed, 1))
			cfg := Config{Workers: 4 + r.IntN(30), LaneWorkers: 1 + r.IntN(12)}
			cfg.defaults()
			began := make(chan chan struct{}, 1000) // one value for each call: closing it ends the call
			x := newExecutor(&cfg, func(*Call) {
				end := make(chan struct{})
				began <- end
				<-end
			}, func(*Call) {})
			conns := make([]*Conn, 12)
			for i := range conns {
				conns[i] = &Conn{client: netip.AddrFrom4([4]byte{10, 0, byte(i % 4), byte(i / 2)})}
			}
			lanes := 1 + r.IntN(6)
			var running []chan struct{}
			busy := r.IntN(2) == 0
			for step := range 300 {
				if busy = busy != (r.IntN(40) == 0); busy == (r.IntN(4) > 0) {
					x.submit(&Call{Arrived: Arrived{Conn: conns[r.IntN(len(conns))]}}, r.IntN(lanes))
				} else if n := len(running); n > 0 {
					i := r.IntN(n)
					close(running[i])
					running[i] = running[n-1]
					running = running[:n-1]
				}
				synctest.Wait()
				for len(began) > 0 {
					running = append(running, <-began)
				}
				x.mu.Lock()
				owed, waiting := x.hire(time.Now()), x.waiting.Len
				x.mu.Unlock()
				if owed {
					t.Fatalf("seed %d, step %d: a call of %d waiting lanes could have begun beside %d running calls (%d workers, %d for a lane)",
						seed, step, waiting, len(running), cfg.Workers, x.perLane)
				}
			}
			for ; len(running) > 0; running = running[1:] {
				close(running[0])
				synctest.Wait()
				for len(began) > 0 {
					running = append(running, <-began)
				}
			}
			if err := x.close(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
