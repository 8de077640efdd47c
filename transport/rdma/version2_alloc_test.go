package rdma

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// In steady state calls over version 2 allocate nothing either.
func TestVersion2AllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool forget")
	}
	b := newBench(t, benchConfig{device: newIwarp(t), server: Config{Version2: true}})
	c := b.dial(DialConfig{Version2: true})
	for name, x := range map[string]*rpc.Exchange{"NULL": null(), "GET": getTo(100), "GET in parts": getTo(12000)} {
		over := make(chan error, 1)
		x.Done = func(x *rpc.Exchange) { over <- x.Err }
		n := testing.AllocsPerRun(1000, func() {
			c.Start(x)
			if err := <-over; err != nil {
				t.Fatal(err)
			}
		})
		if n > 0 {
			t.Errorf("%s: %v allocations a call", name, n)
		}
	}
}
