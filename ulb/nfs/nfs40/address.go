package nfs40

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
)

// maxAddress is how long a netid and a universal address may be that are kept, in bytes:
// no address is longer.
const maxAddress = 120

// callbackAddress is where callbacks go to: the port that the client names, at the
// address that it calls from. It is the zero value if the client names another
// address, which might be that of any machine, or one that cannot be connected to.
func callbackAddress(netid, address string, caller netip.Addr) netip.AddrPort {
	if netid != rpcbind.TCP && netid != rpcbind.TCP6 {
		return netip.AddrPort{}
	}
	a, err := rpcbind.ParseUniversalAddress(address)
	if err != nil || a.Port() == 0 || a.Addr().Unmap() != caller.Unmap().WithZone("") {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(caller.Unmap(), a.Port())
}
