package mem

import (
	"sync/atomic"
	"time"
)

// A Client is the sum of all shares of one client. The pool serves clients in rotation: a small
// request of one client does not wait behind all requests of another. There is one Client for each
// key of open shares. The pool forgets it when its last share is closed and its last memory is
// released.
type Client struct {
	pool *Pool
	key  any // nil for a share without a key, which is a client by itself

	// Guarded by pool.mu.
	holding
	small  int32        // pages of the reserve that it holds
	heap   atomic.Int64 // bytes charged by its shares; changed under pool.mu
	shares int          // number of open shares
	queues int          // number of requestQueues of its shares
	waits  *clientQueue // its clientQueues, one for each waitingPlace
	turn   uint64       // Pool.turns when the client began to wait, or was last served in the main zone
	id     uint64

	// blamed is true if the pool ended one of its shares a short time ago, because that share's
	// peer made no progress while others waited for memory. Until the time in until, other clients
	// are served first.
	blamed bool
	until  time.Time

	// stuck is the number of bytes that its shares hold without progress. Only the sweeper uses it.
	stuck int64
}

// clientLocked returns the Client of a key, and makes it if needed.
func (p *Pool) clientLocked(key any) *Client {
	if c := p.clients[key]; c != nil && key != nil {
		return c
	}
	p.clientIDs++
	c := &Client{pool: p, key: key, id: p.clientIDs}
	if key != nil {
		p.clients[key] = c
	}
	return c
}

// forgetLocked drops a client that holds nothing, waits for nothing and is not blamed.
func (c *Client) forgetLocked() {
	if c.goneLocked() && !c.blamed {
		delete(c.pool.clients, c.key)
	}
}

func (c *Client) goneLocked() bool {
	return c.shares == 0 && c.pages == 0 && c.queues == 0 && c.heap.Load() == 0 && c.key != nil
}

const (
	// blame is how long a client stays blamed. If there are more than mostBlame clients, blamed
	// ones without a share are forgotten earlier.
	blame     = time.Minute
	mostBlame = 4096
	// blamedGrace replaces grace for a blamed client, because its peers probably connect again and
	// are as slow as before.
	blamedGrace = time.Second
)

// grace returns how long a peer of the client may stay below the least rate.
func (c *Client) grace() time.Duration {
	if c.blamed {
		return blamedGrace
	}
	return grace
}

// forgiveLocked ends the blame of clients for which it has expired.
func (p *Pool) forgiveLocked(now time.Time) {
	for _, c := range p.clients {
		if c.blamed && (now.After(c.until) || len(p.clients) > mostBlame && c.goneLocked()) {
			c.blamed = false
			c.forgetLocked()
		}
	}
}

// withinLocked reports whether c stays within its fair part with n more pages in g. The fair part is
// the total divided by the number of clients that hold or wait. If c exceeds it through other
// groups, it may still have a small part in g, because a stalled file system is not the client's
// fault.
func (c *Client) withinLocked(g *Group, n int32) bool {
	p := c.pool
	if p.active <= 1 {
		return true
	}
	part := p.total() / p.active
	if int64(c.pages+n)+pagesIn(c.heap.Load()) <= int64(part) {
		return true
	}
	have := c.of(g)
	return have == 0 || have+n <= part/2
}

// pagesIn returns the number of pages for n bytes.
func pagesIn(n int64) int64 { return (n + PageSize - 1) / PageSize }
