package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// exitUnfinished is the exit status of a daemon that was told to end and left
// something behind.
const exitUnfinished = 3

// signals is what the daemon makes of signals. The first SIGTERM or SIGINT ends
// the context; then the daemon has a time to end in order. A second one, or the
// end of that time, ends the process at once. SIGHUP never ends anything.
type signals struct {
	c      chan os.Signal
	hangup chan func()
}

// handleSignals begins. The context ends with the first signal to end; after that
// the process has within to go.
func handleSignals(within time.Duration) (context.Context, *signals) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &signals{c: make(chan os.Signal, 8), hangup: make(chan func(), 1)}
	signal.Notify(s.c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go s.handle(cancel, within)
	return ctx, s
}

// onHangup says what SIGHUP does from now on; until then, nothing.
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
				go hangup() // it may wait for the reader of the log
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

// exitNow exits without waiting for anything, the reader of standard error
// included.
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
