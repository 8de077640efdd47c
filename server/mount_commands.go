package server

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// MountCommands are lines for people: the commands that mount the first export, for
// each address, with headings that a shell takes for comments.
func (s *Server) MountCommands() []string {
	only3 := !slices.ContainsFunc(nfsVersions[1:], s.cfg.serves)
	return mountCommands(s.offers.all()[0].Name, only3, s.RDMAAddrs(), s.TCPAddrs(), ownAddresses())
}

// mountCommands are, for each of the addresses that a client elsewhere could use,
// the commands that mount an export: by RDMA and by TCP. The client takes the highest
// version that is served. NFSv3 alone needs more to be said: MOUNT is asked by TCP
// whatever the transport.
func mountCommands(name string, only3 bool, rdmaAddrs, tcpAddrs []netip.AddrPort, own []netip.Addr) []string {
	if only3 && len(tcpAddrs) == 0 {
		return []string{"# Nothing can be mounted: for NFSv3, Linux asks for the export by TCP, and this server does not listen for TCP (--tcp)."}
	}
	var byRDMA, byTCP []string
	for _, p := range own {
		if p = p.Unmap(); p.IsLinkLocalUnicast() && p.Is6() {
			continue // needs the client's own interface name
		}
		rdmaPort, tcpPort := portFor(p, rdmaAddrs), portFor(p, tcpAddrs)
		host := p.String()
		if p.Is6() {
			host = "[" + host + "]"
		}
		command := func(transport string, port uint16) string {
			options := fmt.Sprintf("proto=%s,port=%d", family(transport, p), port)
			if only3 {
				options = fmt.Sprintf("vers=3,%s,nolock,mountport=%d,mountproto=%s", options, tcpPort, family("tcp", p))
			}
			return fmt.Sprintf("mount -t nfs -o %s %s /mnt", options, shellWord(host+":"+name))
		}
		// siw does not connect over loopback.
		if rdmaPort != 0 && !p.IsLoopback() && (tcpPort != 0 || !only3) {
			byRDMA = append(byRDMA, command("rdma", rdmaPort))
		}
		if tcpPort != 0 {
			byTCP = append(byTCP, command("tcp", tcpPort))
		}
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
