package rdma

import "sync/atomic"

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
