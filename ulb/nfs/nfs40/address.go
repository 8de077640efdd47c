package nfs40

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
)

// maxAddress is the maximum length of a netid and of a universal address that the server
// keeps, in bytes. Every valid one is shorter.
const maxAddress = 120

// callbackAddress returns the address for callbacks: the caller's own address with the port
// that the client names. It returns the zero value if the client names another address, which
// could be any machine's, or an address that cannot be connected to.
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
