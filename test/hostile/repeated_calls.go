package hostile

import (
	"bufio"
	"context"
	"fmt"
)

// RepeatedCalls are peers on TCP that send a set of calls, and send the same set again when the
// daemon has answered all of them.
//
// Each peer costs the daemon the execution of its calls.
type RepeatedCalls struct {
	Peers int
	What  string
	Calls [][]byte
}

func (b RepeatedCalls) String() string {
	return fmt.Sprintf("%d TCP connections that repeat %d calls: %s", b.Peers, len(b.Calls), b.What)
}

// Start implements Behaviour.
func (b RepeatedCalls) Start(ctx context.Context, target Target) *Attack {
	var all []byte
	for _, c := range b.Calls {
		all = append(all, record(c)...)
	}
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		c, err := dial(ctx, target.Source(i), target.TCP, 0)
		if err != nil {
			return err
		}
		defer tie(ctx, c)()
		in := bufio.NewReader(c)
		for first := true; ; first = false {
			if _, err := c.Write(all); err != nil {
				return err
			}
			if first {
				stands()
			}
			for range b.Calls {
				if _, err := readRecord(in); err != nil {
					return err
				}
			}
		}
	})
}
