package rdma

import (
	"errors"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
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

// operationFailed ends the connection after a failed Read, Write or Send (RFC 8166 §4.5.4). If own
// is true, the operation moved data of the call itself, and s.failed remembers the call, so that
// its retry does not fail the same way.
func (s *responder) operationFailed(xid uint32, err error, own bool) {
	if flushed(err) {
		return // the connection had ended before, for another reason
	}
	if own {
		s.blamed.Store(true)
		s.failed.add(s.peer, xid)
	}
	s.k.endConnection(faultOperation, err)
}

// blame finds the call whose reply the peer refused after the device had reported the reply as
// sent. s.failed remembers this call, so that its retry does not fail the same way. If
// operationFailed has found a failed call of this connection, blame does nothing: the retry of that
// call may have been refused already, and must not be refused twice.
func (s *responder) blame(why error) {
	e, ok := errors.AsType[*rdmacm.RefusedError](why)
	if !ok || e.Op == rdmacm.OpRead || s.blamed.Load() { // operationFailed has handled a failed Read already
		return
	}
	if xid, ok := s.written.of(e.STag); ok {
		s.failed.add(s.peer, xid)
		s.k.note(faultOperation, answerClose, xid)
	}
}

// The method of returns the XID of the call whose reply was the last to use the handle stag. ok is
// false if none is remembered.
func (w *written) of(stag uint32) (xid uint32, ok bool) {
	last := w.last.Load()
	if last == nil {
		return 0, false
	}
	next := w.next.Load()
	for i := range min(next, writtenMost) {
		if v := last[(next-i)%writtenMost].Load(); uint32(v) == stag {
			return uint32(v >> 32), true
		}
	}
	return 0, false
}
