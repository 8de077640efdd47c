package udp

import (
	"container/list"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/clientaddr"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

const (
	// maxPeers is the number of client addresses that a Socket remembers, and maxConns that of the ports of one of them.
	maxPeers = 1024
	maxConns = 64
	// The number of calls that a client address may make in a second, and also at once: strangerRate if it has shown no
	// file handle of the server, and otherwise knownRate.
	strangerRate = 20
	knownRate    = 2000
	// maxRunning is the number of calls of a client address that a Socket takes before it has answered them, and
	// maxRunningOfAll that of all addresses. Each may wait for a file system, for any time.
	maxRunning      = 64
	maxRunningOfAll = 1024
)

// A peer is a client address. rpc remembers the last replies of each of its ports, so that a repeated call is not executed
// again.
type peer struct {
	at    netip.Addr
	conns map[ends]*conversation
	known bool
	place *list.Element
	// left is how many calls the peer may make at the time last.
	left float64
	last time.Time
	// running counts the calls that have come and not ended.
	running atomic.Int32
}

// A conversation is with one port of a peer.
type conversation struct {
	*rpc.Conn
	last time.Time // of a call
}

// ends are the two ends of a conversation.
type ends struct{ peer, local netip.AddrPort }

// peers has the client addresses that have called. Only Serve uses it.
type peers struct {
	all map[netip.Addr]*peer
	// strangers and known have them in the order of their last calls, the latest in front.
	strangers, known *list.List
}

func (p *peers) begin() {
	p.all, p.strangers, p.known = make(map[netip.Addr]*peer), list.New(), list.New()
}

func (p *peers) end() {
	for _, one := range p.all {
		one.close()
	}
}

func (one *peer) close() {
	for _, c := range one.conns {
		c.Close()
	}
	clear(one.conns)
}

// conn returns the peer and the Conn of a call between two addresses, or nil if the peer makes too many calls.
func (p *peers) conn(s *rpc.Server, from, local netip.AddrPort, now time.Time) (*peer, *rpc.Conn) {
	client := clientaddr.Of(from.Addr())
	one := p.all[client]
	if one == nil {
		one = &peer{at: client, conns: make(map[ends]*conversation), left: strangerRate, last: now}
		one.place = p.strangers.PushFront(one)
		p.all[client] = one
		if len(p.all) > maxPeers {
			p.forget()
		}
	}
	at := ends{from, local}
	conn := one.conns[at]
	if conn != nil && conn.Known() && !one.known {
		one.known, one.left = true, knownRate
		p.strangers.Remove(one.place)
		one.place = p.known.PushFront(one)
	}
	rate, line := strangerRate, p.strangers
	if one.known {
		rate, line = knownRate, p.known
	}
	line.MoveToFront(one.place)
	one.left = min(float64(rate), one.left+now.Sub(one.last).Seconds()*float64(rate))
	if one.last = now; one.left < 1 || one.running.Load() >= maxRunning {
		return nil, nil
	}
	one.left--
	if conn == nil || conn.Gone() {
		if conn == nil && len(one.conns) >= maxConns {
			one.closeOldest()
		}
		conn = &conversation{Conn: s.NewConn(from, local, "udp", from.Port() > 0 && from.Port() < 1024)}
		one.conns[at] = conn
	}
	conn.last = now
	return one, conn.Conn
}

// closeOldest ends the conversation that has had no call for the longest time.
func (one *peer) closeOldest() {
	var oldest ends
	for at, c := range one.conns {
		if is := one.conns[oldest]; is == nil || c.last.Before(is.last) {
			oldest = at
		}
	}
	one.conns[oldest].Close()
	delete(one.conns, oldest)
}

// forget removes the peer that has not called for the longest time. As long as there are two strangers, it is one of
// them; the newest stays.
func (p *peers) forget() {
	line := p.known
	if p.strangers.Len() > 1 || line.Len() == 0 {
		line = p.strangers
	}
	one := line.Remove(line.Back()).(*peer)
	delete(p.all, one.at)
	one.close()
}
