package iwarp

import (
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// A watch ends a connection whose peer leaves work undone. Its timer runs only
// while there is such work. All but timer is guarded by Conn.mu.
type watch struct {
	timer    *time.Timer
	armed    bool
	deadline time.Time // a bound on the whole connection, when set
	reason   error
	// progress as it was seen last, and since when it has been that way.
	seen  [watched]uint64
	since [watched]time.Time
}

// What is watched.
const (
	watchSend    = iota // the peer takes what is sent
	watchRead           // the peer answers RDMA Reads
	watchReceive        // the peer completes what it has begun to send
	watched
)

// ticks is how many times in a StallTimeout a watch looks.
const ticks = 4

func (w *watch) start(c *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.timer = time.AfterFunc(time.Hour, c.look)
	w.timer.Stop()
	if c.agreed.PeerToPeer && c.fenced {
		w.limit(time.Now().Add(c.p.cfg.SetupTimeout), fmt.Errorf("iwarp: no ready-to-receive message: %w", rdmacm.ErrTimeout))
	}
	c.watchLocked()
}

// limit bounds the connection's life. Conn.mu is held.
func (w *watch) limit(t time.Time, reason error) {
	if !w.deadline.IsZero() && !t.Before(w.deadline) {
		return
	}
	w.deadline, w.reason = t, reason
	if w.timer != nil {
		w.armed = true
		w.timer.Reset(time.Until(t))
	}
}

// unlimit takes the bound away again. Conn.mu is held.
func (w *watch) unlimit() { w.deadline, w.reason = time.Time{}, nil }

// watchLocked arms the watch. c.mu is held.
func (c *Conn) watchLocked() {
	w := &c.watch
	if w.armed || w.timer == nil || c.flushing {
		return
	}
	w.armed = true
	clear(w.since[:])
	w.timer.Reset(c.p.cfg.StallTimeout / ticks)
}

// look is the timer's function.
func (c *Conn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.watch
	if c.flushing {
		return
	}
	now := time.Now()
	if !w.deadline.IsZero() && !now.Before(w.deadline) {
		c.endLocked(w.reason, true)
		return
	}
	next := time.Duration(0)
	if !w.deadline.IsZero() {
		next = w.deadline.Sub(now)
	}
	pending := [watched]bool{
		watchSend:    c.owned || c.cursor != nil && c.fenced,
		watchRead:    c.reads.count > 0,
		watchReceive: c.rx.midway.Load(),
	}
	progress := [watched]uint64{
		watchSend:    c.tx.progress.Load(),
		watchRead:    c.rx.answered.Load(),
		watchReceive: c.rx.arrived.Load(),
	}
	for i := range pending {
		if !pending[i] {
			w.since[i] = time.Time{}
			continue
		}
		if w.since[i].IsZero() || progress[i] != w.seen[i] {
			w.seen[i], w.since[i] = progress[i], now
		} else if now.Sub(w.since[i]) >= c.p.cfg.StallTimeout {
			c.stalled(fmt.Errorf("iwarp: peer %s: %w", [...]string{
				watchSend: "takes nothing", watchRead: "does not answer an RDMA Read",
				watchReceive: "stopped within a message",
			}[i], rdmacm.ErrTimeout))
			return
		}
		if tick := c.p.cfg.StallTimeout / ticks; next == 0 || tick < next {
			next = tick
		}
	}
	if w.armed = next > 0; w.armed {
		w.timer.Reset(next)
	}
}

func (c *Conn) stalled(err error) {
	c.p.counters.stalled.Add(1)
	c.endLocked(err, true)
}
