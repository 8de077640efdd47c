package iwarp

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// A lifecycle is the part of a connection that begins and ends it: it knows why
// the connection ends, watches over a peer that does nothing, and closes the
// socket.
type lifecycle struct {
	*endpoint
	tx      *transmitter
	rx      *receiver
	regions *regions
	handler rdmacm.Handler
	seat    *census.Seat  // nil: this side dialed
	done    chan struct{} // see rdmacm.Conn.Done

	stopping atomic.Bool // the connection ends: receive no more
	faulty   atomic.Bool // this side found a fault: what follows is not looked at

	// mu guards what follows.
	mu       sync.Mutex
	err      error // why the connection ends; the first reason counts
	abortive bool
	watch    watch
	nudge    *time.Timer // of an initiator
}

// start puts the connection into full operation.
func (l *lifecycle) start() {
	l.p.counters.connections.Add(1)
	l.p.event(Event{Kind: EventConnected, Peer: l.peer, Local: l.local, Setup: l.agreed})
	l.startWatch()
	if !l.responder && !l.p.cfg.ClientServer {
		l.nudgeLater()
	}
	go l.rx.run()
	l.tx.flush() // the ready-to-receive message
}

// heard follows the first FPDU that was received and validated: it lifts the ban
// on sending (RFC 5044 §7.1.2).
func (l *lifecycle) heard() {
	l.seat.Heard()
	l.tx.lift()
	l.unlimit(limitSetup)
}

// end makes the receiving goroutine end the connection.
func (l *lifecycle) end(err error, abortive bool) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	l.abortive = l.abortive || abortive
	l.mu.Unlock()
	l.stopping.Store(true)
	l.p.rings.stopWaiting(l.rx)
	l.tx.refuse()
	// The socket may not be closed from within its own callbacks: a deadline
	// in the past wakes what waits for it.
	l.sock.SetDeadline(longAgo)
}

var longAgo = time.Unix(1, 0)

// conclude ends the connection: work comes back, memory is revoked, the socket
// is closed and the Handler told. The receiving goroutine ends with it.
func (l *lifecycle) conclude() {
	if l.rx.eof {
		l.peerClosed()
	} else if errno := l.rx.errno; errno != 0 && !l.tx.ended() {
		l.end(&BrokenError{errno}, true)
	}
	l.tx.stop()

	l.mu.Lock()
	err, abortive := l.err, l.abortive
	l.watch.over = true
	for _, t := range []*time.Timer{l.watch.timer, l.nudge} {
		if t != nil {
			t.Stop()
		}
	}
	l.mu.Unlock()
	flushErr := rdmacm.ErrFlushed
	if err != nil {
		flushErr = &flushedError{err}
	}
	l.tx.flushAll(flushErr)

	l.rx.drop()
	l.regions.revokeAll()
	if abortive {
		l.sock.SetLinger(0)
	}
	l.sock.Close()
	l.seat.Leave()
	l.p.counters.connections.Add(-1)
	l.p.counters.closed.Add(1)
	l.p.event(Event{Kind: EventClosed, Peer: l.peer, Local: l.local, Setup: l.agreed, Err: err})
	l.handler.Closed(err)
	close(l.done)
}

// peerClosed follows the peer's FIN: what was posted still goes out, as far as
// the peer takes it.
func (l *lifecycle) peerClosed() {
	if l.rx.partial() && !l.faulty.Load() && !l.stopping.Load() {
		l.end(&BrokenError{io.ErrUnexpectedEOF}, true)
		return
	}
	l.limit(limitEnd, l.p.cfg.LingerTimeout, &BrokenError{io.ErrUnexpectedEOF})
	l.tx.drain()
	l.unlimit(limitEnd)
	// TCP tells a reset to one of the two only, and the sender, which drain has waited
	// for, may have been told: then this is no FIN.
	if l.tx.wasReset() {
		l.end(&BrokenError{unix.ECONNRESET}, true)
	}
}

// A flushedError is rdmacm.ErrFlushed with the reason.
type flushedError struct{ reason error }

func (e *flushedError) Error() string   { return rdmacm.ErrFlushed.Error() + ": " + e.reason.Error() }
func (e *flushedError) Unwrap() []error { return []error{rdmacm.ErrFlushed, e.reason} }
