package overtime

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

// tcpInMemory serves a site over TCP connections in memory.
func tcpInMemory(s *site, cfg tcp.Config) transport {
	l := &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	cfg.RPC, cfg.Pool = s.rpc, s.pool
	ts := tcp.NewServer(cfg)
	ended := make(chan struct{})
	go func() { ts.Serve(l); close(ended) }()
	port := uint16(1024)
	var mu sync.Mutex
	last := make(map[netip.AddrPort]*socket)
	return transport{
		ports: true,
		open:  func() int { return ts.Stats().Connections },
		close: func() { ts.Close(); <-ended },
		dial: func(from netip.AddrPort, to listener) (way, error) {
			mu.Lock()
			defer mu.Unlock()
			if from.Port() == 0 {
				port++
				from = netip.AddrPortFrom(from.Addr(), port)
			}
			if before := last[from]; before != nil {
				before.reset() // because the SYN of a new connection from the same port resets the old one
			}
			near, far := pipe(net.TCPAddrFromAddrPort(from), net.TCPAddrFromAddrPort(server))
			last[from] = near
			select {
			case l.conns <- far:
				return overTCP(near, near.reset, to), nil
			case <-l.closed:
				return nil, net.ErrClosed
			}
		},
	}
}

// A memoryListener accepts the connections that dial sends to conns.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return net.TCPAddrFromAddrPort(server) }

// rdmaInMemory serves a site over RDMA connections in memory.
func rdmaInMemory(s *site, cfg rdma.Config) (transport, error) {
	p := rdmatest.NewConfig(rdmatest.Config{Quiet: true, Patience: time.Second})
	return overProvider(s, cfg, p, netip.MustParseAddrPort("0.0.0.0:20049"), func(from netip.Addr, at netip.AddrPort) netip.AddrPort {
		return netip.AddrPortFrom(from, at.Port()) // in rdmatest, the address that a client dials is also the client's own
	})
}
