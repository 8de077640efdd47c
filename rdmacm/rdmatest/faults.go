package rdmatest

import "errors"

// When says on which side of a work request's effect a fault strikes.
type When uint8

const (
	// Before: the work request had no effect at the peer.
	Before When = iota + 1
	// After: the peer saw the effect, this side does not learn of it.
	After
)

// ErrLost is how a connection ends that a fault lost.
var ErrLost = errors.New("rdmatest: connection lost")

// ErrInjected is what fails where a test gave no error of its own.
var ErrInjected = errors.New("rdmatest: injected fault")

// Faults is the script of what goes wrong on one side of a connection. Numbers
// count from 0 over the life of the connection; a fault whose number is past
// never strikes. Its methods may be called at any time from any goroutine.
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

// Posted tells how many chains and work requests were posted so far: the
// numbers of the next.
func (f *Faults) Posted() (chains, works int) {
	f.c.link.mu.Lock()
	defer f.c.link.mu.Unlock()
	return f.c.chains, f.c.works
}

// LoseAt ends the connection, for both sides, at work request number work.
func (f *Faults) LoseAt(work int, when When) { set(f, &f.lose, work, when) }

// FailWork lets work request number work fail without an effect, as a fault of
// the device would: its chain comes back with err and the connection ends.
func (f *Faults) FailWork(work int, err error) { set(f, &f.failWork, work, orInjected(err)) }

// FailPost refuses chain number chain: it comes back, in order, with err and
// index 0, and nothing of it was done. The connection lives.
func (f *Faults) FailPost(chain int, err error) { set(f, &f.failPost, chain, orInjected(err)) }

// FailRegister lets call number call of Register fail.
func (f *Faults) FailRegister(call int, err error) { set(f, &f.failRegister, call, orInjected(err)) }

// FailDeregister lets call number call of Deregister, over all regions of the
// connection, fail: the peer keeps its access until the connection ends.
func (f *Faults) FailDeregister(call int, err error) {
	set(f, &f.failDeregister, call, orInjected(err))
}

// DelayDone keeps chain number chain, and with it those behind it, from coming
// back until release is called or the connection ends. Its work is carried
// out. After the end it comes back as flushed.
func (f *Faults) DelayDone(chain int) (release func()) {
	set(f, &f.delayDone, chain, true)
	return func() {
		f.c.link.mu.Lock()
		defer f.c.link.mu.Unlock()
		delete(f.delayDone, chain)
		f.c.events.Broadcast()
	}
}

// HoldReads leaves RDMA Reads posted from now on unanswered until release is
// called. Work behind them is carried out meanwhile, as a device may do; it
// comes back in order, behind them.
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

// ReorderWrites places RDMA Writes last first from now on, but always before
// the Send behind them is delivered: all that RFC 5040 §5.5 promises.
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
