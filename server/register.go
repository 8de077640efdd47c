package server

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/mount3wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// registering bounds the conversation with rpcbind: it is on this machine.
const registering = 5 * time.Second

// register tells rpcbind where NFS and MOUNT are served, and returns what takes
// that back. Without rpcbind clients name the ports themselves, so that is no
// failure.
func (s *Server) register(ctx context.Context) (unregister func(context.Context)) {
	nothing := func(context.Context) {}
	if s.cfg.Rpcbind != nil && !*s.cfg.Rpcbind {
		return nothing
	}
	all := mappings(s.TCPAddrs(), s.RDMAAddrs())
	if len(all) == 0 {
		return nothing
	}
	client := &rpcbind.Client{Dial: tcp.DialConfig{}.Dialer(), Owner: "nfsrdmad"}
	limit, cancel := context.WithTimeout(ctx, registering)
	defer cancel()
	if err := client.Register(limit, all); err != nil {
		s.log.Info("not registered with rpcbind: clients name port= and mountport= themselves", zap.String("error", strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return func(ctx context.Context) {
		limit, cancel := context.WithTimeout(ctx, registering)
		defer cancel()
		if err := client.Unregister(limit, all); err != nil {
			s.log.Debug("not unregistered from rpcbind", zap.Error(err))
		}
	}
}

// mappings are what rpcbind is told: NFS where it is listened on, by the netids
// of RFC 5665 §5.1 and RFC 8166 §9, and MOUNT by TCP alone (RFC 8267 §5.1).
// rpcbind knows one address for a netid: the first counts.
func mappings(tcpAddrs, rdmaAddrs []netip.AddrPort) []rpcbind.Mapping {
	var all []rpcbind.Mapping
	for _, p := range []struct {
		program, version uint32
		transport        string
		addrs            []netip.AddrPort
	}{
		{nfs3wire.Program, nfs3wire.Version, rpcbind.TCP, tcpAddrs},
		{nfs3wire.Program, nfs3wire.Version, rpcbind.RDMA, rdmaAddrs},
		{mount3wire.Program, mount3wire.Version, rpcbind.TCP, tcpAddrs},
	} {
		seen := make(map[string]bool)
		for _, a := range p.addrs {
			for _, a := range bothFamilies(a) {
				netid := rpcbind.Netid(p.transport, a.Addr())
				if !seen[netid] {
					seen[netid] = true
					all = append(all, rpcbind.Mapping{Program: p.program, Version: p.version, Netid: netid, Address: a})
				}
			}
		}
	}
	return all
}

// bothFamilies is what an address stands for: a socket of every IPv6 address
// takes connections by IPv4, too.
func bothFamilies(a netip.AddrPort) []netip.AddrPort {
	if a.Addr() != netip.IPv6Unspecified() {
		return []netip.AddrPort{a}
	}
	return []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port()), a}
}
