package iwarp

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// fault ends the connection because of something that this side found wrong: a
// Terminate goes out as the last FPDU, input is not looked at any more, and the
// peer has LingerTimeout to close. Only the first fault counts.
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
	l.p.counters.terminate(&l.p.counters.out, t.Cause)
	l.tx.flush()
}
