package rdma

import (
	"math/rand/v2"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A backchannel calls the peer of an accepted connection (RFC 8167). What it
// sends and gets fits a Send; nothing is exposed to the peer.
type backchannel struct {
	mu      sync.Mutex
	numbers numbering
	q       requester
}

var _ rpc.Caller = (*backchannel)(nil)

// newBackchannel is the reverse direction of k.
func newBackchannel(k *connection, credits int) *backchannel {
	b := &backchannel{}
	b.numbers.xid.Store(rand.Uint32())
	b.q = requester{
		k:         k,
		shortOnly: true,
		lose:      func(e *exchange, why error) { b.lose(e, why) },
		mu:        &b.mu,
		credits:   newCredits(credits),
		pending:   make(map[uint32]*exchange),
	}
	return b
}

// Start implements rpc.Caller.
func (b *backchannel) Start(x *rpc.Exchange) {
	b.mu.Lock()
	e := newExchange(x, b.numbers.xid.Add(1), b.numbers.order.Add(1))
	if b.q.ended {
		why := b.q.why
		b.mu.Unlock()
		b.lose(e, why)
		return
	}
	next := b.q.enqueue(e)
	b.mu.Unlock()
	b.q.pump(next)
}

// Cancel implements rpc.Caller.
func (b *backchannel) Cancel(x *rpc.Exchange, err error) { cancelExchange(&b.mu, x, err) }

// lose ends an exchange: only the peer can connect anew.
func (b *backchannel) lose(e *exchange, why error) {
	b.mu.Lock()
	if e.cancelled != nil {
		why = e.cancelled
	}
	e.stage = stageEnded
	b.mu.Unlock()
	e.finish(&b.mu, why)
}
