package udp

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// oobSize is room for the control message with an address, in bytes.
const oobSize = 128

// tellsDestination makes the kernel say with each datagram to which address of this machine it came. A reply from another
// address would not be taken.
func tellsDestination(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var six, four error
	err = raw.Control(func(fd uintptr) {
		six = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		four = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	})
	if err == nil && six != nil && four != nil {
		err = errors.Join(six, four)
	}
	return err
}

// destination returns the address in the control messages of a datagram.
func destination(oob []byte) (netip.Addr, bool) {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, m := range all {
		switch {
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			a := netip.AddrFrom16([16]byte(m.Data)).Unmap()
			if a.IsLinkLocalUnicast() {
				// Two links may have the same address. The number of the interface tells them apart.
				if i, err := net.InterfaceByIndex(int(binary.NativeEndian.Uint32(m.Data[16:]))); err == nil {
					a = a.WithZone(i.Name)
				}
			}
			return a, true
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			return netip.AddrFrom4([4]byte(m.Data[4:])), true
		}
	}
	return netip.Addr{}, false
}

// source returns the control message that makes the kernel send from an address. six says whether the socket is one of
// IPv6, which may send to IPv4 addresses as well.
func source(from netip.Addr, six bool) []byte {
	if six {
		return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: from.WithZone("").As16()})
	}
	return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: from.As4()})
}
