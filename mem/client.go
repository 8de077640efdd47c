package mem

import (
	"sync/atomic"
	"time"
)

// A Client is what all shares of one client hold together. In the pool, clients
// take turns: a client that asks for little does not stand behind all that
// another asks for. There is one for each key that shares were opened with, and
// it is forgotten with the last share and the last that was held.
type Client struct {
	pool *Pool
	key  any // nil: a share without a key is a client by itself

	// Guarded by pool.mu.
	holding
	small  int32        // pages of the reserve among them
	heap   atomic.Int64 // bytes charged by its shares; changed under pool.mu
	shares int          // that are open
	lines  int          // of its shares, that wait
	turns  *turn
	ended  uint64
	id     uint64

	// blamed: a share was ended lately because its peer pinned memory that others
	// waited for. Others have their turns first, until then.
	blamed bool
	until  time.Time

	// The sweeper's: bytes that
	// its shares hold without progress.
	stuck int64
}

// client is the Client of a key, made if need be. pool.mu is held, as for all
// below.
func (p *Pool) client(key any) *Client {
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

// forget drops a client of which nothing is left, and nothing is to be remembered.
func (c *Client) forget() {
	if c.gone() && !c.blamed {
		delete(c.pool.clients, c.key)
	}
}

func (c *Client) gone() bool {
	return c.shares == 0 && c.pages == 0 && c.lines == 0 && c.heap.Load() == 0 && c.key != nil
}

const (
	// blame is how long a client is blamed, and most how many are at a time that
	// have no share.
	blame     = time.Minute
	mostBlame = 4096
	// blamedGrace is grace for the peers of a client that is blamed: they come
	// back, and do the same.
	blamedGrace = time.Second
)

// grace is how long a peer of the client may stay below the least rate.
func (c *Client) grace() time.Duration {
	if c.blamed {
		return blamedGrace
	}
	return grace
}

// forgive ends what clients are blamed for, when its time is over.
func (p *Pool) forgive(now time.Time) {
	for _, c := range p.clients {
		if c.blamed && (now.After(c.until) || len(p.clients) > mostBlame && c.gone()) {
			c.blamed = false
			c.forget()
		}
	}
}

// within says whether n pages more, in g, leave c within its fair part: as much as
// each client would have if all that hold or wait had the same. What it holds in
// one group does not take its floor in another away, since a file system that
// stalls is no fault of the client's.
func (c *Client) within(g *Group, n int32) bool {
	p := c.pool
	if p.active <= 1 {
		return true
	}
	part := p.total() / p.active
	if int64(c.pages+n)+pagesIn(c.heap.Load()) <= int64(part) {
		return true
	}
	have := c.of(g)
	return have == 0 || have+n <= part/(2*(p.groups+1))
}

// pagesIn is how many pages n bytes come to.
func pagesIn(n int64) int64 { return (n + PageSize - 1) / PageSize }
