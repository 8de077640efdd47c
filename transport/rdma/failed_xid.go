package rdma

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of failedXIDs.
const (
	failedXIDsMost = 64              // largest number of calls that a part remembers
	failedXIDsLife = 2 * time.Minute // how long a part remembers a call
	failedParts    = 64
)

// failedXIDs remembers calls whose failed RDMA operations ended their connection. The peer will
// connect again and repeat such a call, and the repeated call would end the next connection too. So
// the server answers the retry with ERR_CHUNK (RFC 8166 §4.5.3).
//
// Peers are spread over parts by a secret hash of their addresses. A part is nearly always
// empty, and a call takes no lock if its peer's part is empty. A peer that provokes
// failures fills only one part of many.
type failedXIDs struct {
	seed  maphash.Seed
	parts [failedParts]failedPart
}

func newFailedXIDs() *failedXIDs { return &failedXIDs{seed: maphash.MakeSeed()} }

// of returns the part that remembers calls of the given peer.
func (f *failedXIDs) of(peer netip.Addr) *failedPart {
	return &f.parts[maphash.Comparable(f.seed, peer)%failedParts]
}

type failedPart struct {
	count   atomic.Int32 // number of entries
	mu      sync.Mutex
	entries []failedXID // oldest first
}

type failedXID struct {
	peer netip.Addr
	xid  uint32
	at   time.Time
}

// add remembers a call. If f has failedXIDsMost calls already, it first forgets the oldest one.
func (f *failedPart) add(peer netip.Addr, xid uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(f.entries, func(e failedXID) bool { return e.peer == peer && e.xid == xid }) {
		return
	}
	if len(f.entries) == failedXIDsMost {
		f.entries = slices.Delete(f.entries, 0, 1)
	}
	f.entries = append(f.entries, failedXID{peer, xid, time.Now()})
	f.count.Store(int32(len(f.entries)))
}

// take reports whether f remembers the call. If so, f forgets it.
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
