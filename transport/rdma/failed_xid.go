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

// writtenMost is how many handles written remembers for a connection, at most.
const writtenMost = 256

// written remembers which call's reply wrote to a handle (STag) of the peer, or invalidated it. A
// device may report work as done before the peer has seen and refused it. The error that then ends
// the connection names only the handle (rdmacm.RefusedError), not the call.
//
// To remember a handle takes one atomic addition and one store. If written is full, it forgets the
// oldest handle; the peer has received the reply with that handle, unless one call names more than
// writtenMost handles.
type written struct {
	next atomic.Uint32
	// last holds pairs of XID and handle. It is nil until a reply uses a handle.
	last atomic.Pointer[[writtenMost]atomic.Uint64]
}

// add remembers the handles that the reply o to the call xid uses: those of its RDMA Writes, and
// the one that it invalidates.
func (w *written) add(xid uint32, o *outbound) {
	for i := range o.work {
		w.store(xid, o.work[i].Remote.STag)
	}
	if o.invalidate != 0 {
		w.store(xid, o.invalidate)
	}
}

func (w *written) store(xid, stag uint32) {
	last := w.last.Load()
	if last == nil {
		w.last.CompareAndSwap(nil, new([writtenMost]atomic.Uint64))
		last = w.last.Load()
	}
	last[w.next.Add(1)%writtenMost].Store(uint64(xid)<<32 | uint64(stag))
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
