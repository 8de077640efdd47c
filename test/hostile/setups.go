package hostile

import (
	"context"
	"fmt"
)

// Setups are peers that set up an RDMA connection and then send no FPDU.
//
// Each peer costs the daemon a descriptor and the heap memory of a connection.
type Setups struct{ Peers int }

func (b Setups) String() string {
	return fmt.Sprintf("%d RDMA connections without an FPDU", b.Peers)
}

// Start implements Behaviour.
func (b Setups) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		p, err := dialRDMA(ctx, target.Source(i), target.RDMA, 0)
		if err != nil {
			return err
		}
		defer tie(ctx, p.conn)()
		stands()
		return hold(p.conn)
	})
}
