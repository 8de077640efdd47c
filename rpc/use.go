package rpc

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A connUse counts what the calls of one connection have used. Each connection has its own, so that the processors
// rarely write to the same memory, and a call finds it without a lock.
type connUse struct{ calls, read, written, nanoseconds atomic.Uint64 }

// A Use is what the calls of a client address have used since the server heard of it.
type Use struct {
	// Calls counts the calls that have ended. Read and Written are bytes of files. Took is the time from when Serve had
	// the calls, whole and with their payload memory, to their ends. It grows only if Config.Observe is set, or in a Trace.
	Calls, Read, Written uint64
	Took                 time.Duration
	// Connections is the number of connections that are open.
	Connections int
}

// DidRead counts n bytes of files that the peer has read, and DidWrite those that it has written. The programs call them.
func (c *Conn) DidRead(n int) { c.use.read.Add(uint64(n)) }

// DidWrite: see DidRead.
func (c *Conn) DidWrite(n int) { c.use.written.Add(uint64(n)) }

func (u *Use) add(c *connUse) {
	u.Calls += c.calls.Load()
	u.Read += c.read.Load()
	u.Written += c.written.Load()
	u.Took += time.Duration(c.nanoseconds.Load())
}

func (u *Use) plus(v Use) {
	u.Calls += v.Calls
	u.Read += v.Read
	u.Written += v.Written
	u.Took += v.Took
}

// mostGone is the largest number of client addresses that have no connection any more, and whose Use is still kept apart.
const mostGone = 1024

// uses finds the connections of each client address.
type uses struct {
	mu      sync.Mutex
	clients map[netip.Addr]*clientUse
	// ended is the sum of what forgotten clients have used.
	ended Use
	gone  int // number of clients without connections
}

// A clientUse has the connections of a client address, and the sum of what those that have ended have used.
type clientUse struct {
	conns map[*Conn]struct{}
	ended Use
}

func (u *uses) enter(c *Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	client := u.clients[c.client]
	switch {
	case client == nil:
		if u.clients == nil {
			u.clients = make(map[netip.Addr]*clientUse)
		}
		client = &clientUse{conns: make(map[*Conn]struct{}, 1)}
		u.clients[c.client] = client
	case len(client.conns) == 0:
		u.gone--
	}
	client.conns[c] = struct{}{}
}

// each calls do with each connection.
func (u *uses) each(do func(*Conn)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, client := range u.clients {
		for c := range client.conns {
			do(c)
		}
	}
}

// leave is called when a connection has ended. What its calls use after that does not count.
func (u *uses) leave(c *Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	client := u.clients[c.client]
	if client == nil {
		return
	}
	if _, there := client.conns[c]; !there {
		return
	}
	delete(client.conns, c)
	client.ended.add(&c.use)
	if len(client.conns) > 0 {
		return
	}
	if client.ended == (Use{}) {
		delete(u.clients, c.client)
		return
	}
	if u.gone++; u.gone > mostGone {
		u.forget()
	}
}

// forget forgets half of the clients without connections: those that have made fewest calls come first.
func (u *uses) forget() {
	var calls []uint64
	for _, c := range u.clients {
		if len(c.conns) == 0 {
			calls = append(calls, c.ended.Calls)
		}
	}
	slices.Sort(calls)
	limit := calls[len(calls)/2]
	for a, c := range u.clients {
		if len(c.conns) == 0 && c.ended.Calls <= limit {
			u.ended.plus(c.ended)
			delete(u.clients, a)
			u.gone--
		}
	}
}

// Uses returns what each client address has used, if it has a connection or had one recently, and the sum of what all
// others have used.
func (s *Server) Uses() (clients map[netip.Addr]Use, others Use) {
	u := &s.uses
	u.mu.Lock()
	defer u.mu.Unlock()
	clients = make(map[netip.Addr]Use, len(u.clients))
	for a, c := range u.clients {
		of := c.ended
		for conn := range c.conns {
			of.add(&conn.use)
		}
		of.Connections = len(c.conns)
		clients[a] = of
	}
	return clients, u.ended
}
