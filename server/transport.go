package server

import (
	"context"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
)

// A transport is an entry of the registry: a way that calls come by.
type transport struct {
	// name is the configuration's key and the flag, and the label of metrics and the
	// field of log lines.
	name string
	// title is how messages for people call it, carriedBy how doctor does.
	title, carriedBy string
	// port is the default, on every address; listen is what the user says instead.
	port   uint16
	listen func(*Config) *[]Listen
	// flag is the flag's help text, meaning the key's in docs/configuration.md.
	flag, meaning string
	// netid is the kind of its netids, for rpcbind.
	netid string
	// open puts it together over the rooms of a server that starts.
	open func(*Server) (carrier, error)
	// dial connects to a server.
	dial func(context.Context, netip.AddrPort) (rpc.Client, error)
}

// transports are all that there are, in the order in which they are opened and shown.
var transports = []transport{
	{
		name: "rdma", title: "RDMA", carriedBy: "software RDMA",
		port: DefaultRDMAPort, listen: func(c *Config) *[]Listen { return &c.RDMA },
		flag:    "address to serve RDMA on: ADDR:PORT, :PORT or none; repeatable (default :20049)",
		meaning: "addresses to serve RDMA on: `\"IP:PORT\"`, `\"[IPv6]:PORT\"`, `\":PORT\"` for every address of both families; or `[\"none\"]`",
		netid:   rpcbind.RDMA, open: openRDMA, dial: dialRDMA,
	},
	{
		name: "tcp", title: "TCP", carriedBy: "TCP",
		port: DefaultTCPPort, listen: func(c *Config) *[]Listen { return &c.TCP },
		flag:    "address to serve TCP on: ADDR:PORT, :PORT or none; repeatable (default :2049)",
		meaning: "the same for TCP. One of the two must listen, and not both at one port of one address: RDMA is carried in TCP",
		netid:   rpcbind.TCP, open: openTCP, dial: dialTCP,
	},
}

// transportOf finds an entry by its name.
func transportOf(name string) *transport {
	for i := range transports {
		if transports[i].name == name {
			return &transports[i]
		}
	}
	return nil
}

// A carrier is a transport that was put together.
type carrier interface {
	// listen makes a listener, whose serve takes connections.
	listen(netip.AddrPort) (*listener, error)
	// shutdown lets the last answers leave and ends the connections; close cuts them.
	shutdown(context.Context) error
	close() error
	// traffic is a snapshot of what it counts.
	traffic() traffic
}

// A listener is one address that is listened on. close ends serve.
type listener struct {
	addr  netip.AddrPort
	serve func() error
	close func() error
}

// traffic is what each transport counts.
type traffic struct {
	open              int64 // connections, now
	accepted, stalled uint64
	bytes, malformed  []count // by way, and by kind
	faults            []count // by reason
}

// A count is one of several, by the value of a label.
type count struct {
	label string
	n     uint64
}

// A running transport is one of a Server's.
type running struct {
	*transport
	carrier
	listeners []*listener
}

// openTransport puts a transport together and listens where the configuration says. What
// was opened is in s.transports, on an error, too.
func (s *Server) openTransport(t *transport) error {
	c, err := t.open(s)
	if err != nil {
		return err
	}
	r := &running{transport: t, carrier: c}
	s.transports = append(s.transports, r)
	for _, a := range addresses(*t.listen(s.cfg)) {
		l, err := c.listen(a)
		if err != nil {
			return err
		}
		r.listeners = append(r.listeners, l)
	}
	return nil
}

// running finds a transport by its name.
func (s *Server) running(name string) *running {
	for _, t := range s.transports {
		if t.name == name {
			return t
		}
	}
	return nil
}

// addrs is what a transport listens on.
func (s *Server) addrs(name string) []netip.AddrPort {
	var all []netip.AddrPort
	for _, l := range s.running(name).listeners {
		all = append(all, l.addr)
	}
	return all
}

// RDMAAddrs is what the server listens on for RDMA.
func (s *Server) RDMAAddrs() []netip.AddrPort { return s.addrs("rdma") }

// TCPAddrs is what the server listens on for TCP.
func (s *Server) TCPAddrs() []netip.AddrPort { return s.addrs("tcp") }
