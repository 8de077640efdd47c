package iwarp

import (
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// fault ends the connection because this side found a fault. It sends a Terminate as the last
// FPDU, ignores further input, and gives the peer LingerTimeout to close. If no Terminate may
// be sent, the connection ends at once. If the connection already has a reason to end, fault
// does nothing.
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
