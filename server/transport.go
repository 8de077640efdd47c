package server

import (
	"context"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// A transport is an entry of the registry of transports.
type transport struct {
	// name is the name in metrics and log lines, and the configuration key that lists the
	// addresses.
	name string
	// title is the transport's name in messages. carriedBy is its name where doctor lists the ports
	// that the daemon itself listens on, without RDMA devices.
	title, carriedBy string
	// listen returns the configured addresses.
	listen func(*config.Config) []config.Listen
	// netid is the transport's netid for rpcbind, without the "6" of IPv6.
	netid string
	// open makes the carrier of a server that starts.
	open func(*Server) (carrier, error)
}

// transports is the registry. Transports are opened and shown in this order.
var transports = []transport{
	{
		name: "rdma", title: "RDMA", carriedBy: "software RDMA",
		listen: func(c *config.Config) []config.Listen { return c.RDMA },
		netid:  rpcbind.RDMA, open: openRDMA,
	},
	{
		name: "tcp", title: "TCP", carriedBy: "TCP",
		listen: func(c *config.Config) []config.Listen { return c.TCP },
		netid:  rpcbind.TCP, open: openTCP,
	},
}

// transportOf returns the registry's entry with this name, or nil.
func transportOf(name string) *transport {
	for i := range transports {
		if transports[i].name == name {
			return &transports[i]
		}
	}
	return nil
}

// A carrier is an open transport: its server and connections.
type carrier interface {
	// listen makes a listener on an address. The listener's serve accepts connections.
	listen(netip.AddrPort) (*listener, error)
	// ways returns the ways to connect from this process to a listener at the address.
	ways(netip.AddrPort) []way
	// shutdown sends the last replies and then ends the connections. close ends them at once.
	shutdown(context.Context) error
	close() error
	// traffic returns the current counters.
	traffic() traffic
}

// A listener listens on one address. close ends serve.
type listener struct {
	addr  netip.AddrPort
	serve func() error
	close func() error
}

// traffic holds the counters of a transport.
type traffic struct {
	open              int64 // current connections
	accepted, stalled uint64
	bytes, malformed  []count // bytes are counted by direction or kind of transfer, malformed by kind of error
	faults            []count // by reason
	// memory is how many bytes messages on RDMA devices use, and memoryLimit how many they may
	// use. memoryLimit is 0 without devices.
	memory, memoryLimit int64
	devices             []rdmacm.DeviceStats
}

// A count is the value of a metric for one value of its label.
type count struct {
	label string
	n     uint64
}

// A running is an open transport with its listeners.
type running struct {
	*transport
	carrier
	listeners []*listener
}

// openTransport opens a transport and listens on its configured addresses. On an error,
// s.transports has what was opened, so that the caller can close it.
func (s *Server) openTransport(t *transport) error {
	c, err := t.open(s)
	if err != nil {
		return err
	}
	r := &running{transport: t, carrier: c}
	s.transports = append(s.transports, r)
	for _, a := range addresses(t.listen(s.cfg)) {
		l, err := c.listen(a)
		if err != nil {
			return err
		}
		r.listeners = append(r.listeners, l)
	}
	return nil
}

// running returns the open transport with this name, or nil.
func (s *Server) running(name string) *running {
	for _, t := range s.transports {
		if t.name == name {
			return t
		}
	}
	return nil
}

// addrs returns the addresses that a transport listens on.
func (s *Server) addrs(name string) []netip.AddrPort {
	var all []netip.AddrPort
	for _, l := range s.running(name).listeners {
		all = append(all, l.addr)
	}
	return all
}

// RDMAAddrs returns the addresses that the server listens on for RDMA.
func (s *Server) RDMAAddrs() []netip.AddrPort { return s.addrs("rdma") }

// TCPAddrs returns the addresses that the server listens on for TCP.
func (s *Server) TCPAddrs() []netip.AddrPort { return s.addrs("tcp") }
