package server

import (
	"net/netip"
	"sync"
	"time"
)

// Lines about one client: one in this time, with the number of those that were left
// out. Beyond so many clients in this time, no lines.
const (
	clientLineEvery = 10 * time.Second
	mostLineClients = 1024
)

// clientLines keeps a client that does something again and again from filling the
// log. Its methods may be called from any goroutine.
type clientLines struct {
	mu      sync.Mutex
	clients map[netip.Addr]*clientLine
	// leftOut counts the lines of clients for which there was no room, or which
	// were forgotten.
	leftOut int
}

type clientLine struct {
	last    time.Time
	leftOut int
}

// due says whether there is to be a line about a client now, and how many there
// were not before.
func (c *clientLines) due(client netip.Addr, now time.Time) (leftOut int, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.clients[client]
	switch {
	case l != nil && now.Sub(l.last) < clientLineEvery:
		l.leftOut++
		return 0, false
	case l == nil:
		if len(c.clients) >= mostLineClients {
			c.forget(now)
		}
		if len(c.clients) >= mostLineClients {
			c.leftOut++
			return 0, false
		}
		if c.clients == nil {
			c.clients = make(map[netip.Addr]*clientLine)
		}
		l = new(clientLine)
		c.clients[client] = l
	}
	leftOut = l.leftOut + c.leftOut
	*l, c.leftOut = clientLine{last: now}, 0
	return leftOut, true
}

// forget drops the clients whose last line is old. c.mu is held.
func (c *clientLines) forget(now time.Time) {
	for client, l := range c.clients {
		if now.Sub(l.last) >= clientLineEvery {
			c.leftOut += l.leftOut
			delete(c.clients, client)
		}
	}
}
