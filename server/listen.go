package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// listenError says why an address cannot be listened on, and what to do.
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
	return fmt.Errorf("cannot listen for %s on %s: %w: %s", what, addr, cause(err), remedy)
}

// addresses are what the directives mean. Without IPv6, every address is IPv4's.
func addresses(all []Listen) []netip.AddrPort {
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

// haveIPv6 says whether an IPv6 socket can be bound here at all.
func haveIPv6() bool {
	fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	return syscall.Bind(fd, &syscall.SockaddrInet6{}) == nil
}

func listenTCP(all []Listen) ([]net.Listener, error) {
	var out []net.Listener
	for _, a := range addresses(all) {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", a.String())
		if err != nil {
			for _, l := range out {
				l.Close()
			}
			return nil, listenError("TCP", a, err)
		}
		out = append(out, l)
	}
	return out, nil
}

func listenRDMA(p rdmacm.Provider, all []Listen) ([]rdmacm.Listener, error) {
	var out []rdmacm.Listener
	for _, a := range addresses(all) {
		l, err := p.Listen(a)
		if err != nil {
			for _, l := range out {
				l.Close()
			}
			return nil, listenError("RDMA ("+p.Name()+")", a, err)
		}
		out = append(out, l)
	}
	return out, nil
}

// mountCommands are, for each of the addresses that a client elsewhere could use,
// the commands that mount an export: by RDMA and by TCP. MOUNT is asked by TCP
// either way.
func mountCommands(name string, rdmaAddrs, tcpAddrs []netip.AddrPort, own []netip.Addr) []string {
	var out []string
	for _, p := range own {
		if p = p.Unmap(); p.IsLinkLocalUnicast() && p.Is6() {
			continue // needs the client's own interface name
		}
		tcpPort := portFor(p, tcpAddrs)
		if tcpPort == 0 {
			continue
		}
		host := p.String()
		if p.Is6() {
			host = "[" + host + "]"
		}
		mount := fmt.Sprintf("nolock,mountport=%d,mountproto=%s %s:%s /mnt", tcpPort, family("tcp", p), host, name)
		// siw does not connect over loopback.
		if rdmaPort := portFor(p, rdmaAddrs); rdmaPort != 0 && !p.IsLoopback() {
			out = append(out, fmt.Sprintf("mount -t nfs -o vers=3,proto=%s,port=%d,%s", family("rdma", p), rdmaPort, mount))
		}
		out = append(out, fmt.Sprintf("mount -t nfs -o vers=3,proto=%s,port=%d,%s", family("tcp", p), tcpPort, mount))
	}
	return out
}

// portFor is where a client that calls an address finds one of the listeners, or
// 0.
func portFor(p netip.Addr, listeners []netip.AddrPort) uint16 {
	for _, l := range listeners {
		a := l.Addr().Unmap()
		if a == p || a == netip.IPv6Unspecified() || a == netip.IPv4Unspecified() && p.Is4() {
			return l.Port()
		}
	}
	return 0
}

// ownAddresses are those of this machine's interfaces.
func ownAddresses() []netip.Addr {
	var out []netip.Addr
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if p, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, p)
			}
		}
	}
	return out
}

func family(netid string, a netip.Addr) string {
	if a.Is6() {
		return netid + "6"
	}
	return netid
}

func join[T fmt.Stringer](all []T) string {
	var b strings.Builder
	for i, a := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(a.String())
	}
	return b.String()
}

// MountCommands are the commands that mount the first export, for each address.
func (s *Server) MountCommands() []string {
	return mountCommands(s.exports[0].Name, s.RDMAAddrs(), s.TCPAddrs(), ownAddresses())
}
