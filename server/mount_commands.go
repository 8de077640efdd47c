package server

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// MountCommands are lines for people: the commands that mount the first export, for
// each address, with headings that a shell takes for comments.
func (s *Server) MountCommands() []string {
	return mountCommands(s.offers.all()[0].Name, s.RDMAAddrs(), s.TCPAddrs(), ownAddresses())
}

// mountCommands are, for each of the addresses that a client elsewhere could use,
// the commands that mount an export: by RDMA and by TCP. MOUNT is asked by TCP
// either way.
func mountCommands(name string, rdmaAddrs, tcpAddrs []netip.AddrPort, own []netip.Addr) []string {
	if len(tcpAddrs) == 0 {
		return []string{"# Nothing can be mounted: Linux asks for the export by TCP, and this server does not listen for TCP (--tcp)."}
	}
	var byRDMA, byTCP []string
	for _, p := range own {
		if p = p.Unmap(); p.IsLinkLocalUnicast() && p.Is6() {
			continue // needs the client's own interface name
		}
		tcpPort := portFor(p, tcpAddrs)
		if tcpPort == 0 {
			continue
		}
		host := p.String()
		if p.Is6() {
			host = "[" + host + "]"
		}
		mount := fmt.Sprintf("nolock,mountport=%d,mountproto=%s %s /mnt", tcpPort, family("tcp", p), shellWord(host+":"+name))
		// siw does not connect over loopback.
		if rdmaPort := portFor(p, rdmaAddrs); rdmaPort != 0 && !p.IsLoopback() {
			byRDMA = append(byRDMA, fmt.Sprintf("mount -t nfs -o vers=3,proto=%s,port=%d,%s", family("rdma", p), rdmaPort, mount))
		}
		byTCP = append(byTCP, fmt.Sprintf("mount -t nfs -o vers=3,proto=%s,port=%d,%s", family("tcp", p), tcpPort, mount))
	}
	var lines []string
	if len(byRDMA) > 0 {
		lines = append(append(lines, "# Over RDMA, from another machine (which needs the module siw: docs/mounting.md):"), byRDMA...)
	}
	if len(byTCP) > 0 {
		lines = append(append(lines, "# Over TCP:"), byTCP...)
	}
	return lines
}

// shellWord is s as a shell takes it for one word.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,", r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// portFor is where a client that calls an address finds one of the listeners, or
// 0.
func portFor(p netip.Addr, listeners []netip.AddrPort) uint16 {
	for _, l := range listeners {
		a := l.Addr().Unmap()
		if a == p || a == netip.IPv6Unspecified() || a == netip.IPv4Unspecified() && p.Is4() {
			return l.Port()
		}
	}
	return 0
}

// ownAddresses are those of this machine's interfaces.
func ownAddresses() []netip.Addr {
	var out []netip.Addr
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if p, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, p)
			}
		}
	}
	return out
}

func family(netid string, a netip.Addr) string {
	if a.Is6() {
		return netid + "6"
	}
	return netid
}
