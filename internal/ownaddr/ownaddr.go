// Package ownaddr says at which address a machine reaches its own TCP listeners.
package ownaddr

import (
	"net"
	"net/netip"
	"slices"
)

// Of returns the address at which this machine reaches its own listener. The parameter at is the
// listener's address. If the listener is on every interface, Of returns the address of the loopback
// interface. If this machine does not have the address any more, Of returns no address, because
// another machine may have it now.
func Of(at netip.AddrPort) []netip.AddrPort {
	switch a := at.Addr(); {
	case a == netip.IPv4Unspecified():
		return []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())}
	case a == netip.IPv6Unspecified():
		return []netip.AddrPort{netip.AddrPortFrom(netip.IPv6Loopback(), at.Port())}
	case !a.IsLoopback() && !isHere(a):
		return nil
	}
	return []netip.AddrPort{at}
}

func isHere(a netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(n net.Addr) bool {
		p, err := netip.ParsePrefix(n.String())
		return err == nil && p.Addr() == a.Unmap().WithZone("")
	})
}
