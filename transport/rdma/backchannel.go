package rdma

import "github.com/nfsrdmad/nfsrdmad/rpc"

// A backchannel makes calls to the peer of an accepted connection (RFC 8167). All its
// messages fit into a Send; it exposes no memory to the peer.
type backchannel struct {
	caller
	q *requester
}

var _ rpc.Caller = (*backchannel)(nil)

// newBackchannel returns the backchannel of k. credits is the number of credits that each of its
// calls requests.
func newBackchannel(k *connection, credits int) *backchannel {
	b := &backchannel{}
	b.takeOver = b.lose
	b.q = newRequester(k, &b.caller, credits)
	b.q.shortOnly = true
	return b
}

// Start implements rpc.Caller.
func (b *backchannel) Start(x *rpc.Exchange) {
	b.mu.Lock()
	e := b.numberLocked(x)
	if b.q.ended {
		why := b.q.why
		b.mu.Unlock()
		b.lose(e, why)
		return
	}
	next := b.q.enqueueLocked(e)
	b.mu.Unlock()
	b.q.pump(next)
}

// lose ends an exchange with an error, because only the peer can make a new connection.
func (b *backchannel) lose(e *exchange, why error) {
	b.mu.Lock()
	if e.cancelled != nil {
		why = e.cancelled
	}
	e.stage = stageEnded
	b.mu.Unlock()
	e.finish(&b.mu, why)
}
