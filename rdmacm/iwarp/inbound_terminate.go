package iwarp

import (
	"errors"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// peerTerminated ends the connection after a Terminate from the peer.
func (x *receiver) peerTerminated() {
	t, err := wire.ParseTermination(x.scratch[:min(x.fpdu.placed, len(x.scratch))])
	if err != nil {
		t.Cause, t.Dialect = wire.RDMAPCatastrophic, wire.DialectUnknown
	}
	x.p.counters.terminatesIn.Add(1)
	why := errors.Join(&TerminateError{Cause: t.Cause, Remote: true, Dialect: t.Dialect}, refused(&t), err)
	x.blame(&t, why)
	x.life.end(why, false)
}

// refused returns an error that names the operation of this side that a Terminate quotes, or nil
// if it quotes none.
func refused(t *wire.Termination) error {
	if len(t.RDMAP) == wire.ReadRequestSize {
		return &rdmacm.RefusedError{Op: rdmacm.OpRead, STag: wire.ParseRead(t.RDMAP).SourceSTag}
	}
	switch len(t.DDP) {
	case wire.TaggedSize:
		if h := wire.ParseTagged(t.DDP); h.Op == wire.Write {
			return &rdmacm.RefusedError{Op: rdmacm.OpWrite, STag: h.STag}
		}
	case wire.UntaggedSize:
		if h := wire.ParseUntagged(t.DDP); h.Op.Invalidates() {
			return &rdmacm.RefusedError{Op: rdmacm.OpSendInvalidate, STag: h.Invalidate}
		}
	}
	return nil
}

// blame records the error why for the RDMA Read that a Terminate quotes. Other outstanding work
// fails only because the connection ends. blame ignores a quoted Write, because the Write may
// have completed long ago (RFC 5040 §6.2.1): see refused.
func (x *receiver) blame(t *wire.Termination, why error) {
	var quoted func(r *outRead) bool
	if len(t.RDMAP) == wire.ReadRequestSize {
		sink := wire.ParseRead(t.RDMAP).SinkSTag
		quoted = func(r *outRead) bool { return r.stag == sink }
	} else if len(t.DDP) == wire.UntaggedSize {
		h := wire.ParseUntagged(t.DDP)
		quoted = func(r *outRead) bool { return h.Queue == wire.QueueRead && h.MSN == r.msn }
	} else {
		return
	}
	older := make(map[*rdmacm.Chain]int) // number of outstanding Reads of each chain that are older than r
	for _, r := range x.outstanding() {
		if r.chain != nil && quoted(r) {
			x.tx.readFailed(r.chain, older[r.chain], why)
			return
		}
		older[r.chain]++
	}
}
