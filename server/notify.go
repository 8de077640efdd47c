package server

import "github.com/coreos/go-systemd/v22/daemon"

// Outside of systemd (no NOTIFY_SOCKET) these do nothing.

func notifyReady()    { _, _ = daemon.SdNotify(false, daemon.SdNotifyReady) }
func notifyStopping() { _, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) }
