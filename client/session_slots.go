package client

import (
	"math/bits"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A slotTable holds the slots of one session (RFC 8881 §2.10.6.1). The Session's lock guards it.
type slotTable struct {
	session nfs4wire.SessionID4
	slots   []*slot
	busy    [maxSlots / 64]uint64
	// limit is the number of slots that the server allows to be used.
	limit uint32
}

// A slot is one slot of a session. At most one request uses it at a time.
type slot struct {
	table *slotTable
	id    uint32
	seq   uint32 // sequence number of the next request, or of the one in progress
}

func newSlotTable(id nfs4wire.SessionID4, limit uint32) *slotTable {
	return &slotTable{session: id, limit: min(max(limit, 1), maxSlots)}
}

// take returns the lowest free slot, or nil.
func (t *slotTable) take() *slot {
	for i := range t.busy {
		n := uint32(64*i + bits.TrailingZeros64(^t.busy[i]))
		switch {
		case n >= t.limit:
			return nil
		case n == uint32(64*i+64): // all of these are busy
			continue
		}
		t.busy[i] |= 1 << (n % 64)
		for uint32(len(t.slots)) <= n {
			t.slots = append(t.slots, &slot{table: t, id: uint32(len(t.slots)), seq: 1})
		}
		return t.slots[n]
	}
	return nil
}

// release marks a slot as free.
func (t *slotTable) release(s *slot) { t.busy[s.id/64] &^= 1 << (s.id % 64) }

// highest returns the ID of the highest slot in use.
func (t *slotTable) highest() uint32 {
	for i := len(t.busy) - 1; i >= 0; i-- {
		if t.busy[i] != 0 {
			return uint32(64*i + 63 - bits.LeadingZeros64(t.busy[i]))
		}
	}
	return 0
}

// aim makes target the ID of the highest slot that may be used.
func (t *slotTable) aim(target uint32) { t.limit = min(target, maxSlots-1) + 1 }

// underWay reports whether the request with sequence number seq on slot id is unanswered.
func (t *slotTable) underWay(id, seq uint32) bool {
	return id < uint32(len(t.slots)) && t.busy[id/64]&(1<<(id%64)) != 0 && t.slots[id].seq == seq
}
