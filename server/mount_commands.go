package server

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// MountCommands returns the commands that mount the first export by the highest version that is served, for each address, with headings
// that are comments in a shell.
func (s *Server) MountCommands() []string {
	only3 := !slices.ContainsFunc(config.NFSVersions[1:], s.cfg.Serves)
	name := s.exports.All()[0].Name
	if !only3 {
		name = s.exports.Table.Tree().PathOf(name)
	}
	return mountCommands(name, only3, s.RDMAAddrs(), s.TCPAddrs(), ownAddresses())
}

// mountCommands returns, for each address of this machine except link-local IPv6 addresses, the
// commands that mount an export over RDMA and over TCP. A client uses the highest version that is
// served. If only NFSv3 is served, the commands also name the port of the MOUNT program. Clients
// call MOUNT over TCP, even if they call NFS over RDMA.
func mountCommands(name string, only3 bool, rdmaAddrs, tcpAddrs []netip.AddrPort, own []netip.Addr) (lines []string) {
	if only3 && len(tcpAddrs) == 0 {
		return []string{"# Nothing can be mounted: for NFSv3, Linux asks for the export by TCP, and this server does not listen for TCP (--tcp)."}
	}
	for _, over := range []struct {
		transport, heading string
		listeners          []netip.AddrPort
	}{
		{rpcbind.RDMA, "# Over RDMA, from another machine (which needs the module siw: docs/mounting.md):", rdmaAddrs},
		{rpcbind.TCP, "# Over TCP:", tcpAddrs},
	} {
		var commands []string
		for _, p := range own {
			p = p.Unmap()
			port, mountPort := portFor(p, over.listeners), portFor(p, tcpAddrs)
			switch {
			case p.IsLinkLocalUnicast() && p.Is6(): // the client would have to add the name of its interface
				continue
			case over.transport == rpcbind.RDMA && p.IsLoopback(): // siw does not connect over loopback
				continue
			case port == 0 || only3 && mountPort == 0:
				continue
			}
			options := fmt.Sprintf("proto=%s,port=%d", rpcbind.Netid(over.transport, p), port)
			if only3 {
				options = fmt.Sprintf("vers=3,%s,nolock,mountport=%d,mountproto=%s", options, mountPort, rpcbind.Netid(rpcbind.TCP, p))
			}
			host := p.String()
			if p.Is6() {
				host = "[" + host + "]"
			}
			commands = append(commands, fmt.Sprintf("mount -t nfs -o %s %s /mnt", options, shellWord(host+":"+name)))
		}
		if len(commands) > 0 {
			lines = append(append(lines, over.heading), commands...)
		}
	}
	return lines
}

// shellWord quotes s for a shell if necessary.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+,"
	if strings.Trim(s, plain) == "" {
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
func ownAddresses() (own []netip.Addr) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr())
		}
	}
	return own
}
