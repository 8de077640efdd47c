package iwarp

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// A watch ends a connection whose peer leaves work undone. Its timer runs only while there is
// such work or a limit. lifecycle.mu guards all fields except armed.
type watch struct {
	armed  atomic.Bool // the timer runs
	timer  *time.Timer
	at     time.Time // when it fires
	limits [limits]limit
	over   bool // the watch has ended the connection, or the connection has ended
	// For each duty of the peer, seen holds the last progress value, and the field since holds the
	// time of that value's last change.
	seen  [watched]uint64
	since [watched]time.Time
}

// A limit is a time at which the connection ends, and the reason for that. If the field at is
// zero, there is no limit.
type limit struct {
	at     time.Time
	reason error
}

// Kinds of limits.
const (
	limitSetup = iota // until the first FPDU arrived
	limitEnd          // once the connection began to end
	limits
)

// Duties of the peer that the watch checks.
const (
	watchSend    = iota // the peer takes what is sent
	watchRead           // the peer answers RDMA Reads
	watchReceive        // the peer completes what it has begun to send
	watched
)

// ticks is the number of checks in one StallTimeout.
const ticks = 4

func (l *lifecycle) startWatch() {
	l.mu.Lock()
	l.watch.timer = time.AfterFunc(time.Hour, l.look)
	l.watch.timer.Stop()
	l.mu.Unlock()
	if l.agreed.PeerToPeer && l.responder {
		l.limit(limitSetup, l.p.cfg.SetupTimeout, fmt.Errorf("iwarp: no ready-to-receive message: %w", rdmacm.ErrTimeout))
	}
	l.watchOn()
}

// limit makes the watch end the connection after a duration, the argument in, unless unlimit is
// called before. The argument reason is the error of the connection in this case. Of several
// limits of one kind the earliest counts.
func (l *lifecycle) limit(kind int, in time.Duration, reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &l.watch
	at := time.Now().Add(in)
	if b := &w.limits[kind]; b.at.IsZero() || at.Before(b.at) {
		*b = limit{at, reason}
		w.lookIn(in)
	}
}

// unlimit removes the limit of a kind (limitSetup or limitEnd).
func (l *lifecycle) unlimit(kind int) {
	l.mu.Lock()
	l.watch.limits[kind] = limit{}
	l.mu.Unlock()
}

// lookIn makes the timer fire after d, unless it is set to fire earlier. lifecycle.mu is held.
func (w *watch) lookIn(d time.Duration) {
	at := time.Now().Add(d)
	if w.timer == nil || w.over || w.armed.Load() && !at.Before(w.at) {
		return
	}
	w.at = at
	w.armed.Store(true)
	w.timer.Reset(d)
}

// look is called by the timer. It ends the connection if a limit has passed or the peer has stalled.
func (l *lifecycle) look() {
	// This check may miss work that begins from here on. That work sets the timer itself.
	l.watch.armed.Store(false)
	pending := [watched]bool{
		watchSend:    l.tx.sending(),
		watchRead:    l.tx.reading(),
		watchReceive: l.rx.midway.Load(),
	}
	progress := [watched]uint64{
		watchSend:    l.tx.progress.Load(),
		watchRead:    l.rx.answered.Load(),
		watchReceive: l.rx.arrived.Load(),
	}
	l.mu.Lock()
	err := l.watch.judge(&pending, &progress, l.p.cfg.StallTimeout)
	l.mu.Unlock()
	if err != nil {
		l.end(err, true)
	}
}

// judge returns the reason to end the connection. If there is none, it returns nil and sets the
// timer for the next check. lifecycle.mu is held.
func (w *watch) judge(pending *[watched]bool, progress *[watched]uint64, stall time.Duration) error {
	if w.over {
		return nil
	}
	now := time.Now()
	next := time.Duration(0)
	for _, b := range w.limits {
		if b.at.IsZero() {
			continue
		}
		left := b.at.Sub(now)
		if left <= 0 {
			w.over = true
			return b.reason
		}
		if next == 0 || left < next {
			next = left
		}
	}
	tick := stall / ticks
	for i := range pending {
		if !pending[i] {
			w.since[i] = time.Time{}
			continue
		}
		if w.since[i].IsZero() || progress[i] != w.seen[i] {
			w.seen[i], w.since[i] = progress[i], now
		} else if now.Sub(w.since[i]) >= stall {
			w.over = true
			return fmt.Errorf("iwarp: peer %s: %w", undone[i], rdmacm.ErrStalled)
		}
		if next == 0 || tick < next {
			next = tick
		}
	}
	if next > 0 {
		w.lookIn(next)
	}
	return nil
}

// undone describes what a stalled peer does not do.
var undone = [watched]string{
	watchSend: "takes nothing", watchRead: "does not answer an RDMA Read",
	watchReceive: "stopped within a message",
}
