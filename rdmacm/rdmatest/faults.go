package rdmatest

import "errors"

// When tells whether a fault strikes before or after the effect of a work request.
type When uint8

const (
	// Before: the work request has no effect at the peer.
	Before When = iota + 1
	// After: the work request has its effect at the peer, but its chain does not come back as
	// done.
	After
)

// ErrLost is the reason that a connection ends with after a fault has lost it.
var ErrLost = errors.New("rdmatest: connection lost")

// ErrInjected is the error of an injected fault, if the test gave none.
var ErrInjected = errors.New("rdmatest: injected fault")

// Faults are the faults that a test wants at one end of a connection. They name chains, work
// requests and calls by numbers, which count from 0 over the life of the connection. A fault
// whose number has passed never strikes. The methods may be called at any time from any
// goroutine.
type Faults struct {
	c *Conn

	// Guarded by the link's lock.
	lose           map[int]When
	failWork       map[int]error
	failPost       map[int]error
	failRegister   map[int]error
	failDeregister map[int]error
	delayDone      map[int]bool
	holdReads      int
	reorder        bool
}

// Posted returns how many chains and work requests were posted so far. These are the numbers of
// the next chain and of the next work request.
func (f *Faults) Posted() (chains, works int) {
	f.c.link.mu.Lock()
	defer f.c.link.mu.Unlock()
	return f.c.chains, f.c.works
}

// LoseAt ends the connection, for both sides, at work request number work.
func (f *Faults) LoseAt(work int, when When) { set(f, &f.lose, work, when) }

// FailWork makes work request number work fail without an effect, as a faulty device would: its
// chain comes back with err, and the connection ends.
func (f *Faults) FailWork(work int, err error) { set(f, &f.failWork, work, orInjected(err)) }

// FailPost refuses chain number chain. The chain comes back in its turn with err and index 0,
// and none of its work is done. The connection lives on.
func (f *Faults) FailPost(chain int, err error) { set(f, &f.failPost, chain, orInjected(err)) }

// FailRegister makes call number call of Register fail.
func (f *Faults) FailRegister(call int, err error) { set(f, &f.failRegister, call, orInjected(err)) }

// FailDeregister makes call number call of Deregister fail; the calls of all regions of the
// connection count. The peer keeps its access until the connection ends.
func (f *Faults) FailDeregister(call int, err error) {
	set(f, &f.failDeregister, call, orInjected(err))
}

// DelayDone delays the return of chain number chain, and so of the chains behind it, until
// release is called. The work of the chain is carried out. If the connection ends before
// release, the chain comes back as flushed.
func (f *Faults) DelayDone(chain int) (release func()) {
	set(f, &f.delayDone, chain, true)
	return func() {
		f.c.link.mu.Lock()
		defer f.c.link.mu.Unlock()
		delete(f.delayDone, chain)
		f.c.events.Broadcast()
	}
}

// HoldReads leaves the RDMA Reads that are posted from now on unanswered until release is
// called. Meanwhile the work behind them is carried out, as devices may do. The chains of that
// work come back in order, behind the Reads.
func (f *Faults) HoldReads() (release func()) {
	f.c.link.mu.Lock()
	defer f.c.link.mu.Unlock()
	f.holdReads++
	released := false
	return func() {
		f.c.link.mu.Lock()
		defer f.c.link.mu.Unlock()
		if !released {
			released = true
			f.holdReads--
			f.c.device.Broadcast()
		}
	}
}

// ReorderWrites carries RDMA Writes out in reverse order from now on, but before the Send behind
// them is delivered. RFC 5040 §5.5 promises no more.
func (f *Faults) ReorderWrites() {
	f.c.link.mu.Lock()
	defer f.c.link.mu.Unlock()
	f.reorder = true
}

// Lose ends the connection now, for both sides.
func (f *Faults) Lose() {
	f.c.link.mu.Lock()
	defer f.c.link.mu.Unlock()
	f.c.kill(ErrLost, ErrLost)
}

func set[V any](f *Faults, m *map[int]V, n int, v V) {
	f.c.link.mu.Lock()
	defer f.c.link.mu.Unlock()
	if *m == nil {
		*m = make(map[int]V)
	}
	(*m)[n] = v
}

func orInjected(err error) error {
	if err == nil {
		return ErrInjected
	}
	return err
}
