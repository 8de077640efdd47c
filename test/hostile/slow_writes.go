package hostile

import (
	"context"
	"fmt"
	"time"
)

// SlowWrites are peers on TCP that announce a large WRITE each, send its beginning, and then a
// byte a second.
//
// Each peer costs the daemon the memory of the record, until the daemon drops the record.
type SlowWrites struct {
	Peers int
	// Handle is a file handle, or bytes that a peer sends as one.
	Handle []byte
	// Size is the length of the data, in bytes. Begin is the number of bytes of the record that
	// the peer sends first, without a pause.
	Size, Begin int
}

func (b SlowWrites) String() string {
	return fmt.Sprintf("%d TCP connections that send %d bytes of a WRITE of %d and then a byte a second", b.Peers, b.Begin, b.Size)
}

// Start implements Behaviour.
func (b SlowWrites) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		c, err := dial(ctx, target.Source(i), target.TCP, 0)
		if err != nil {
			return err
		}
		defer tie(ctx, c)()
		head := writeHead(uint32(i), b.Handle, 0, uint32(b.Size), unstable)
		begin := append(mark(len(head)+b.Size), head...)
		begin = append(begin, make([]byte, max(b.Begin-len(begin), 0))...)
		if _, err := c.Write(begin); err != nil {
			return err
		}
		stands()
		ended := make(chan error, 1)
		go func() { ended <- hold(c) }()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if _, err := c.Write([]byte{0}); err != nil {
					return err
				}
			case err := <-ended:
				return err
			}
		}
	})
}
