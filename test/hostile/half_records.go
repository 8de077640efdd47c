package hostile

import (
	"context"
	"fmt"
)

// HalfRecords are peers on TCP that send the beginning of an RPC record and then nothing.
//
// Each peer costs the daemon the memory of the part of the record that has arrived.
type HalfRecords struct {
	Peers int
	// Size is the length of the record, in bytes; Sent is the length of the part that the peer
	// sends.
	Size, Sent int
}

func (b HalfRecords) String() string {
	return fmt.Sprintf("%d TCP connections that send %d bytes of a record of %d", b.Peers, b.Sent, b.Size)
}

// Start implements Behaviour.
func (b HalfRecords) Start(ctx context.Context, target Target) *Attack {
	begin := append(mark(b.Size), nullCall(1)...)
	begin = append(begin, make([]byte, max(b.Sent-len(begin), 0))...)
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		c, err := dial(ctx, target.Source(i), target.TCP, 0)
		if err != nil {
			return err
		}
		defer tie(ctx, c)()
		if _, err := c.Write(begin); err != nil {
			return err
		}
		stands()
		return hold(c)
	})
}
