package server

import (
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

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
