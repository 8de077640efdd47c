package server

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
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
	all := mappings(s.cfg, s.addrs)
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

// mappings are what rpcbind is told: programs where they are listened on, by the netids
// of RFC 5665 §5.1 and RFC 8166 §9. rpcbind knows one address for a netid: the first
// counts.
func mappings(cfg *Config, addrs func(transport string) []netip.AddrPort) []rpcbind.Mapping {
	var all []rpcbind.Mapping
	for _, p := range programs {
		if !p.served(cfg) {
			continue
		}
		for _, name := range p.over {
			all = append(all, p.mappings(transportOf(name).netid, addrs(name))...)
		}
	}
	return all
}

func (p *program) mappings(netids string, addrs []netip.AddrPort) (all []rpcbind.Mapping) {
	seen := make(map[string]bool)
	for _, a := range addrs {
		for _, a := range bothFamilies(a) {
			netid := rpcbind.Netid(netids, a.Addr())
			if !seen[netid] {
				seen[netid] = true
				all = append(all, rpcbind.Mapping{Program: p.number, Version: p.version, Netid: netid, Address: a})
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
