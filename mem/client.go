package mem

import (
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/fair"
	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// A Client is the sum of all shares with the same key (OpenShare), such as those of all connections
// of a client machine. The pool serves Clients in turn. It forgets a Client that has no open share,
// holds nothing and is not blamed.
type Client struct {
	pool *Pool
	key  any // nil for the Client of a single share without a key
	// address, site and ofSite are set if the key is an address.
	address, site netip.Addr
	ofSite        *siteCharges

	// Guarded by pool.mu.
	holding
	small  int32          // pages of the reserve that it holds
	heap   fair.Count     // bytes of Go heap charged to its shares; changed only under pool.mu
	shares int            // number of open shares
	queues int            // number of requestQueues of its shares
	waits  []*clientQueue // its clientQueues, one for each waitingPlace
	turn   uint64         // Pool.turns when the client began to wait, or was last served in the main zone
	id     uint64

	// blamed is true if the pool has ended a connection of the client, because its peer made no
	// progress while other requests waited for memory. The blame lasts until the time in the field
	// until; forgiveLocked ends it when memory is short next. Meanwhile the pool serves other clients first,
	// and all blamed clients together have the part of strangers (part.go).
	blamed  bool
	until   time.Time
	inBlame blame
}

// A blame is the entry of a blamed Client in pressure.blames.
type blame struct {
	queue.Links[blame]
	client *Client
}

// siteCharges counts the bytes of Go heap that are charged to the Clients of a site. clients is their number, and turn
// is Pool.turns when the first of them came, or when one was last served in the main zone. pool.mu guards both.
type siteCharges struct {
	heap    fair.Count
	clients int
	turn    uint64
}

// lastTurn returns the turn that orders the client, with its site, between groups (clientQueue.before).
func (c *Client) lastTurn() uint64 {
	if c.ofSite != nil {
		return c.ofSite.turn
	}
	return c.turn
}

// joinSiteLocked counts c, a new Client, in its site. A Client whose key is no address counts as a site.
func (c *Client) joinSiteLocked() {
	if !c.site.IsValid() {
		c.heap.Under(&c.pool.heap)
		return
	}
	s := c.pool.sites[c.site]
	if s == nil {
		s = &siteCharges{turn: c.pool.turns} // a site that leaves and comes back gains no turn
		s.heap.Under(&c.pool.heap)
		c.pool.sites[c.site] = s
	}
	c.heap.Under(&s.heap)
	s.clients++
	c.ofSite = s
}

// clientLocked returns the Client with the given key, and makes it if there is none. If key is nil,
// it always makes a new Client.
func (p *Pool) clientLocked(key any) *Client {
	if c := p.clients[key]; c != nil && key != nil {
		return c
	}
	p.clientIDs++
	c := &Client{pool: p, id: p.clientIDs}
	c.setKey(key)
	if key != nil {
		p.clients[key] = c
	}
	c.joinSiteLocked()
	return c
}

// forgetLocked removes c from the pool if c has no share, holds nothing, waits for nothing and is
// not blamed.
func (c *Client) forgetLocked() {
	if !c.goneLocked() || c.pool.clients[c.key] != c {
		return
	}
	if c.blamed {
		if len(c.pool.clients) <= mostBlame {
			return
		}
		c.pool.unblameLocked(c)
	}
	delete(c.pool.clients, c.key)
	if s := c.ofSite; s != nil {
		if s.clients--; s.clients == 0 {
			delete(c.pool.sites, c.site)
		}
	}
}

func (c *Client) goneLocked() bool {
	return c.shares == 0 && c.pages == 0 && c.queues == 0 && c.heap.Held() == 0 && c.key != nil
}

const (
	// blameFor is how long a client stays blamed (Client.blamed). If the pool has more than mostBlame
	// clients, a blamed one is forgotten as soon as it has no open share and holds nothing.
	blameFor  = time.Minute
	mostBlame = 4096
	// blamedGrace replaces the constant grace for a blamed client, because its peers probably
	// connect again and are as slow as before.
	blamedGrace = time.Second
)

// grace returns how long a connection of the client may stay slower than leastRate before the pool
// may end it.
func (c *Client) grace() time.Duration {
	if c.blamed {
		return blamedGrace
	}
	return grace
}

// blameUntilLocked makes c a blamed client. The Client of a share without a key is blamed until it is gone.
func (p *Pool) blameUntilLocked(c *Client, until time.Time) {
	if c.key != nil {
		if c.blamed {
			p.blames.Remove(&c.inBlame)
		}
		c.inBlame.client = c
		p.blames.Add(&c.inBlame)
	}
	c.until = until
	c.blameLocked(true)
}

func (p *Pool) unblameLocked(c *Client) {
	p.blames.Remove(&c.inBlame)
	c.blameLocked(false)
}

// forgiveLocked ends the blame of clients that have been blamed for long enough (blameFor).
func (p *Pool) forgiveLocked() {
	if p.blames.First == nil {
		return
	}
	now := time.Now()
	for b := p.blames.First; b != nil && now.After(b.client.until); b = p.blames.First {
		p.unblameLocked(b.client)
		b.client.forgetLocked()
	}
}
