package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// exitUnfinished is the exit status of a daemon that ended before all its work (calls,
// connections, transports) had ended, and of a measurement that the user ended.
const exitUnfinished = 3

// untilSignal returns a context that the first SIGTERM or SIGINT ends. A second signal then ends the
// process at once.
func untilSignal() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// handleSignals starts to handle the daemon's signals. The first SIGTERM or SIGINT ends the context,
// and the daemon then has the time that within returns to shut down. A second signal, or the end of
// that time, ends the process at once. SIGHUP never ends the process: it calls hangup on
// a goroutine of its own, because hangup may wait for the process that reads the log.
func handleSignals(within func() time.Duration, hangup func()) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		var most time.Duration
		var over <-chan time.Time
		for {
			select {
			case sig := <-c:
				switch {
				case sig == syscall.SIGHUP:
					go hangup()
				case over == nil:
					cancel()
					most = within()
					over = time.After(most)
				default:
					exitNow(fmt.Sprintf("a second signal (%v): ended at once", sig))
				}
			case <-over:
				exitNow(fmt.Sprintf("the end takes longer than %v: ended without it", most))
			}
		}
	}()
	return ctx
}

// exitNow exits at once. It waits at most 100 ms until its message is written, because the process
// that reads standard error may not read.
func exitNow(why string) {
	said := make(chan struct{})
	go func() {
		fmt.Fprintln(os.Stderr, "nfsrdmad:", why)
		close(said)
	}()
	select {
	case <-said:
	case <-time.After(100 * time.Millisecond):
	}
	os.Exit(exitUnfinished)
}
