package server

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/ownaddr"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

// tcpCarrier carries RPC over TCP.
type tcpCarrier struct {
	*tcp.Server
	opened sockets // the listeners that systemd passed
}

func openTCP(s *Server) (_ carrier, err error) {
	c := new(tcpCarrier)
	if s.daemon {
		if c.opened, err = takeSockets(s.cfg); err != nil {
			return nil, err
		}
	}
	c.Server = tcp.NewServer(tcp.Config{
		RPC: s.rpc, Pool: s.pool,
		Census: s.census, Polls: s.polls,
		Event:       func(e tcp.Event) { s.connectionEvent("tcp", e.Kind, e.Peer, e.Err, e.Fault()) },
		MaxInFlight: s.cfg.Limits.CallsInFlight,
		Idle:        time.Duration(s.cfg.Limits.IdleTimeout),
		Stall:       time.Duration(s.cfg.Limits.StallTimeout),
	})
	return c, nil
}

func (c *tcpCarrier) ways(at netip.AddrPort) (all []way) {
	for _, own := range ownaddr.Of(at) {
		all = append(all, way{by: "tcp", at: own, dial: func(ctx context.Context) (rpc.Client, error) {
			return tcp.DialConfig{}.Dialer()(ctx, "tcp", own.String())
		}})
	}
	return all
}

func (c *tcpCarrier) listen(addr netip.AddrPort) (*listener, error) {
	if l := c.opened[addr]; l != nil {
		delete(c.opened, addr)
		return c.over(l), nil
	}
	l, err := net.Listen(network(addr), addr.String())
	if err != nil {
		return nil, listenError("TCP", addr, err)
	}
	return c.over(l), nil
}

// over makes a listener that serves TCP connections accepted from l.
func (c *tcpCarrier) over(l net.Listener) *listener {
	return &listener{
		addr:  l.Addr().(*net.TCPAddr).AddrPort(),
		serve: func() error { return c.Serve(l) },
		close: l.Close,
	}
}

// Close hides the Close of the tcp.Server, which has no error.
func (c *tcpCarrier) Close() error {
	c.Server.Close()
	c.opened.close()
	return nil
}

func (c *tcpCarrier) traffic() traffic {
	st := c.Stats()
	return traffic{
		open: int64(st.Connections), accepted: st.Accepted, stalled: st.Stalled,
		bytes:     []count{{"received", float64(st.Received)}, {"sent", float64(st.Sent)}},
		malformed: []count{{"malformed", float64(st.Malformed)}, {"too_long", float64(st.TooLong)}, {"stray_reply", float64(st.Stray)}},
	}
}
