package server

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// watch feeds systemd's watchdog (WatchdogSec= of the unit) as long as each listener answers a
// NULL call, until ctx ends. Without a watchdog it does nothing.
func (s *Server) watch(ctx context.Context) {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil || within == 0 || !s.daemon {
		return
	}
	// Systemd ends the process after three failed checks.
	tick := time.NewTicker(within / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		check, end := context.WithTimeout(ctx, within/4)
		if s.answers(check) {
			s.tellSystemd(daemon.SdNotifyWatchdog)
		}
		end()
	}
}

// answers reports whether each listener answers before ctx ends. A refused connection counts as
// an answer, so that a flood of clients never ends the process: only silence shows that the
// daemon hangs.
func (s *Server) answers(ctx context.Context) bool {
	p := s.anyProgram()
	var silent atomic.Bool
	var asking sync.WaitGroup
	for _, t := range s.transports {
		for _, l := range t.listeners {
			if !isHere(l.addr.Addr()) {
				continue // another machine may have it now
			}
			asking.Go(func() {
				if null(ctx, t.transport, l.addr, p.number, p.version) != nil && context.Cause(ctx) == context.DeadlineExceeded {
					silent.Store(true)
					s.log.Error("a call that the daemon made to itself was not answered: systemd restarts it if that goes on",
						zap.String("transport", t.name), zap.Stringer("address", l.addr))
				}
			})
		}
	}
	asking.Wait()
	return !silent.Load()
}

// isHere reports whether this machine has the address now. The administrator may have removed
// an address on which a listener still listens.
func isHere(a netip.Addr) bool {
	if a.IsUnspecified() || a.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(n net.Addr) bool {
		p, err := netip.ParsePrefix(n.String())
		return err == nil && p.Addr() == a.Unmap().WithZone("")
	})
}

// anyProgram returns a program that is served.
func (s *Server) anyProgram() *program {
	for i := range programs {
		if programs[i].served(s.cfg) {
			return &programs[i]
		}
	}
	panic("no program is served") // the check of the configuration prevents this
}
