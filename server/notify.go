package server

import (
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// tellSystemd says how the daemon is. Outside of systemd (no NOTIFY_SOCKET), and in a program
// that only has a server in it, it does nothing.
func (s *Server) tellSystemd(state string) {
	if s.daemon {
		_, _ = daemon.SdNotify(false, state)
	}
}

// notifyReady says that the daemon serves, and with what.
func (s *Server) notifyReady(status string) {
	s.tellSystemd(fmt.Sprintf("%s\nSTATUS=%s", daemon.SdNotifyReady, strings.ReplaceAll(status, "\n", "; ")))
}

// notifyReloading says that the configuration is read again; notifyReady follows. The time
// tells which of several requests to reload this is the answer to (Type=notify-reload).
func (s *Server) notifyReloading() {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
		s.tellSystemd(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, now.Nano()/1000))
	}
}

// notifyStopping says that the daemon ends within a time. TimeoutStopSec= of the
// unit may be shorter: it is extended, and a second is for the process to go.
func (s *Server) notifyStopping(within time.Duration) {
	s.tellSystemd(fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", daemon.SdNotifyStopping, (within + time.Second).Microseconds()))
}
