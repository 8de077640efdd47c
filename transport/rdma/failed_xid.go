package rdma

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what is remembered of failed operations.
const (
	failedXIDsMost = 64 // for each of the failedParts
	failedXIDsLife = 2 * time.Minute
	failedParts    = 64
)

// failedXIDs remembers calls whose RDMA operations broke their connection, for
// the peer will connect anew and try again; the same would happen again, and so
// on for ever. The retry is answered with ERR_CHUNK instead (RFC 8166 §4.5.3).
//
// Peers are spread over parts by their addresses, in a way that they do not know:
// a call takes no lock while its part is empty, as nearly all are, and a peer that
// provokes failures fills one part of many.
type failedXIDs struct {
	seed  maphash.Seed
	parts [failedParts]failedPart
}

func newFailedXIDs() *failedXIDs { return &failedXIDs{seed: maphash.MakeSeed()} }

// of is the part that a peer's calls are remembered in.
func (f *failedXIDs) of(peer netip.Addr) *failedPart {
	return &f.parts[maphash.Comparable(f.seed, peer)%failedParts]
}

type failedPart struct {
	count   atomic.Int32 // of entries
	mu      sync.Mutex
	entries []failedXID // oldest first
}

type failedXID struct {
	peer netip.Addr
	xid  uint32
	at   time.Time
}

// add remembers a call; the oldest is forgotten when there are too many. It is false for
// a call that is remembered already.
func (f *failedPart) add(peer netip.Addr, xid uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(f.entries, func(e failedXID) bool { return e.peer == peer && e.xid == xid }) {
		return false
	}
	if len(f.entries) == failedXIDsMost {
		f.entries = slices.Delete(f.entries, 0, 1)
	}
	f.entries = append(f.entries, failedXID{peer, xid, time.Now()})
	f.count.Store(int32(len(f.entries)))
	return true
}

// take says whether the call is remembered, and forgets it.
func (f *failedPart) take(peer netip.Addr, xid uint32) (found bool) {
	if f.count.Load() == 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.entries = slices.DeleteFunc(f.entries, func(e failedXID) bool {
		its := e.peer == peer && e.xid == xid
		old := now.Sub(e.at) > failedXIDsLife
		found = found || its && !old
		return its || old
	})
	f.count.Store(int32(len(f.entries)))
	return found
}
