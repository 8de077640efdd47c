package server

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// network returns the name of addr's family for package net: 0.0.0.0 means every IPv4 address,
// and "tcp" would add those of IPv6.
func network(addr netip.AddrPort) string {
	if addr.Addr().Is4() {
		return "tcp4"
	}
	return "tcp"
}

// listenError explains why the server cannot listen on an address, and what to do.
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

// checkListening rejects a configuration that listens nowhere, or twice at one address.
func (c *Config) checkListening() error {
	type directive struct {
		key string
		Listen
	}
	var all []directive
	for i := range transports {
		t := &transports[i]
		for _, l := range *t.listen(c) {
			if !l.None {
				all = append(all, directive{t.name, l})
			}
		}
	}
	if len(all) == 0 {
		return &keyError{c.firstSaid("tcp", "rdma"), errors.New(`nothing to listen on: rdma and tcp are both "none"; give one of them an address such as ":2049"`)}
	}
	for i, a := range all {
		for _, b := range all[:i] {
			switch {
			case !a.collides(b.Listen):
			case a.key == b.key:
				return badValue(a.key, fmt.Sprintf("%q and %q", b, a), "these are one port of one address: leave one of them out")
			default:
				return &keyError{c.firstSaid(a.key, b.key), fmt.Errorf("%s = %q and %s = %q are one port: RDMA is carried in TCP here; give it a port of its own, such as %d", b.key, b, a.key, a, DefaultRDMAPort)}
			}
		}
	}
	return nil
}

// firstSaid returns the first of keys that the user set, or the first of all.
func (c *Config) firstSaid(keys ...string) string {
	for _, key := range keys {
		if c.says(key) {
			return key
		}
	}
	return keys[0]
}

// collides reports that the two addresses cannot both be listened on. Every address of IPv6
// includes every one of IPv4.
func (l Listen) collides(with Listen) bool {
	a, b := l.Addr.Addr().Unmap(), with.Addr.Addr().Unmap()
	covers := func(a, b netip.Addr) bool { return a == b || a.IsUnspecified() && (a.Is6() || b.Is4()) }
	return l.Addr.Port() != 0 && l.Addr.Port() == with.Addr.Port() && (covers(a, b) || covers(b, a))
}

// addresses returns the addresses to listen on. On a machine without IPv6, "every address" means
// IPv4's.
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
