package export

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// stripes is how many counters an export has. The calls of one connection use one of
// them, so that connections on different processors do not write to the same memory.
const stripes = 16

// use counts the calls that work with an export's file system. The zero value is that
// of an export that none uses.
type use struct {
	calls   [stripes]stripe
	retired atomic.Bool
	settled sync.Once
	idle    chan struct{} // made before retired is set
}

// A stripe has a cache line for itself. In the low half of n are the calls that are inside,
// in the high half all that ever entered.
type stripe struct {
	n atomic.Uint64
	_ [56]byte
}

const (
	oneEnters = 1<<32 + 1
	oneLeaves = ^uint64(0) // one less
	inside    = 1<<32 - 1
)

// entries is how many calls have entered, but for multiples of 1<<32 a stripe, and whether
// any is inside.
func (u *use) entries() (n uint64, busy bool) {
	for i := range u.calls {
		v := u.calls[i].n.Load()
		n += v >> 32
		busy = busy || v&inside != 0
	}
	return n, busy
}

// Enter counts in a call of a connection that is about to use the file system, until it
// calls Leave. It is false where the export is retired: the call must not use it, and
// finds in the Table what has taken its place, if anything has.
func (e *Export) Enter(c *rpc.Conn) bool {
	s := &e.use.calls[c.ID%stripes]
	s.n.Add(oneEnters)
	if e.use.retired.Load() {
		e.use.leave(s)
		return false
	}
	return true
}

// Leave is for each Enter that was true, by the same connection's call.
func (e *Export) Leave(c *rpc.Conn) { e.use.leave(&e.use.calls[c.ID%stripes]) }

// Retire lets no further call in. The channel is closed when all calls have left that
// had entered: then the file system can be closed. An export is retired once, after a
// Table has none or another in its place.
func (e *Export) Retire() (idle <-chan struct{}) {
	e.use.idle = make(chan struct{})
	e.use.retired.Store(true)
	e.use.settle()
	return e.use.idle
}

func (u *use) leave(s *stripe) {
	if s.n.Add(oneLeaves)&inside == 0 && u.retired.Load() {
		u.settle()
	}
}

// settle closes idle where no call is left. Once retired, a stripe that is seen at zero
// has no call any more: one that enters later goes at once. Whichever call leaves its
// stripe last looks at all of them after every other has left its own.
func (u *use) settle() {
	for i := range u.calls {
		if u.calls[i].n.Load()&inside != 0 {
			return
		}
	}
	u.settled.Do(func() { close(u.idle) })
}
