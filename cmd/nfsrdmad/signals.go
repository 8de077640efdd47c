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
// connections, transports) had ended.
const exitUnfinished = 3

// untilSignal returns a context that the first SIGTERM or SIGINT ends. A second signal then ends the
// process at once.
func untilSignal() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// signals handles the daemon's signals. The first SIGTERM or SIGINT ends the context, and the
// daemon then has some time to shut down. A second signal, or the end of that time, ends the
// process at once. SIGHUP never ends the process.
type signals struct {
	c      chan os.Signal
	hangup chan func()
}

// handleSignals starts to handle signals. The first SIGTERM or SIGINT cancels the context. The
// parameter within is how long the process may take to exit after that. If it takes longer,
// handleSignals makes it exit at once.
func handleSignals(within time.Duration) (context.Context, *signals) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &signals{c: make(chan os.Signal, 8), hangup: make(chan func(), 1)}
	signal.Notify(s.c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go s.handle(cancel, within)
	return ctx, s
}

// onHangup sets the function that SIGHUP calls from now on. Until then SIGHUP does nothing.
func (s *signals) onHangup(f func()) { s.hangup <- f }

func (s *signals) handle(end func(), within time.Duration) {
	hangup := func() {}
	var over <-chan time.Time
	for {
		select {
		case f := <-s.hangup:
			hangup = f
		case sig := <-s.c:
			switch {
			case sig == syscall.SIGHUP:
				go hangup() // hangup may wait for the process that reads the log
			case over == nil:
				end()
				over = time.After(within)
			default:
				exitNow(fmt.Sprintf("a second signal (%v): ended at once", sig))
			}
		case <-over:
			exitNow(fmt.Sprintf("the end takes longer than %v: ended without it", within))
		}
	}
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
