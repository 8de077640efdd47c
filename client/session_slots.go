package client

import (
	"slices"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A slotTable holds the slots of one session (RFC 8881 §2.10.6.1). The Session's lock guards it.
type slotTable struct {
	session nfs4wire.SessionID4
	slots   []*slot // those that were used so far
	// limit is the number of slots that the server allows to be used.
	limit uint32
	// longest is the longest request that the server takes (ca_maxrequestsize), in bytes, or 0.
	longest int
}

// A slot is one slot of a session. At most one request uses it at a time.
type slot struct {
	table *slotTable
	id    uint32
	seq   uint32 // sequence number of the next request, or of the one in progress
	busy  bool
}

func newSlotTable(id nfs4wire.SessionID4, limit uint32) *slotTable {
	return &slotTable{session: id, limit: min(max(limit, 1), maxSlots)}
}

// take returns the lowest free slot, or nil.
func (t *slotTable) take() *slot {
	for id := range t.limit {
		if id == uint32(len(t.slots)) {
			t.slots = append(t.slots, &slot{table: t, id: id, seq: 1})
		}
		if s := t.slots[id]; !s.busy {
			s.busy = true
			return s
		}
	}
	return nil
}

// highest returns the ID of the highest slot in use.
func (t *slotTable) highest() uint32 {
	for _, s := range slices.Backward(t.slots) {
		if s.busy {
			return s.id
		}
	}
	return 0
}

// aim makes target the ID of the highest slot that may be used.
func (t *slotTable) aim(target uint32) { t.limit = min(target, maxSlots-1) + 1 }

// underWay reports whether the request with sequence number seq on slot id is unanswered.
func (t *slotTable) underWay(id, seq uint32) bool {
	return id < uint32(len(t.slots)) && t.slots[id].busy && t.slots[id].seq == seq
}
