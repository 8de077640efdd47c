package hostile

import (
	"context"
	"fmt"
)

// Calls are peers that each send the same few calls over one connection and then wait until the
// daemon ends the connection.
type Calls struct {
	Peers int
	What  string
	Calls [][]byte
	// RDMA is true if the peers use RDMA. Each call then has a Write chunk of Size bytes for its
	// result, or, if InReply is true, a Reply chunk of this size.
	RDMA    bool
	Size    uint32
	InReply bool
}

func (b Calls) String() string {
	transport := "TCP"
	if b.RDMA {
		transport = "RDMA"
	}
	return fmt.Sprintf("%d %s connections with %d calls: %s", b.Peers, transport, len(b.Calls), b.What)
}

// Start implements Behaviour.
func (b Calls) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		if !b.RDMA {
			c, err := dial(ctx, target.Source(i), target.TCP, 0)
			if err != nil {
				return err
			}
			defer tie(ctx, c)()
			if err := pour(c, len(b.Calls), func(n int) []byte { return record(b.Calls[n]) }, stands); err != nil {
				return err
			}
			return hold(c)
		}
		p, end, err := known(ctx, target, i)
		if err != nil {
			return err
		}
		defer end()
		err = pour(p.conn, min(len(b.Calls), credits), func(n int) []byte {
			s := segment{handle: uint32(2 + n), length: b.Size}
			c := chunks{write: s}
			if b.InReply {
				c = chunks{reply: s}
			}
			return p.message(rdmaMessage(c, b.Calls[n]))
		}, stands)
		if err != nil {
			return err
		}
		return hold(p.conn)
	})
}
