package servertest

import (
	"net"
	"net/netip"
	"sync"
	"testing"
)

// A Proxy forwards the bytes of one client to a server and back, until the test makes it behave
// like a peer that stops. It does not interpret the bytes, so it works for both transports. If the
// server ends the connection, the proxy ends the connection of the client. If the client ends its
// connection, the proxy keeps the connection to the server open.
type Proxy struct {
	t      testing.TB
	server netip.AddrPort
	l      *net.TCPListener
	work   sync.WaitGroup

	mu sync.Mutex
	// budget is the number of bytes that the proxy still forwards from the client to the server. If
	// it is negative, the proxy forwards all bytes.
	budget int
	// If untilAnswer is true, the proxy sets budget to 0 when the server sends its next byte.
	untilAnswer bool
	// If deaf is true, the proxy reads no more from the server.
	deaf  bool
	ended chan struct{} // closed by Close
	conns []net.Conn
}

// NewProxy makes a proxy for a server, at another port of the server's own IP address. The proxy
// ends with the test.
func NewProxy(t testing.TB, server netip.AddrPort) *Proxy {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(server.Addr(), 0)))
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, server: server, l: l, budget: -1, ended: make(chan struct{})}
	p.work.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Addr returns the proxy's listening address.
func (p *Proxy) Addr() netip.AddrPort { return p.l.Addr().(*net.TCPAddr).AddrPort() }

// StopAfter makes the proxy forward n more bytes from the client to the server, and then none.
func (p *Proxy) StopAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = n
}

// StopAtAnswer makes the proxy forward the client's bytes until the server sends its next byte, and
// then none. So the server gets a whole call, but no answer to its own requests, such as RDMA
// Reads.
func (p *Proxy) StopAtAnswer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.untilAnswer = true
}

// Deafen makes the proxy read no more from the server.
func (p *Proxy) Deafen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = true
}

// Close ends the listener and both connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	select {
	case <-p.ended:
	default:
		close(p.ended)
	}
	p.l.Close()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

func (p *Proxy) accept() {
	client, err := p.l.AcceptTCP()
	if err != nil {
		return
	}
	server, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(p.server))
	if err != nil {
		client.Close()
		p.t.Error(err)
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	p.work.Go(func() { p.carryToServer(server, client) })
	p.work.Go(func() { p.carryToClient(client, server) })
}

func (p *Proxy) carryToServer(server, client *net.TCPConn) {
	b := make([]byte, 4096)
	for {
		n, err := client.Read(b)
		if err != nil {
			return // the connection to the server stays open
		}
		p.mu.Lock()
		if p.budget >= 0 {
			n = min(n, p.budget)
			p.budget -= n
		}
		p.mu.Unlock()
		if n > 0 {
			if _, err := server.Write(b[:n]); err != nil {
				client.Close()
				return
			}
		}
	}
}

func (p *Proxy) carryToClient(client, server *net.TCPConn) {
	b := make([]byte, 4096)
	for {
		p.mu.Lock()
		deaf := p.deaf
		p.mu.Unlock()
		if deaf {
			<-p.ended
			return
		}
		n, err := server.Read(b)
		if err != nil {
			client.Close()
			return
		}
		p.mu.Lock()
		if p.untilAnswer {
			p.budget = 0
		}
		p.mu.Unlock()
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}
