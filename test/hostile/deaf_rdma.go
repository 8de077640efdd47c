package hostile

import (
	"context"
	"fmt"
)

// DeafRDMA are peers on RDMA that make many calls at once, each with a large result, and never read
// from the connection.
//
// Each peer costs the daemon the memory of the results.
type DeafRDMA struct {
	Peers int
	// Calls is the number of calls of each peer, at most 128. What describes the calls in String.
	// Call returns the bytes of one call. If Size is not 0, the call has a Write chunk of Size
	// bytes for its result, or, if InReply is true, a Reply chunk of this size.
	Calls   int
	What    string
	Call    func(xid uint32) []byte
	Size    uint32
	InReply bool
}

func (b DeafRDMA) String() string {
	return fmt.Sprintf("%d RDMA connections with %d calls of %s that take nothing from the wire", b.Peers, b.Calls, b.What)
}

// Start implements Behaviour.
func (b DeafRDMA) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		p, err := dialRDMA(ctx, target.Source(i), target.RDMA, smallWindow)
		if err != nil {
			return err
		}
		defer tie(ctx, p.conn)()
		if err := p.null(); err != nil {
			return err
		}
		err = pour(p.conn, min(b.Calls, credits), func(n int) []byte {
			var c chunks
			s := segment{handle: uint32(2 + n), length: b.Size}
			if b.InReply {
				c.reply = s
			} else {
				c.write = s
			}
			return p.message(rdmaMessage(c, b.Call(uint32(2+n))))
		}, stands)
		if err != nil {
			return err
		}
		return awaitEnd(ctx, p.conn)
	})
}
