package server

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// network returns the network name of addr for package net. For IPv4 it is "tcp4", because with
// "tcp" a listener on 0.0.0.0 would also accept IPv6.
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
