package overtime

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

// A transport carries the calls of a site.
type transport struct {
	dial  dialer
	close func()
	// open is how many connections the server has.
	open func() int
	// ports: clients may choose theirs.
	ports bool
}

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
				before.reset() // by the SYN
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

// A memoryListener accepts what is handed to it.
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
		return netip.AddrPortFrom(from, at.Port()) // the address of this side is the one dialed
	})
}

// overProvider serves a site over the connections of a provider. at is where a client at
// an address dials.
func overProvider(s *site, cfg rdma.Config, p rdmacm.Provider, listen netip.AddrPort, at func(from netip.Addr, server netip.AddrPort) netip.AddrPort) (transport, error) {
	cfg.RPC, cfg.Pool = s.rpc, s.pool
	rs, err := rdma.NewServer(cfg)
	if err != nil {
		return transport{}, err
	}
	l, err := p.Listen(listen)
	if err != nil {
		return transport{}, err
	}
	ended := make(chan struct{})
	go func() { rs.Serve(l); close(ended) }()
	return transport{
		open:  func() int { return int(rs.Stats().Connections.Load()) },
		close: func() { rs.Close(); <-ended },
		dial: func(from netip.AddrPort, to listener) (way, error) {
			return overRDMA(func(param rdmacm.ConnParam) (rdmacm.Conn, error) {
				return p.Dial(context.Background(), at(from.Addr(), l.Addr()), param)
			}, to)
		},
	}, nil
}
