package nfs4

import (
	"sync/atomic"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// stripes is the number of success counters of each operation. A connection always uses the
// same counter, chosen by the connection's ID. Connections on different processors thus rarely
// write to the same memory.
const stripes = 16

// failureSlots is the number of failure counters of each operation. The last one counts all
// statuses that have no counter of their own.
const failureSlots = 256

// counters counts the operations executed.
type counters struct {
	done   [stripes]doneCounters
	failed [lastOperation + 1][failureSlots]atomic.Uint64
	// illegal counts operations whose number the minor version does not define.
	illegal atomic.Uint64
}

type doneCounters struct {
	n [lastOperation + 1]atomic.Uint64
	_ [64]byte
}

// firstHigh is 10001, the lowest status whose number is not that of a POSIX error. The POSIX errors
// have numbers below 100.
const firstHigh = wire.NFS4ErrBadHandle

// slotOf returns the index of the counter for failures with status s.
func slotOf(s Status) int {
	switch {
	case s > 0 && s < 100:
		return int(s)
	case s >= firstHigh && s-firstHigh < failureSlots-101:
		return 100 + int(s-firstHigh)
	}
	return failureSlots - 1
}

func statusOfSlot(i int) Status {
	switch {
	case i < 100:
		return Status(i)
	case i < failureSlots-1:
		return firstHigh + Status(i-100)
	}
	return wire.NFS4ErrServerFault
}

func (c *counters) count(k *Compound, s Status) {
	switch {
	case k.Number > lastOperation:
		c.illegal.Add(1)
	case s == wire.NFS4OK:
		c.done[k.Call.Conn.ID%stripes].n[k.Number].Add(1)
	default:
		c.failed[k.Number][slotOf(s)].Add(1)
	}
}

// OperationStats is the number of times that one operation ended with one status.
type OperationStats struct {
	Operation wire.OpNum
	Status    Status
	Count     uint64
}

// Stats returns the counts of all operations and statuses that occurred since the start.
func (p *Program) Stats() (all []OperationStats) {
	c := &p.counters
	for op := range c.failed {
		var n uint64
		for i := range c.done {
			n += c.done[i].n[op].Load()
		}
		if n > 0 {
			all = append(all, OperationStats{wire.OpNum(op), wire.NFS4OK, n})
		}
		for i := range c.failed[op] {
			if n := c.failed[op][i].Load(); n > 0 {
				all = append(all, OperationStats{wire.OpNum(op), statusOfSlot(i), n})
			}
		}
	}
	if n := c.illegal.Load(); n > 0 {
		all = append(all, OperationStats{wire.OpIllegal, wire.NFS4ErrOpIllegal, n})
	}
	return all
}
