package hostile

import (
	"context"
	"fmt"
)

// SilentSockets are peers that connect by TCP and send nothing.
//
// Cost of each for the daemon: a descriptor, and, on the RDMA port, one of the places for
// set-ups, for the longest time of a set-up.
type SilentSockets struct {
	Peers int
	// RDMA: they connect to the RDMA port.
	RDMA bool
}

func (b SilentSockets) String() string {
	port := "TCP"
	if b.RDMA {
		port = "RDMA"
	}
	return fmt.Sprintf("%d silent sockets on the %s port", b.Peers, port)
}

// Start implements Behaviour.
func (b SilentSockets) Start(ctx context.Context, target Target) *Attack {
	to := target.TCP
	if b.RDMA {
		to = target.RDMA
	}
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		c, err := dial(ctx, target.Source(i), to, 0)
		if err != nil {
			return err
		}
		defer tie(ctx, c)()
		stands()
		return hold(c)
	})
}
