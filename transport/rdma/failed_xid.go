package rdma

import (
	"net/netip"
	"sync"
	"time"
)

// Bounds of what is remembered of failed operations.
const (
	failedXIDsMost = 1024
	failedXIDsLife = 2 * time.Minute
)

// failedXIDs remembers calls whose RDMA operations broke their connection, for
// the peer will connect anew and try again; the same would happen again, and so
// on for ever. The retry is answered with ERR_CHUNK instead (RFC 8166 §4.5.3).
type failedXIDs struct {
	mu      sync.Mutex
	entries []failedXID // oldest first
	now     func() time.Time
}

type failedXID struct {
	peer netip.Addr
	xid  uint32
	at   time.Time
}

func newFailedXIDs() *failedXIDs { return &failedXIDs{now: time.Now} }

// add remembers a call; the oldest is forgotten when there are too many.
func (f *failedXIDs) add(peer netip.Addr, xid uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.entries) == failedXIDsMost {
		f.entries = append(f.entries[:0], f.entries[1:]...)
	}
	f.entries = append(f.entries, failedXID{peer, xid, f.now()})
}

// take says whether the call is remembered, and forgets it.
func (f *failedXIDs) take(peer netip.Addr, xid uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.entries) == 0 {
		return false
	}
	now := f.now()
	for len(f.entries) > 0 && now.Sub(f.entries[0].at) > failedXIDsLife {
		f.entries = f.entries[1:]
	}
	for i, e := range f.entries {
		if e.peer == peer && e.xid == xid {
			f.entries = append(f.entries[:i], f.entries[i+1:]...)
			return true
		}
	}
	return false
}
