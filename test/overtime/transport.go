package overtime

import (
	"context"
	"net"
	"net/netip"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

// A transport connects clients to a site.
type transport struct {
	dial  dialer
	close func()
	// open returns the number of connections that the server has open.
	open func() int
	// ports is true if clients may choose the local ports of their connections.
	ports bool
}

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// tcpOnLoopback serves a site over TCP sockets. Clients have addresses of 127.0.0.0/8.
func tcpOnLoopback(s *site, cfg tcp.Config) (transport, error) {
	l, err := net.Listen("tcp", loopback.String())
	if err != nil {
		return transport{}, err
	}
	cfg.RPC, cfg.Pool = s.rpc, s.pool
	ts := tcp.NewServer(cfg)
	ended := make(chan struct{})
	go func() { ts.Serve(l); close(ended) }()
	return transport{
		ports: true,
		open:  func() int { return ts.Stats().Connections },
		close: func() { ts.Close(); <-ended },
		dial: func(from netip.AddrPort, to listener) (way, error) {
			d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(from), Control: func(_, _ string, c syscall.RawConn) error {
				return c.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) })
			}}
			c, err := d.Dial("tcp", l.Addr().String())
			if err != nil {
				return nil, err
			}
			return overTCP(c, func() {
				c.(*net.TCPConn).SetLinger(0)
				c.Close()
			}, to), nil
		},
	}, nil
}

// rdmaOnLoopback serves a site over the software RNIC. All clients have one address.
func rdmaOnLoopback(s *site, cfg rdma.Config) (transport, error) {
	p, err := iwarp.New(iwarp.Config{})
	if err != nil {
		return transport{}, err
	}
	return overProvider(s, cfg, p, loopback, func(_ netip.Addr, at netip.AddrPort) netip.AddrPort { return at })
}

// overProvider serves a site over the connections of an RDMA provider. The function at returns the
// address that a client dials.
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
