package server

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// MountCommands returns the commands that mount the first export, for each address, with headings
// that are comments in a shell.
func (s *Server) MountCommands() []string {
	only3 := !slices.ContainsFunc(config.NFSVersions[1:], s.cfg.Serves)
	return mountCommands(s.exports.All()[0].Name, only3, s.RDMAAddrs(), s.TCPAddrs(), ownAddresses())
}

// mountCommands returns, for each address of this machine except link-local IPv6 addresses, the
// commands that mount an export over RDMA and over TCP. A client uses the highest version that is
// served. If only NFSv3 is served, the commands also name the port of the MOUNT program. Clients
// call MOUNT over TCP, even if they call NFS over RDMA.
func mountCommands(name string, only3 bool, rdmaAddrs, tcpAddrs []netip.AddrPort, own []netip.Addr) []string {
	if only3 && len(tcpAddrs) == 0 {
		return []string{"# Nothing can be mounted: for NFSv3, Linux asks for the export by TCP, and this server does not listen for TCP (--tcp)."}
	}
	var byRDMA, byTCP []string
	for _, p := range own {
		if p = p.Unmap(); p.IsLinkLocalUnicast() && p.Is6() {
			continue // the client would have to add the name of its interface
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

// shellWord quotes s for a shell if necessary.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,", r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// portFor returns the port of a listener that accepts connections to the address p, or 0.
func portFor(p netip.Addr, listeners []netip.AddrPort) uint16 {
	for _, l := range listeners {
		a := l.Addr().Unmap()
		if a == p || a == netip.IPv6Unspecified() || a == netip.IPv4Unspecified() && p.Is4() {
			return l.Port()
		}
	}
	return 0
}

// ownAddresses returns the addresses of this machine's interfaces.
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
