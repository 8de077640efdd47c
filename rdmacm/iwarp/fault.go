package iwarp

import (
	"errors"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// fault ends the connection because of something that this side found wrong: a
// Terminate goes out as the last FPDU, input is not looked at any more, and the
// peer has LingerTimeout to close. Only the first fault counts.
func (c *Conn) fault(t *wire.Termination, detail error) {
	c.mu.Lock()
	if c.endErr != nil {
		c.mu.Unlock()
		return
	}
	c.refusing = true
	c.endErr = &TerminateError{Cause: t.Cause, Detail: detail}
	if c.fenced || c.broken || c.finSent {
		// Nothing may be sent (any more).
		c.endLocked(c.endErr, true)
		c.mu.Unlock()
		return
	}
	c.terminate = make([]byte, wire.FPDUSize(wire.UntaggedSize+t.Size()))
	putTerminate(c.terminate, t, c.agreed.CRC)
	c.faulty.Store(true)
	c.watch.limit(timeIn(c.p.cfg.LingerTimeout), rdmacm.ErrTimeout)
	own := c.acquire()
	c.mu.Unlock()
	c.p.counters.terminate(&c.p.counters.out, t.Cause)
	if own {
		c.transmit()
	}
}

// peerTerminated follows a Terminate by the peer.
func (c *Conn) peerTerminated() {
	f := &c.rx.fpdu
	t, err := wire.ParseTermination(c.rx.scratch[:min(f.placed, len(c.rx.scratch))])
	if err != nil {
		t.Cause, t.Dialect = wire.RDMAPCatastrophic, wire.DialectUnknown
	}
	c.p.counters.terminate(&c.p.counters.in, t.Cause)
	c.end(errors.Join(&TerminateError{Cause: t.Cause, Remote: true, Dialect: t.Dialect}, err), false)
}

func timeIn(d time.Duration) time.Time { return time.Now().Add(d) }
