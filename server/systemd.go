package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/config"
	"github.com/nfsrdmad/nfsrdmad/server/logline"
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
	every(ctx, within/4, func() {
		check, end := context.WithTimeout(ctx, within/4)
		defer end()
		if s.answers(check) {
			s.tellSystemd(daemon.SdNotifyWatchdog)
		}
	})
}

// answers reports whether each listener answers before ctx ends. A refused connection counts as
// an answer, so that a flood of clients never ends the process: only a call without an answer
// shows that the daemon hangs. An RDMA device that cannot connect this machine to itself gives no
// answer either. So over a device a missing answer counts only if an earlier call there was
// answered, and the device's port still carries traffic after the check.
func (s *Server) answers(ctx context.Context) bool {
	// The check of the configuration makes sure that there is a program.
	p := &programs[slices.IndexFunc(programs, func(p program) bool { return p.served(s.cfg) })]
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
					s.log.Error(logline.OwnCallUnanswered,
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

// tellSystemd reports the daemon's state. It does nothing outside of systemd (no NOTIFY_SOCKET),
// or if a program embeds the server.
func (s *Server) tellSystemd(state string) {
	if s.daemon {
		_, _ = daemon.SdNotify(false, state)
	}
}

// notifyReady tells systemd that the daemon serves, and passes a status text.
func (s *Server) notifyReady(status string) {
	s.tellSystemd(fmt.Sprintf("%s\nSTATUS=%s", daemon.SdNotifyReady, strings.ReplaceAll(status, "\n", "; ")))
}

// notifyReloading tells systemd that the daemon reads the configuration again; notifyReady follows.
// The message contains the present time, by which systemd (Type=notify-reload) knows which of its
// reload requests the message answers.
func (s *Server) notifyReloading() {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
		s.tellSystemd(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, now.Nano()/1000))
	}
}

// notifyStopping tells systemd that the daemon ends within the given time. Because TimeoutStopSec=
// of the unit may be shorter, it asks systemd to wait for that time, and one second longer for the
// exit of the process.
func (s *Server) notifyStopping(within time.Duration) {
	s.tellSystemd(fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", daemon.SdNotifyStopping, (within + time.Second).Microseconds()))
}

// sockets are the TCP listeners that systemd opened for the daemon (socket activation), by their
// addresses. They keep listening when the daemon ends: clients wait in their queue until the
// next process answers.
type sockets map[netip.AddrPort]net.Listener

// takeSockets takes over the sockets that systemd passed; only the first call in a process finds
// any. Each socket must have the name tcp and one of the configured addresses, because the server
// listens on no others.
func takeSockets(c *config.Config) (sockets, error) {
	all := make(sockets)
	want := addresses(c.TCP)
	for _, f := range activation.Files(true) {
		l, err := takeSocket(f)
		f.Close() // l has a descriptor of its own
		if err == nil {
			at := l.Addr().(*net.TCPAddr).AddrPort()
			all[at] = l
			if !slices.Contains(want, at) {
				err = fmt.Errorf("the socket listens on %s, and the daemon is to serve TCP on %s: write the same address in ListenStream= and tcp", at, cmp.Or(join(want), "no address"))
			}
		}
		if err != nil {
			all.close()
			return nil, &config.Error{File: "systemd's socket " + f.Name(), Err: err}
		}
	}
	return all, nil
}

// takeSocket returns the listener of a socket that systemd passed. It rejects a socket that does
// not listen for TCP or has another name than tcp.
func takeSocket(f *os.File) (net.Listener, error) {
	if f.Name() != "tcp" {
		return nil, errors.New("this inherited socket has no name: write FileDescriptorName=tcp in the socket unit, which only TCP can have")
	}
	listens, err := unix.GetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil || listens == 0 {
		return nil, errors.New("it does not listen: write ListenStream= and Accept=no in the socket unit")
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	if _, tcp := l.Addr().(*net.TCPAddr); !tcp {
		l.Close()
		return nil, fmt.Errorf("it is no TCP socket, but listens on %s %s: write ListenStream= with a port in the socket unit", l.Addr().Network(), l.Addr())
	}
	return l, nil
}

func (s sockets) close() {
	for _, l := range s {
		l.Close()
	}
}
