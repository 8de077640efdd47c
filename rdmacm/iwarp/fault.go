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
	why := errors.Join(&TerminateError{Cause: t.Cause, Remote: true, Dialect: t.Dialect}, err)
	c.mu.Lock()
	c.blame(&t, why)
	c.endLocked(why, false)
	c.mu.Unlock()
}

// blame finds the RDMA Read that a Terminate quotes: it has failed by itself, not
// by the end of the connection. (A Write that is quoted may have come back long
// ago: RFC 5040 §6.2.1.) c.mu is held.
func (c *Conn) blame(t *wire.Termination, why error) {
	var quoted func(r *outRead, msn uint32) bool
	if len(t.RDMAP) == wire.ReadRequestSize {
		sink := wire.ParseRead(t.RDMAP).SinkSTag
		quoted = func(r *outRead, _ uint32) bool { return r.stag == sink }
	} else if len(t.DDP) == wire.UntaggedSize {
		h := wire.ParseUntagged(t.DDP)
		quoted = func(_ *outRead, msn uint32) bool { return h.Queue == wire.QueueRead && h.MSN == msn }
	} else {
		return
	}
	older := make(map[*rdmacm.Chain]int) // Reads outstanding, by chain
	msn := c.tx.msn[wire.QueueRead] - uint32(c.reads.count)
	for r := c.reads.first; r != nil; r = r.next {
		msn++
		if r.chain != nil && quoted(r, msn) {
			st := postingOf(r.chain)
			st.err, st.failed = why, nthRead(r.chain, st.readsDone+older[r.chain])
			return
		}
		older[r.chain]++
	}
}

// nthRead is the index of a chain's RDMA Read, the first being 0.
func nthRead(ch *rdmacm.Chain, n int) int {
	for i := range ch.Work {
		if ch.Work[i].Op != rdmacm.OpRead {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return -1
}

func timeIn(d time.Duration) time.Time { return time.Now().Add(d) }
