package verbs

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// sendQueue is the size of a connection's send queue, in requests.
const sendQueue = 256

// A domain is the protection domain of a connection.
type domain struct {
	device.Domain
	own bool // no other connection uses it

	mu     sync.RWMutex // held for reading while Register makes a region in the domain
	closed bool
}

// A Conn is a connected queue pair.
type Conn struct {
	p           *Provider
	number      uint64 // the number of its ID
	dev         device.Conn
	rnic        *rnic
	port        device.Attributes // those of its own port
	domain      domain
	local, peer netip.AddrPort
	peerData    []byte
	taken       *share
	readDepth   int
	handler     rdmacm.Handler
	seat        rdmacm.Seat // Uncounted if this side dialed
	setup       setup       // gets the events of the ID until Established, if this side dialed. Provider.mu guards it
	moved       atomic.Uint64
	done        chan struct{}
	left        chan struct{} // closed when the peer has disconnected

	mu      sync.Mutex
	regions map[*region]struct{}
	in      receives
	out     sends
	ending  ending
	watch   watch
	alive   keepAlive
	// batching is true while the Handler or a Done is being called. Work that is posted
	// meanwhile waits in the queue until the call returns.
	batching bool
	over     bool // Closed was called, or is being called
}

var _ rdmacm.Conn = (*Conn)(nil)

// newConn makes the queues and the memory of a connection. local is this side's address. exposes
// is true if this side may expose memory to the peer.
func (p *Provider) newConn(id device.ID, local, peer netip.AddrPort, param *rdmacm.ConnParam, exposes bool) (*Conn, error) {
	d, port, err := p.rnicOf(id, local.Addr())
	if err != nil {
		return nil, err
	}
	taken, err := p.reserve(d, peer.Addr(), messageMemory(max(param.Receives, param.MaxReceives, 1), param.ReceiveSize))
	if err != nil {
		d.users.Done()
		return nil, err
	}
	c, err := d.newConn(id, param, exposes, taken)
	if err != nil {
		p.giveBack(d, taken)
		d.users.Done()
		return nil, err
	}
	c.local, c.peer, c.port = local, peer, port
	return c, nil
}

func (d *rnic) newConn(id device.ID, param *rdmacm.ConnParam, exposes bool, taken *share) (*Conn, error) {
	caps := device.Caps{
		Sends:    uint32(min(sendQueue, d.QPWorks, d.CQEntries)),
		Receives: uint32(max(param.Receives, param.MaxReceives, 1)),
		SGEs:     uint32(min(device.SGEs, d.SGEs)),
	}
	if most := min(d.QPWorks, d.CQEntries); int(caps.Receives) > most {
		return nil, fmt.Errorf("%d messages at a time are wanted, %s takes %d", caps.Receives, d.Name, most)
	}
	c := &Conn{
		p: d.p, number: id.Number(), rnic: d, taken: taken, handler: param.Handler, seat: rdmacm.Uncounted,
		done: make(chan struct{}), left: make(chan struct{}), regions: make(map[*region]struct{}),
	}
	c.domain.Domain = d.shared
	if exposes || d.IWARP {
		own, err := id.OpenDomain()
		if err != nil {
			return nil, err
		}
		c.domain.Domain, c.domain.own = own, true
	}
	c.out.sent.L = &c.mu
	c.out.ring, c.out.sges, c.out.lost = make([]slot, caps.Sends), int(caps.SGEs), math.MaxUint64
	c.in.size, c.in.depth, c.in.owed = param.ReceiveSize, int(caps.Receives), param.Receives
	c.in.reserved = c.in.depth
	c.mu.Lock()
	err := c.memoryLocked(param.Receives)
	c.mu.Unlock()
	if err == nil {
		c.dev, err = id.Create(c.domain.Domain, caps)
	}
	if err != nil {
		c.freeMemory()
		return nil, err
	}
	return c, nil
}

// freeMemory deregisters and unmaps the memory that only this connection uses.
func (c *Conn) freeMemory() {
	c.out.staging.Lock()
	defer c.out.staging.Unlock()
	for _, s := range slices.Concat(c.in.slabs, c.out.slabs) {
		// A region that stays keeps its pages from being used for anything else, also when they are unmapped.
		s.region.Deregister()
	}
	for _, s := range c.out.slabs {
		s.unmap()
	}
	c.mu.Lock()
	c.in.unknown = true
	c.unmapLocked()
	c.mu.Unlock()
	c.domain.mu.Lock()
	c.domain.closed = true
	c.domain.mu.Unlock()
	if c.domain.own {
		if err := c.domain.Close(); err != nil {
			c.p.cfg.Log(fmt.Sprintf("protection domain of %v: %v", c.peer, err))
		}
	}
}

// dismantle frees everything of the connection. Its goroutine has ended, or was never started.
// dismantle calls methods of the device that may sleep.
func (c *Conn) dismantle() {
	c.dev.DestroyQueues() // if it fails: the device has requests for memory of this connection only
	c.freeMemory()
	c.p.giveBack(c.rnic, c.taken)
	c.seat.Leave()
	c.freeID()
}

func (c *Conn) freeID() {
	c.p.forget(c.number)
	c.dev.Destroy()
	c.rnic.users.Done()
}

// Peer, Local, Limits, PeerPrivateData, ReadDepth and Done implement rdmacm.Conn.
func (c *Conn) Peer() netip.AddrPort    { return c.peer }
func (c *Conn) Local() netip.AddrPort   { return c.local }
func (c *Conn) Limits() rdmacm.Limits   { return c.p.Limits() }
func (c *Conn) PeerPrivateData() []byte { return c.peerData }
func (c *Conn) ReadDepth() int          { return c.readDepth }
func (c *Conn) Done() <-chan struct{}   { return c.done }

// Carrier implements rdmacm.Conn.
func (c *Conn) Carrier() rdmacm.Carrier {
	return rdmacm.Carrier{Provider: c.p.Name(), Device: c.rnic.Name, Protocol: c.port.Protocol, Shortcomings: c.rnic.shortcomings()}
}

// shortcomings returns the shortcomings of siw if the device is siw, and otherwise those that
// any other device may have.
func (d *rnic) shortcomings() []rdmacm.Shortcoming {
	if d.SIW {
		return []rdmacm.Shortcoming{
			rdmacm.AbortLooksOrderly, rdmacm.FaultLooksOrderly, rdmacm.FaultIsNotNamed,
			rdmacm.RefusalLosesItsData, rdmacm.ReadsNeedNoRight, rdmacm.ReadsSeeLaterBytes, rdmacm.NoEmptyRegion,
		}
	}
	return []rdmacm.Shortcoming{rdmacm.AbortLooksOrderly, rdmacm.FaultLooksOrderly, rdmacm.GuessableSTags}
}
