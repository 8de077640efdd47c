package hostile

import (
	"context"
	"fmt"
)

// Churn are peers that connect and close again and again, over TCP and at the RDMA port in turn, and send
// nothing. Each connection comes from another address.
//
// Each connection costs the daemon an accept(2) and a close(2).
type Churn struct {
	Peers int
}

func (b Churn) String() string { return fmt.Sprintf("%d peers that connect and close", b.Peers) }

// Start implements Behaviour.
func (b Churn) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		for n := 0; ; n++ {
			to := target.TCP
			if n%2 == 1 {
				to = target.RDMA
			}
			c, err := dial(ctx, target.Source(i+n*b.Peers), to, 0)
			if err != nil {
				return err
			}
			c.Close()
			if n == 0 {
				stands()
			}
		}
	})
}
