package iwarp

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// Counters is a snapshot of a Provider's counters, which start when the Provider is made.
type Counters struct {
	Accepted, Dialed   uint64 // connections set up
	Refused            uint64 // connections refused by Config.Seats
	SetupFailed        uint64 // connections that failed during set-up
	Rejected           uint64 // connection requests refused by either side
	Closed             uint64
	FPDUsIn, FPDUsOut  uint64
	BytesIn, BytesOut  uint64 // bytes of whole FPDUs
	SendsIn, SendsOut  uint64 // Send messages
	SendBytesIn        uint64 // payload bytes; so are the other byte counts below
	SendBytesOut       uint64
	WriteBytesIn       uint64
	WriteBytesOut      uint64
	ReadsIn, ReadsOut  uint64 // requests
	ReadBytesIn        uint64 // for this side's Reads
	ReadBytesOut       uint64 // for the peer's Reads
	Invalidated        uint64 // STags of this side that the peer invalidated
	DirectReads        uint64 // socket reads that put payload straight into its destination
	Misguessed         uint64 // socket reads ahead whose guess was wrong (lookAhead)
	Handoffs           uint64 // transmissions that another goroutine had to finish
	Stalled            uint64 // connections ended because the peer stalled
	EmptyIn            uint64 // FPDUs without payload that completed nothing
	EmptyEnds          uint64 // connections ended by ErrEmpty
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
	// A peer may send any code. All causes that no standard lists share one entry for each
	// layer, so that the map stays small.
	if !cause.Listed() {
		cause = wire.Cause{Layer: cause.Layer & 0xf, Type: 0xf, Code: 0xff}
	}
	(*m)[cause]++
}

// Counters returns a snapshot of the counters.
func (p *Provider) Counters() Counters {
	c := &p.counters
	rings, _ := p.rings.Count()
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
		Connections: c.connections.Load(), Rings: int64(rings),
	}
	c.mu.Lock()
	s.TerminatesIn, s.TerminatesOut = maps.Clone(c.in), maps.Clone(c.out)
	c.mu.Unlock()
	return s
}

// Stats returns the counts of faults, in the form that all providers share.
func (p *Provider) Stats() rdmacm.Stats {
	c := p.Counters()
	return rdmacm.Stats{Faults: []rdmacm.Count{
		{What: "setup", N: c.SetupFailed + c.Rejected},
		{What: "terminate_sent", N: total(c.TerminatesOut)}, {What: "terminate_received", N: total(c.TerminatesIn)},
		{What: "empty", N: c.EmptyEnds},
	}}
}

// total returns the sum over all causes.
func total(by map[wire.Cause]uint64) (sum uint64) {
	for _, n := range by {
		sum += n
	}
	return sum
}
