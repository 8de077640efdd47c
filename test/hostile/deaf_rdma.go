package hostile

import (
	"context"
	"fmt"
)

// DeafRDMA are peers on RDMA that make as many calls as they have credits, each with a large
// result, and read nothing from the connection.
//
// Cost of each for the daemon: the memory of the results.
type DeafRDMA struct {
	Peers int
	// Calls is the number of calls of each peer, 128 at most. What names the calls. Call makes a
	// call whose result has room for Size bytes, in a Write chunk, or, if InReply, in a Reply
	// chunk. If Size is 0, there are no chunks.
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
