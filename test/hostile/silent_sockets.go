package hostile

import (
	"context"
	"fmt"
)

// SilentSockets are peers that connect by TCP and send nothing.
//
// Each peer costs the daemon a descriptor. On the RDMA port it also costs one of the connections
// that may be in set-up, until the set-up times out.
type SilentSockets struct {
	Peers int
	// RDMA is true if the peers connect to the RDMA port.
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
