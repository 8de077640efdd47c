package rdma

import (
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// writtenMost is how many of the handles that replies named last are remembered for a
// connection.
const writtenMost = 256

// written remembers which call's reply wrote to a handle of the peer's, or invalidated it. A
// device may tell of work as done that the peer has not seen, and refuses later; the end of
// the connection then says what the work named (rdmacm.RefusedError), and no more.
//
// A reply takes one atomic addition and one store for each handle. What is overwritten
// belongs to replies that the peer has got, unless one call names more handles than there
// is room for.
type written struct {
	next atomic.Uint32
	// last are pairs of XID and handle. Connections without replies that write have none.
	last atomic.Pointer[[writtenMost]atomic.Uint64]
}

// add remembers the handles that the work of a reply names.
func (w *written) add(xid uint32, work []rdmacm.Work) {
	for i := range work {
		stag := work[i].Remote.STag
		switch work[i].Op {
		case rdmacm.OpSend:
			continue
		case rdmacm.OpSendInvalidate:
			stag = work[i].Invalidate
		}
		w.put(xid, stag)
	}
}

func (w *written) put(xid, stag uint32) {
	last := w.last.Load()
	if last == nil {
		w.last.CompareAndSwap(nil, new([writtenMost]atomic.Uint64))
		last = w.last.Load()
	}
	last[w.next.Add(1)%writtenMost].Store(uint64(xid)<<32 | uint64(stag))
}

// of is the call whose reply named stag last.
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
