package server

import (
	"context"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// null makes a NULL call to a server, on a new connection: the shortest proof that the server
// answers. If it listens on every interface, null uses the loopback interface.
func null(ctx context.Context, t *transport, at netip.AddrPort, program, version uint32) error {
	switch at.Addr() {
	case netip.IPv4Unspecified():
		at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
	case netip.IPv6Unspecified():
		at = netip.AddrPortFrom(netip.IPv6Loopback(), at.Port())
	}
	k, err := t.dial(ctx, at)
	if err != nil {
		return err
	}
	defer k.Close()
	return rpc.Do(ctx, k, &rpc.Exchange{Program: program, Version: version}, nil)
}
