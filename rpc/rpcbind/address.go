package rpcbind

import (
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
	bad := func() (netip.AddrPort, error) {
		return netip.AddrPort{}, fmt.Errorf("rpcbind: %q is no universal address", s)
	}
	low := strings.LastIndexByte(s, '.')
	if low < 0 {
		return bad()
	}
	high := strings.LastIndexByte(s[:low], '.')
	if high < 0 {
		return bad()
	}
	ip, err := netip.ParseAddr(s[:high])
	if err != nil {
		return bad()
	}
	h, err := strconv.ParseUint(s[high+1:low], 10, 8)
	if err != nil {
		return bad()
	}
	l, err := strconv.ParseUint(s[low+1:], 10, 8)
	if err != nil {
		return bad()
	}
	return netip.AddrPortFrom(ip, uint16(h<<8|l)), nil
}

// Netid returns the netid of a transport ("tcp" or "rdma") for an address.
func Netid(transport string, a netip.Addr) string {
	if a.Unmap().Is4() {
		return transport
	}
	return transport + "6"
}
