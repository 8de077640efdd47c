package iwarp

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// A lifecycle is the part of a connection that starts and ends it: it holds the reason for
// the end, watches for a peer that does nothing, and closes the socket.
type lifecycle struct {
	*Conn
	seat rdmacm.Seat   // rdmacm.Uncounted if this side dialed
	done chan struct{} // see rdmacm.Conn.Done

	stopping atomic.Bool // the connection ends: stop receiving
	faulty   atomic.Bool // this side found a fault: ignore further input

	// mu guards the fields below.
	mu       sync.Mutex
	err      error // why the connection ends; the first reason counts
	abortive bool
	watch    watch
	nudge    *time.Timer // set on an initiator only
}

// start runs when the set-up is complete. It starts the watch, the receiving goroutine and, on an
// initiator, the nudges. It sends the ready-to-receive message if there is one.
func (l *lifecycle) start() {
	l.p.event(rdmacm.Event{Kind: rdmacm.EventConnected, Peer: l.peer})
	l.startWatch()
	if !l.responder && !l.p.cfg.ClientServer {
		l.nudgeLater()
	}
	go l.rx.run()
	l.tx.flush() // the ready-to-receive message
}

// heard runs after the first FPDU was received and validated. It allows sending (RFC 5044
// §7.1.2), and reports to the seat that the peer has sent something.
func (l *lifecycle) heard() {
	l.seat.Heard()
	l.tx.unfence()
	l.unlimit(limitSetup)
}

// end makes the receiving goroutine end the connection with err. If abortive is true, the socket
// is reset rather than closed in order.
func (l *lifecycle) end(err error, abortive bool) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	l.abortive = l.abortive || abortive
	l.mu.Unlock()
	l.stopping.Store(true)
	l.p.rings.End(&l.rx.lent)
	l.tx.refuse()
	// end may be called from within a RawConn callback of the socket, where the socket must not
	// be closed. So a deadline in the past wakes the goroutines that wait for the socket, and
	// conclude closes it.
	l.sock.SetDeadline(longAgo)
}

var longAgo = time.Unix(1, 0)

// conclude ends the connection: it completes outstanding work, revokes memory, closes the socket,
// and calls Handler.Closed. The receiving goroutine calls it last.
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
		flushErr = fmt.Errorf("%w: %w", flushErr, err)
	}
	l.tx.flushAll(flushErr)

	l.rx.drop()
	l.regions.revokeAll()
	if abortive {
		l.sock.SetLinger(0)
	}
	l.sock.Close()
	l.seat.Leave()
	l.p.event(rdmacm.Event{Kind: rdmacm.EventClosed, Peer: l.peer, Err: err})
	l.handler.Closed(err)
	close(l.done)
}

// peerClosed runs when the peer has closed its half of the connection. This side still sends the
// posted work, for at most LingerTimeout. If the peer closed in the middle of an FPDU or a
// message, peerClosed ends the connection at once.
func (l *lifecycle) peerClosed() {
	if l.rx.partial() && !l.faulty.Load() && !l.stopping.Load() {
		l.end(&BrokenError{io.ErrUnexpectedEOF}, true)
		return
	}
	l.limit(limitEnd, l.p.cfg.LingerTimeout, &BrokenError{io.ErrUnexpectedEOF})
	l.tx.drain()
	l.unlimit(limitEnd)
	// TCP reports a reset to either the receiver or the sender, not to both. drain has waited for
	// the sender. If the sender saw a reset, the input ended by this reset and not by a FIN.
	if l.tx.wasReset() {
		l.end(&BrokenError{unix.ECONNRESET}, true)
	}
}

// fault ends the connection because this side found a fault. It sends a Terminate as the last FPDU,
// ignores further input, and gives the peer LingerTimeout to close. If no Terminate may be sent, the
// connection ends at once. If the connection already has a reason to end, fault does nothing.
func (l *lifecycle) fault(t *wire.Termination, detail error) {
	why := &TerminateError{Cause: t.Cause, Detail: detail}
	l.mu.Lock()
	first := l.err == nil
	if first {
		l.err = why
	}
	l.mu.Unlock()
	if !first {
		return
	}
	fpdu := make([]byte, wire.FPDUSize(wire.UntaggedSize+t.Size()))
	putTerminate(fpdu, t, l.agreed.CRC)
	l.faulty.Store(true)
	if !l.tx.lastFPDU(fpdu) {
		l.end(why, true)
		return
	}
	l.limit(limitEnd, l.p.cfg.LingerTimeout, rdmacm.ErrTimeout)
	l.p.counters.terminatesOut.Add(1)
	l.tx.flush()
}
