package server

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

const (
	// registering is the longest time for an exchange with rpcbind, which runs on this machine.
	registering = 5 * time.Second
	// registerEvery is how often the registration is checked, because rpcbind forgets it when it
	// restarts.
	registerEvery = time.Minute
	// answering is how long a server that rpcbind names may take to answer a NULL call.
	answering = time.Second
)

// A registration keeps this server registered with rpcbind.
type registration struct {
	s      *Server
	client rpcbind.Client
	// A value in this channel makes keep check the registration at once.
	now chan struct{}

	mu    sync.Mutex
	last  registered
	ended bool
}

// registered holds the errors of the last check: of NFS and MOUNT, and of the locks of NFSv3.
type registered struct{ files, locks string }

func (s *Server) newRegistration() *registration {
	return &registration{s: s, now: make(chan struct{}, 1), client: rpcbind.Client{Dial: tcp.DialConfig{}.Dialer(), Owner: "nfsrdmad"}}
}

// keep checks the registration every registerEvery, and whenever the method soon requests a
// check, until ctx ends.
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

// soon makes keep check the registration at once.
func (r *registration) soon() {
	select {
	case r.now <- struct{}{}:
	default:
	}
}

// compare registers NFS, MOUNT and the locks of NFSv3 with rpcbind, unless rpcbind has them already. It does not
// replace the registration of another server that answers. It writes a log line if the result differs from the last
// one. A failure is not serious: without rpcbind, the user of a client names the ports in the mount options. Only for
// locks there is no such option.
func (r *registration) compare(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, registering)
	defer cancel()
	said := registered{locks: r.last.locks}
	var err, locks error
	said.files, err = r.register(ctx, r.s.mappings(func(p *program) bool { return !p.locks() }))
	if err == nil || errors.Is(err, rpcbind.ErrElsewhere) {
		said.locks, locks = r.register(ctx, r.s.mappings((*program).locks))
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return // the server ends, and so do the questions to rpcbind
	}
	was := r.last
	r.last = said
	switch {
	case said.files == was.files:
	case errors.Is(err, rpcbind.ErrElsewhere):
		r.s.log.Warn(logline.OtherServerRegistered, zap.String("error", said.files))
	case err != nil:
		r.s.log.Info(logline.Unregistered, zap.String("error", said.files))
	default: // an earlier check failed, and its line is in the log
		r.s.log.Info(logline.Registered)
	}
	switch {
	case said.locks == was.locks:
	case errors.Is(locks, rpcbind.ErrElsewhere), errors.Is(locks, rpcbind.ErrTaken):
		r.s.log.Warn(logline.OtherLocksRegistered, zap.String("error", said.locks))
	case locks != nil:
		r.s.log.Info(logline.LocksUnregistered, zap.String("error", said.locks))
	default:
		r.s.log.Info(logline.LocksRegistered)
	}
}

// register registers all, and returns the error with its text in one line.
func (r *registration) register(ctx context.Context, all []rpcbind.Mapping) (string, error) {
	if len(all) == 0 {
		return "", nil
	}
	err := r.client.Register(ctx, all, func(ctx context.Context, m rpcbind.Mapping) bool {
		return !r.s.listensOn(m.Address) && r.s.served(ctx, m)
	})
	if err == nil {
		return "", nil
	}
	return strings.ReplaceAll(err.Error(), "\n", "; "), err
}

// remove removes the registration, but not one at whose address another server answers. When
// remove is called, this server has stopped listening.
func (r *registration) remove(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	all := r.s.mappings(func(*program) bool { return true })
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, registering)
	defer cancel()
	if err := r.client.Unregister(ctx, all, r.s.served); err != nil {
		r.s.log.Debug("not unregistered from rpcbind", zap.Error(err))
	}
}

// listensOn reports whether this server listens on an address.
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

// served reports whether a server answers at the address of a mapping, over TCP or any RDMA provider
// of this server, or over UDP.
func (s *Server) served(ctx context.Context, m rpcbind.Mapping) bool {
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	if m.Netid == rpcbind.Netid("udp", m.Address.Addr()) {
		return datagramAnswers(ctx, m)
	}
	var answered atomic.Bool
	var asking sync.WaitGroup
	for _, t := range s.transports {
		if rpcbind.Netid(t.name, m.Address.Addr()) != m.Netid {
			continue
		}
		for _, w := range t.ways(m.Address) {
			asking.Go(func() {
				if w.null(ctx, m.Program, m.Version) == nil {
					answered.Store(true)
				}
			})
		}
	}
	asking.Wait()
	return answered.Load()
}

// mappings returns the registrations of some programs for rpcbind: each at the addresses of its transports,
// with the netids of RFC 5665 §5.1 and RFC 8166 §9. rpcbind stores one address for each netid, so
// only the first address of a netid is registered. There are no registrations if the configuration
// disables rpcbind.
func (s *Server) mappings(which func(*program) bool) (all []rpcbind.Mapping) {
	if on := s.cfg.Rpcbind; on != nil && !*on {
		return nil
	}
	for _, p := range programs {
		if !which(&p) || !p.served(s.cfg) {
			continue
		}
		for _, t := range s.transports {
			if slices.Contains(p.over, t.name) {
				all = append(all, p.at(t.name, s.addrs(t.name))...)
			}
		}
		if slices.Contains(p.over, "udp") {
			all = append(all, p.at("udp", s.datagrams.addrs())...)
		}
	}
	return all
}

// at returns the registrations of a program that is served over a transport at these addresses.
func (p *program) at(transport string, addrs []netip.AddrPort) (all []rpcbind.Mapping) {
	netids := make(map[string]bool)
	for _, l := range addrs {
		for _, a := range bothFamilies(l) {
			if netid := rpcbind.Netid(transport, a.Addr()); !netids[netid] {
				netids[netid] = true
				all = append(all, rpcbind.Mapping{Program: p.number, Version: p.version, Netid: netid, Address: a})
			}
		}
	}
	return all
}

// bothFamilies returns the addresses that a listener serves: a socket for every IPv6 address also
// accepts IPv4 connections.
func bothFamilies(a netip.AddrPort) []netip.AddrPort {
	if a.Addr() != netip.IPv6Unspecified() {
		return []netip.AddrPort{a}
	}
	return []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port()), a}
}
