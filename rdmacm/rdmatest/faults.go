package rdmatest

import "errors"

// When tells whether a fault strikes before or after the effect of a work request.
type When uint8

const (
	// Before means that the work request has no effect at the peer.
	Before When = iota + 1
	// After means that the work request has its effect at the peer, but its chain does not
	// complete successfully.
	After
)

// ErrLost is the reason for the end of a connection that an injected fault has ended.
var ErrLost = errors.New("rdmatest: connection lost")

// ErrInjected is the error of an injected fault, if the test gave none.
var ErrInjected = errors.New("rdmatest: injected fault")

// Faults holds the faults that a test injects at one end of a connection. A fault names a
// chain, a work request or a call by its number, counted from 0 over the life of the
// connection. If that number has passed already, the fault never happens. The methods may be
// called at any time from any goroutine.
type Faults struct {
	c *Conn

	// link.mu guards the fields below.
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

// LoseAt ends the connection, for both sides, before or after the effect of a work request. work
// is the number of the work request.
func (f *Faults) LoseAt(work int, when When) { set(f, &f.lose, work, when) }

// FailWork makes a work request fail without an effect, as a faulty device would: Done of its
// chain gets err, and the connection ends. work is the number of the work request.
func (f *Faults) FailWork(work int, err error) { set(f, &f.failWork, work, orInjected(err)) }

// FailPost makes the device refuse a chain. chain is its number. Its Done gets err and index 0,
// after Done of the chains before it. None of its work is carried out. The connection continues.
func (f *Faults) FailPost(chain int, err error) { set(f, &f.failPost, chain, orInjected(err)) }

// FailRegister makes a call of Register fail. call is the number of the call.
func (f *Faults) FailRegister(call int, err error) { set(f, &f.failRegister, call, orInjected(err)) }

// FailDeregister makes a call of Deregister fail. call is the number of the call, counted over
// all regions of the connection. The peer keeps its access until the connection ends.
func (f *Faults) FailDeregister(call int, err error) {
	set(f, &f.failDeregister, call, orInjected(err))
}

// DelayDone delays Done of a chain, and so Done of the chains after it, until the test calls
// release. chain is the number of the chain. Its work is carried out. If the connection ends
// before release is called, Done gets ErrFlushed.
func (f *Faults) DelayDone(chain int) (release func()) {
	set(f, &f.delayDone, chain, true)
	return func() {
		f.c.link.mu.Lock()
		defer f.c.link.mu.Unlock()
		delete(f.delayDone, chain)
		f.c.events.Broadcast()
	}
}

// HoldReads leaves the RDMA Reads that are posted from now on unanswered until the test calls
// release. Meanwhile the work posted after them is carried out, as on some devices. The order of
// the calls of Done does not change, so Done of later chains waits for the Reads.
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

// ReorderWrites makes the device carry out RDMA Writes in reverse order from now on, but before
// the Send that follows them. RFC 5040 §5.5 promises no more order than that.
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
