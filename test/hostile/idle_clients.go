package hostile

import (
	"bufio"
	"context"
	"fmt"
	"sync"
)

// IdleClients are honest peers: each connects, makes one call, and is then idle, like a client that
// has mounted an export and does not use it.
//
// Each peer costs the daemon a descriptor and the memory of a connection, which JudgeIdle limits.
type IdleClients struct {
	Peers int
	// RDMA is true if the peers use RDMA.
	RDMA bool
}

func (b IdleClients) String() string {
	transport := "TCP"
	if b.RDMA {
		transport = "RDMA"
	}
	return fmt.Sprintf("%d idle %s connections after one call", b.Peers, transport)
}

// Start implements Behaviour.
func (b IdleClients) Start(ctx context.Context, target Target) *Attack {
	p := b.tcp
	if b.RDMA {
		p = b.rdma
	}
	// At most 64 peers set up their connections at a time.
	slots := make(chan struct{}, 64)
	return attack(ctx, b.Peers, func(ctx context.Context, i int, stands func()) error {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		free := sync.OnceFunc(func() { <-slots })
		defer free()
		return p(ctx, target, i, func() {
			free()
			stands()
		})
	})
}

func (b IdleClients) tcp(ctx context.Context, target Target, i int, stands func()) error {
	c, err := dial(ctx, target.Source(i), target.TCP, 0)
	if err != nil {
		return err
	}
	defer tie(ctx, c)()
	if _, err := c.Write(record(nullCall(uint32(i)))); err != nil {
		return err
	}
	if _, err := readRecord(bufio.NewReaderSize(c, 64)); err != nil {
		return err
	}
	stands()
	return hold(c)
}

func (b IdleClients) rdma(ctx context.Context, target Target, i int, stands func()) error {
	p, end, err := known(ctx, target, i)
	if err != nil {
		return err
	}
	defer end()
	stands()
	return hold(p.conn)
}
