package server

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// webConnections is the largest number of connections at a time to the metrics, and as many to the status page, so that
// these connections do not use up the descriptors for files and clients. See webDoor.
const webConnections = 16

// A webDoor limits the connections of an HTTP server to webConnections. One connection too many ends another one, of the
// peer address that has most: the one that has had no request for longest, or if all have one, that whose request is the
// oldest. So a scrape, or a reader of the page, is answered even if others keep connections open.
type webDoor struct {
	mu   sync.Mutex
	open map[net.Conn]*visit
	n    uint64 // number of changes so far
}

// A visit is a connection at a webDoor. since is the number of its last change.
type visit struct {
	peer  netip.Addr
	asks  bool // it has a request that is not answered yet
	since uint64
}

// changed is the callback http.Server.ConnState.
func (d *webDoor) changed(c net.Conn, state http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	switch state {
	case http.StateNew:
		if d.open == nil {
			d.open = make(map[net.Conn]*visit)
		}
		v := &visit{since: d.n}
		if at, ok := c.RemoteAddr().(*net.TCPAddr); ok {
			v.peer = at.AddrPort().Addr().Unmap()
		}
		d.open[c] = v
		if len(d.open) > webConnections {
			d.endOne(c)
		}
	case http.StateActive, http.StateIdle:
		if v := d.open[c]; v != nil {
			v.asks, v.since = state == http.StateActive, d.n
		}
	default:
		delete(d.open, c)
	}
}

// endOne ends a connection other than the newest.
func (d *webDoor) endOne(newest net.Conn) {
	of := make(map[netip.Addr]int)
	for _, v := range d.open {
		of[v.peer]++
	}
	var victim net.Conn
	for c, v := range d.open {
		if c == newest {
			continue
		}
		if victim == nil || v.before(d.open[victim], of) {
			victim = c
		}
	}
	delete(d.open, victim)
	victim.Close()
}

// before reports whether v is ended rather than w. of has the number of connections of each address.
func (v *visit) before(w *visit, of map[netip.Addr]int) bool {
	switch {
	case of[v.peer] != of[w.peer]:
		return of[v.peer] > of[w.peer]
	case v.asks != w.asks:
		return w.asks
	}
	return v.since < w.since
}
