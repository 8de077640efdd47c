package server

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// watch tells systemd's watchdog (WatchdogSec= of the unit) that the daemon works, as long as
// each listener answers a NULL call, until ctx ends. Without a watchdog it does nothing.
func (s *Server) watch(ctx context.Context) {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil || within == 0 || !s.daemon {
		return
	}
	// The daemon checks four times in the time after which systemd's watchdog ends the process.
	// So the process ends only if three checks in a row fail.
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
// an answer, so that a flood of clients never ends the process: only a call without an answer
// shows that the daemon hangs. An RDMA device that cannot connect this machine to itself gives no
// answer either. So over a device a missing answer counts only if an earlier call there was
// answered, and the device's port still carries traffic after the check.
func (s *Server) answers(ctx context.Context) bool {
	p := s.anyProgram()
	var silent atomic.Bool
	var asking sync.WaitGroup
	for _, t := range s.transports {
		for _, l := range t.listeners {
			for _, w := range t.ways(l.addr) {
				asking.Go(func() {
					if !s.silent(ctx, t, l, &w, w.null(ctx, p.number, p.version)) {
						return
					}
					silent.Store(true)
					s.log.Error("a call that the daemon made to itself was not answered: systemd restarts it if that goes on",
						zap.String("transport", t.name), zap.String("by", w.by), zap.Stringer("address", w.at))
				})
			}
		}
	}
	asking.Wait()
	return !silent.Load()
}

// silent reports whether a call over w that ended with err shows that the daemon hangs (see
// answers). If a call over a device was answered, silent records this in s.answered.
func (s *Server) silent(ctx context.Context, t *running, l *listener, w *way, err error) bool {
	switch {
	case err == nil:
		if w.device {
			s.answered.Store(w.at, true)
		}
		return false
	case context.Cause(ctx) != context.DeadlineExceeded:
		return false
	case !w.device:
		return true
	}
	_, before := s.answered.Load(w.at)
	return before && slices.ContainsFunc(t.ways(l.addr), func(now way) bool { return now.device && now.at == w.at })
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

// A way is one method by which this process can connect to a listener of its own machine.
type way struct {
	by   string // RDMA provider, or "tcp"
	at   netip.AddrPort
	dial func(context.Context) (rpc.Client, error)
	// device is true if an RDMA device carries the connection. Not every device can connect a
	// machine to itself.
	device bool
}

// null makes a NULL call on a new connection. This is the shortest proof that a server answers.
func (w *way) null(ctx context.Context, program, version uint32) error {
	k, err := w.dial(ctx)
	if err != nil {
		return err
	}
	defer k.Close()
	return rpc.Do(ctx, k, &rpc.Exchange{Program: program, Version: version}, nil)
}
