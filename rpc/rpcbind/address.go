package rpcbind

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Netids of the transports (RFC 5665 §5.1, RFC 8166 §9).
const (
	TCP   = "tcp"
	TCP6  = "tcp6"
	RDMA  = "rdma"
	RDMA6 = "rdma6"
)

// UniversalAddress returns an address in rpcbind's text form (RFC 5665 §5.2.3.3, §5.2.3.4): the
// host, then the port's two bytes in decimal, separated by dots.
func UniversalAddress(a netip.AddrPort) string {
	ip := a.Addr().Unmap().WithZone("")
	return fmt.Sprintf("%s.%d.%d", ip, a.Port()>>8, a.Port()&0xff)
}

// ParseUniversalAddress is the inverse of UniversalAddress.
func ParseUniversalAddress(s string) (netip.AddrPort, error) {
	parts := strings.Split(s, ".")
	host := max(len(parts)-2, 0)
	ip, err := netip.ParseAddr(strings.Join(parts[:host], "."))
	port := uint64(0)
	for _, part := range parts[host:] {
		n, bad := strconv.ParseUint(part, 10, 8)
		err = cmp.Or(err, bad)
		port = port<<8 | n
	}
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("rpcbind: %q is no universal address", s)
	}
	return netip.AddrPortFrom(ip, uint16(port)), nil
}

// Netid returns the netid of a transport ("tcp", "rdma" or "udp") for an address.
func Netid(transport string, a netip.Addr) string {
	if a.Unmap().Is4() {
		return transport
	}
	return transport + "6"
}
