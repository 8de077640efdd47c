package iwarp

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// Counters is a snapshot of what a Provider did since it was made.
type Counters struct {
	Accepted, Dialed   uint64 // connections set up
	Refused            uint64 // connections for which there was no seat
	SetupFailed        uint64 // connections that failed before
	Rejected           uint64 // refused, by either side
	Closed             uint64
	FPDUsIn, FPDUsOut  uint64
	BytesIn, BytesOut  uint64 // of FPDUs, everything included
	SendsIn, SendsOut  uint64 // messages
	SendBytesIn        uint64 // payload, as in the following
	SendBytesOut       uint64
	WriteBytesIn       uint64
	WriteBytesOut      uint64
	ReadsIn, ReadsOut  uint64 // requests
	ReadBytesIn        uint64 // that this side asked for
	ReadBytesOut       uint64 // that the peer asked for
	Invalidated        uint64 // STags of this side, by the peer
	DirectReads        uint64 // payload of an FPDU, or part of it, read straight into place
	Misguessed         uint64 // reads ahead of FPDUs that were not what came (lookAhead)
	Handoffs           uint64 // transmissions that a goroutine had to finish
	Stalled            uint64 // connections ended because the peer did nothing
	EmptyIn            uint64 // FPDUs without a byte that completed nothing
	EmptyEnds          uint64 // connections ended because of too many of them
	TerminatesIn       map[wire.Cause]uint64
	TerminatesOut      map[wire.Cause]uint64
	Connections, Rings int64 // at present
}

type counters struct {
	accepted, dialed, setupFailed, rejected, closed atomic.Uint64
	refused                                         atomic.Uint64
	fpdusIn, fpdusOut, bytesIn, bytesOut            atomic.Uint64
	sendsIn, sendsOut, sendBytesIn, sendBytesOut    atomic.Uint64
	writeBytesIn, writeBytesOut                     atomic.Uint64
	readsIn, readsOut, readBytesIn, readBytesOut    atomic.Uint64
	invalidated, directReads, handoffs, stalled     atomic.Uint64
	misguessed, emptyIn, emptyEnds                  atomic.Uint64
	connections                                     atomic.Int64

	mu      sync.Mutex
	in, out map[wire.Cause]uint64
}

func (c *counters) terminate(m *map[wire.Cause]uint64, cause wire.Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *m == nil {
		*m = make(map[wire.Cause]uint64)
	}
	// A peer may send any code it likes: causes that no standard lists
	// share one entry for each layer.
	if !cause.Listed() {
		cause = wire.Cause{Layer: cause.Layer & 0xf, Type: 0xf, Code: 0xff}
	}
	(*m)[cause]++
}

// Counters is a snapshot.
func (p *Provider) Counters() Counters {
	c := &p.counters
	s := Counters{
		Accepted: c.accepted.Load(), Dialed: c.dialed.Load(), SetupFailed: c.setupFailed.Load(), Refused: c.refused.Load(),
		Rejected: c.rejected.Load(), Closed: c.closed.Load(),
		FPDUsIn: c.fpdusIn.Load(), FPDUsOut: c.fpdusOut.Load(),
		BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(),
		SendsIn: c.sendsIn.Load(), SendsOut: c.sendsOut.Load(),
		SendBytesIn: c.sendBytesIn.Load(), SendBytesOut: c.sendBytesOut.Load(),
		WriteBytesIn: c.writeBytesIn.Load(), WriteBytesOut: c.writeBytesOut.Load(),
		ReadsIn: c.readsIn.Load(), ReadsOut: c.readsOut.Load(),
		ReadBytesIn: c.readBytesIn.Load(), ReadBytesOut: c.readBytesOut.Load(),
		Invalidated: c.invalidated.Load(), DirectReads: c.directReads.Load(),
		Misguessed: c.misguessed.Load(),
		Handoffs:   c.handoffs.Load(), Stalled: c.stalled.Load(),
		EmptyIn: c.emptyIn.Load(), EmptyEnds: c.emptyEnds.Load(),
		Connections: c.connections.Load(), Rings: int64(p.rings.count()),
	}
	c.mu.Lock()
	s.TerminatesIn, s.TerminatesOut = maps.Clone(c.in), maps.Clone(c.out)
	c.mu.Unlock()
	return s
}
