package servertest

import (
	"net"
	"net/netip"
	"sync"
	"testing"
)

// A Proxy carries one client's bytes to a server and back until the test tells it to
// behave like a peer that does not go on. It does not know what the bytes mean, so
// that it serves both transports. When the server ends the connection, the proxy does
// so too; when the client ends it, the proxy does not tell the server.
type Proxy struct {
	t      testing.TB
	server netip.AddrPort
	l      *net.TCPListener
	work   sync.WaitGroup

	mu sync.Mutex
	// budget is how many bytes of the client's are still carried to the
	// server; less than 0 for all.
	budget int
	// untilAnswer: the next byte of the server's ends that.
	untilAnswer bool
	// deaf: nothing more is read from the server.
	deaf  bool
	ended chan struct{} // closed when the proxy is
	conns []net.Conn
}

// NewProxy makes a proxy before a server, on the server's own address.
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

// Addr is where the proxy listens.
func (p *Proxy) Addr() netip.AddrPort { return p.l.Addr().(*net.TCPAddr).AddrPort() }

// StopAfter lets n more bytes of the client's through, and then none.
func (p *Proxy) StopAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = n
}

// StopAtAnswer lets what the client sends through until the server says
// something, and then nothing: a call arrives whole, but what the server asks
// for then does not.
func (p *Proxy) StopAtAnswer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.untilAnswer = true
}

// Deafen reads no more from the server.
func (p *Proxy) Deafen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = true
}

// Close ends everything.
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
			return // what the client ended, the server need not know
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
