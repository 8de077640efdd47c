package nfs40

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
)

// maxAddress is the maximum length of a netid and of a universal address that the server
// keeps, in bytes. Every valid one is shorter.
const maxAddress = 120

// callbackAddress returns the address for callbacks to the client that named this netid and this
// universal address: the IP address from which the client calls (caller), with the port that it
// named. It returns the zero value if the client named another IP address, which may be another
// machine's, or no valid TCP address.
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
