package server

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
)

// A transport is an entry of the registry of transports.
type transport struct {
	// name is the name in metrics and log lines, the configuration key that lists the addresses, and
	// the netid for rpcbind without the "6" of IPv6. title is the name in messages.
	name, title string
	// carriedBy is the name where doctor lists the ports that the daemon itself listens on, without
	// RDMA devices.
	carriedBy string
	// listen returns the configured addresses.
	listen func(*config.Config) []config.Listen
	// open makes the carrier of a server that starts.
	open func(*Server) (carrier, error)
}

// transports is the registry. Transports are opened and shown in this order.
var transports = []transport{
	{rpcbind.RDMA, "RDMA", "software RDMA", func(c *config.Config) []config.Listen { return c.RDMA }, openRDMA},
	{rpcbind.TCP, "TCP", "TCP", func(c *config.Config) []config.Listen { return c.TCP }, openTCP},
}

// A carrier is an open transport: its server and connections.
type carrier interface {
	// listen makes a listener on an address. The listener's serve accepts connections.
	listen(netip.AddrPort) (*listener, error)
	// ways returns the ways to connect from this process to a listener at the address.
	ways(netip.AddrPort) []way
	// Shutdown sends the last replies and then ends the connections. Close ends them at once.
	Shutdown(context.Context) error
	Close() error
	// traffic returns the current counters.
	traffic() traffic
}

// A way is one method by which this process can connect to a listener of its own machine.
type way struct {
	by   string // RDMA provider, or "tcp"
	at   netip.AddrPort
	dial func(context.Context) (rpc.Client, error)
	// device is true if an RDMA device carries the connection. Not every device can connect a
	// machine to itself.
	device bool
}

// null makes a NULL call on a new connection. This is the shortest proof that a server answers.
func (w *way) null(ctx context.Context, program, version uint32) error {
	k, err := w.dial(ctx)
	if err != nil {
		return err
	}
	defer k.Close()
	return rpc.Do(ctx, k, &rpc.Exchange{Program: program, Version: version}, nil)
}

// A listener listens on one address. close ends serve.
type listener struct {
	addr  netip.AddrPort
	serve func() error
	close func() error
}

// traffic holds the counters of a transport.
type traffic struct {
	open              int64 // connections now
	accepted, stalled uint64
	bytes             []count // by direction or kind of transfer
	malformed         []count // by kind of error
	faults            []count // by reason
	// The messages on RDMA devices use memory bytes, and at most memoryLimit, which is 0 without
	// devices.
	memory, memoryLimit int64
	devices             []rdmacm.DeviceStats
	versions            []rdma.VersionCounts // of versions 1 to the newest that is spoken
}

// A count is the value of a metric for one value of its label.
type count struct {
	label string
	n     float64
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

// network returns the network name of addr for package net: "tcp4" for IPv4, because with "tcp" a
// listener on 0.0.0.0 would also accept IPv6.
func network(addr netip.AddrPort) string {
	if addr.Addr().Is4() {
		return "tcp4"
	}
	return "tcp"
}

func listenError(what string, addr netip.AddrPort, err error) error {
	remedy := "choose another address"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		remedy = "another server listens there (knfsd, nfs-ganesha or another nfsrdmad): stop it or choose another port"
	case errors.Is(err, syscall.EACCES):
		remedy = "ports below 1024 need CAP_NET_BIND_SERVICE"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		remedy = "this machine does not have that address: see 'ip address'"
	}
	return fmt.Errorf("cannot listen for %s on %s: %w: %s", what, addr, config.Cause(err), remedy)
}

// addresses returns the addresses to listen on. If an entry means every address and the machine
// has no IPv6, its address is that of IPv4, 0.0.0.0.
func addresses(all []config.Listen) []netip.AddrPort {
	var out []netip.AddrPort
	for _, l := range all {
		switch {
		case l.None:
		case l.All && !haveIPv6():
			out = append(out, netip.AddrPortFrom(netip.IPv4Unspecified(), l.Addr.Port()))
		default:
			out = append(out, l.Addr)
		}
	}
	return out
}

// haveIPv6 reports whether an IPv6 socket can be bound.
func haveIPv6() bool {
	fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	return syscall.Bind(fd, &syscall.SockaddrInet6{}) == nil
}

// join joins a list for a log line.
func join[T fmt.Stringer](all []T) string {
	words := make([]string, len(all))
	for i, a := range all {
		words[i] = a.String()
	}
	return strings.Join(words, ", ")
}
