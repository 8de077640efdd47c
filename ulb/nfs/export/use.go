package export

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// stripes is the number of counters of an export. A connection always uses the same one,
// chosen by its ID. Connections on different processors thus rarely write to the same memory.
const stripes = 16

// use counts the calls that use an export's file system. The zero value is ready.
type use struct {
	calls   [stripes]stripe
	retired atomic.Bool
	settled sync.Once
	idle    chan struct{} // made before retired is set
}

// A stripe fills a cache line. The low half of n counts the calls inside; the high half
// counts all calls that ever entered.
type stripe struct {
	n atomic.Uint64
	_ [56]byte
}

const (
	oneEnters = 1<<32 + 1
	oneLeaves = ^uint64(0) // subtracts one
	inside    = 1<<32 - 1
)

// entries returns the number of calls that have entered, modulo 1<<32 for each stripe, and
// whether any call is inside.
func (u *use) entries() (n uint64, busy bool) {
	for i := range u.calls {
		v := u.calls[i].n.Load()
		n += v >> 32
		busy = busy || v&inside != 0
	}
	return n, busy
}

// Enter counts a call that is about to use the file system, until the call's Leave. It returns
// false if the export is retired: the call must not use the export, and asks Table.Awake for its
// successor.
func (e *Export) Enter(c *rpc.Conn) bool {
	s := &e.use.calls[c.ID%stripes]
	s.n.Add(oneEnters)
	if e.use.retired.Load() {
		e.use.leave(s)
		return false
	}
	return true
}

// Leave ends the use that a successful Enter of the same connection began.
func (e *Export) Leave(c *rpc.Conn) { e.use.leave(&e.use.calls[c.ID%stripes]) }

// Retire makes Enter refuse all further calls. The channel is closed when all calls that had
// entered have left; then the file system can be closed. Retire is called once, after the Table has
// replaced or removed the export.
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

// settle closes idle if no call is inside. It runs after retired is set. If settle finds the
// counter of a stripe at zero, no call uses the file system through that stripe any more, because
// calls that enter later leave at once. The call that leaves last therefore finds all stripes at
// zero.
func (u *use) settle() {
	for i := range u.calls {
		if u.calls[i].n.Load()&inside != 0 {
			return
		}
	}
	u.settled.Do(func() { close(u.idle) })
}
