package server

import (
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Outside of systemd (no NOTIFY_SOCKET) these do nothing.

func notifyReady() { _, _ = daemon.SdNotify(false, daemon.SdNotifyReady) }

// notifyStopping says that the daemon ends within a time. TimeoutStopSec= of the
// unit may be shorter: it is extended, and a second is for the process to go.
func notifyStopping(within time.Duration) {
	_, _ = daemon.SdNotify(false, fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", daemon.SdNotifyStopping, (within+time.Second).Microseconds()))
}
