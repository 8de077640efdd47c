package hostile

import (
	"context"
	"fmt"
)

// Rounds are peers that make the same calls again and again, with UnderWay calls under way at a
// time, and read the replies. This is an ordinary load, unless one of the calls is expensive.
type Rounds struct {
	Peers, UnderWay int
	What            string
	Calls           [][]byte
	Transport       string
}

func (b Rounds) String() string {
	return fmt.Sprintf("%d %s connections with %d calls under way all the time: %s", b.Peers, b.Transport, b.UnderWay, b.What)
}

// Start implements Behaviour.
func (b Rounds) Start(ctx context.Context, target Target) *Attack {
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		l, end, err := dialLink(ctx, target, b.Transport, i)
		if err != nil {
			return err
		}
		defer end()
		next := i // so that the peers begin with different calls
		put := func() error {
			c := append([]byte(nil), b.Calls[next%len(b.Calls)]...)
			next++
			be.PutUint32(c, uint32(next))
			return l.put(c)
		}
		for range b.UnderWay {
			if err := put(); err != nil {
				return err
			}
		}
		stands()
		for {
			if _, err := l.next(); err != nil {
				return err
			}
			if err := put(); err != nil {
				return err
			}
		}
	})
}
