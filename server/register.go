package server

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

const (
	// registering bounds the conversation with rpcbind: it is on this machine.
	registering = 5 * time.Second
	// registerEvery is how often rpcbind is asked whether it still knows the services: it
	// forgets them when it restarts.
	registerEvery = time.Minute
	// answering bounds how long a server that is registered may take to answer.
	answering = time.Second
)

// A registration is what rpcbind is to say of this server.
type registration struct {
	s      *Server
	client rpcbind.Client
	// now asks for a comparison before its time.
	now chan struct{}

	mu    sync.Mutex
	last  string // what went wrong when it was last compared
	ended bool
}

func (s *Server) newRegistration() *registration {
	return &registration{s: s, now: make(chan struct{}, 1), client: rpcbind.Client{Dial: tcp.DialConfig{}.Dialer(), Owner: "nfsrdmad"}}
}

// wanted is what is to be registered; none where the configuration says so.
func (r *registration) wanted() []rpcbind.Mapping {
	if on := r.s.cfg.Rpcbind; on != nil && !*on {
		return nil
	}
	return mappings(r.s.cfg, r.s.addrs)
}

// keep compares what rpcbind says with what it is to say: once a minute, and when it is asked
// to, until ctx ends.
func (r *registration) keep(ctx context.Context) {
	tick := time.NewTicker(registerEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.now:
		}
		r.compare(ctx)
	}
}

// soon has the registration compared: rpcbind may have restarted.
func (r *registration) soon() {
	select {
	case r.now <- struct{}{}:
	default:
	}
}

// compare tells rpcbind where NFS and MOUNT are served, where it does not know it. A line says
// what went wrong, once. Without rpcbind clients name the ports themselves, so that is no
// failure.
func (r *registration) compare(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.wanted()
	if r.ended || len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, registering)
	defer cancel()
	said := ""
	err := r.client.Register(ctx, all, func(ctx context.Context, m rpcbind.Mapping) bool {
		return !r.s.listensOn(m.Address) && answers(ctx, m)
	})
	if err != nil {
		said = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	was := r.last
	if r.last = said; said == was {
		return
	}
	switch {
	case errors.Is(err, rpcbind.ErrElsewhere):
		r.s.log.Warn("rpcbind names another server to clients, which answers: stop that one, or set rpcbind = false here; clients of this one name port= and mountport= themselves", zap.String("error", said))
	case err != nil:
		r.s.log.Info("not registered with rpcbind: clients name port= and mountport= themselves", zap.String("error", said))
	default: // after a line that said otherwise
		r.s.log.Info("registered with rpcbind")
	}
}

// end takes the registration back, once nothing listens any more.
func (r *registration) end(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	all := r.wanted()
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, registering)
	defer cancel()
	if err := r.client.Unregister(ctx, all, answers); err != nil {
		r.s.log.Debug("not unregistered from rpcbind", zap.Error(err))
	}
}

// listensOn says that an address is one that this server listens on.
func (s *Server) listensOn(a netip.AddrPort) bool {
	for _, t := range s.transports {
		for _, l := range t.listeners {
			if l.addr.Port() == a.Port() && (l.addr.Addr() == a.Addr() || l.addr.Addr().IsUnspecified() || a.Addr().IsUnspecified()) {
				return true
			}
		}
	}
	return false
}

// answers says that a server answers where a service is registered.
func answers(ctx context.Context, m rpcbind.Mapping) bool {
	for i := range transports {
		if t := &transports[i]; rpcbind.Netid(t.netid, m.Address.Addr()) == m.Netid {
			ctx, cancel := context.WithTimeout(ctx, answering)
			defer cancel()
			return null(ctx, t, m.Address, m.Program, m.Version) == nil
		}
	}
	return false
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
