package hostile

import (
	"context"
	"fmt"
)

// smallWindow is the receive window, in bytes, of peers that do not read their connections.
const smallWindow = 4 << 10

// DeafCalls are peers on TCP that send calls one after the other and read no reply.
//
// Each peer costs the daemon the memory of the replies that it cannot send.
type DeafCalls struct {
	Peers int
	// Calls is the largest number of calls that each peer sends.
	Calls int
	// What describes the calls in String. Call returns the bytes of one call.
	What string
	Call func(xid uint32) []byte
}

func (b DeafCalls) String() string {
	return fmt.Sprintf("%d TCP connections that send up to %d calls of %s and read no reply", b.Peers, b.Calls, b.What)
}

// Start implements Behaviour.
func (b DeafCalls) Start(ctx context.Context, target Target) *Attack {
	const together = 32 // calls in one send
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		c, err := dial(ctx, target.Source(i), target.TCP, smallWindow)
		if err != nil {
			return err
		}
		defer tie(ctx, c)()
		var some []byte
		err = pour(c, (b.Calls+together-1)/together, func(n int) []byte {
			some = some[:0]
			for k := range min(together, b.Calls-n*together) {
				some = append(some, record(b.Call(uint32(n*together+k)))...)
			}
			return some
		}, stands)
		if err != nil {
			return err
		}
		return awaitEnd(ctx, c)
	})
}
