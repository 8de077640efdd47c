package hostile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Behaviour is one kind of attack by hostile peers. The fields of the types that implement it
// set the number of peers and the size of the attack.
type Behaviour interface {
	// String describes the peers' actions in words.
	String() string
	// Start starts the peers and returns at once. They continue until ctx ends.
	Start(ctx context.Context, target Target) *Attack
}

// A Target has the addresses of the daemon under attack, and the addresses that hostile peers
// connect from.
type Target struct {
	TCP, RDMA netip.AddrPort
	// Source returns the local address of peer number i.
	Source func(i int) netip.Addr
}

// comeBack is the time that a peer waits before it connects again, after the daemon has refused
// it or ended its connection.
const comeBack = time.Second

// An Attack counts what the hostile peers of one Behaviour achieve while they run.
type Attack struct {
	// Peers is the number of peers. Standing is the number of peers that now have what they
	// connected for, for example a connection or a call under way. Refused counts the attempts that
	// failed before the peer had that, Ended the attempts that failed later. Failures of this
	// machine are not counted.
	Peers                    int
	Standing, Refused, Ended atomic.Int64

	source func(i int) netip.Addr
	over   bool         // true if the Stage has ended the attack
	begun  atomic.Int64 // number of peers that have called stands, or were refused, at least once
	work   sync.WaitGroup

	mu    sync.Mutex
	fault error // an error of this machine, for example no free port
	last  error // the error of the last attempt that the daemon ended
}

// A peer runs one hostile peer: it connects, attacks, and returns the error that ended its
// connection, or nil if it has finished. It calls stands when it has what it connected for:
// Attack.Standing then counts it.
type peer func(ctx context.Context, i int, stands func()) error

// attack starts n peers. A peer that the daemon refuses or disconnects connects again after
// comeBack.
func attack(ctx context.Context, n int, p peer) *Attack {
	a := &Attack{Peers: n}
	for i := range n {
		a.work.Go(func() { a.run(ctx, i, p) })
	}
	return a
}

func (a *Attack) run(ctx context.Context, i int, p peer) {
	var once sync.Once
	begun := func() { once.Do(func() { a.begun.Add(1) }) }
	defer begun()
	for ctx.Err() == nil {
		stood := false
		err := p(ctx, i, func() {
			stood = true
			a.Standing.Add(1)
			begun()
		})
		if stood {
			a.Standing.Add(-1)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			return // the peer has finished
		case ofThisMachine(err):
			a.mu.Lock()
			a.fault = fmt.Errorf("peer %d: %w", i, err)
			a.mu.Unlock()
			return
		case stood:
			a.Ended.Add(1)
		default:
			a.Refused.Add(1)
		}
		a.mu.Lock()
		a.last = err
		a.mu.Unlock()
		begun()
		wait(ctx, comeBack)
	}
}

// ofThisMachine reports whether err comes from a limit of the machine that the peers run on, and
// not from the daemon.
func ofThisMachine(err error) bool {
	for _, e := range []error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// settled and standing limit Await. Await returns when, for the time settled, no further peer has
// called stands or was refused, and at the latest after the time standing.
const (
	settled  = 2 * time.Second
	standing = 10 * time.Second
)

// Await waits until each peer stands or was refused once. It gives up when nothing has changed
// for the time settled, because the daemon may leave peers without an answer. It returns an error
// if a limit of this machine stopped a peer.
func (a *Attack) Await() error {
	ctx, cancel := context.WithTimeout(context.Background(), standing)
	defer cancel()
	changed, before := time.Now(), int64(0)
	for ctx.Err() == nil && time.Since(changed) < settled {
		n := a.begun.Load()
		if n == int64(a.Peers) {
			break
		}
		if n != before {
			changed, before = time.Now(), n
		}
		wait(ctx, 5*time.Millisecond)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fault
}

// Wait waits until all peers have returned. The caller ends the attack first, by the context that
// Start got.
func (a *Attack) Wait() { a.work.Wait() }

func (a *Attack) String() string {
	a.mu.Lock()
	last := a.last
	a.mu.Unlock()
	text := fmt.Sprintf("%d peers: %d stand, %d times refused, %d times ended",
		a.Peers, a.Standing.Load(), a.Refused.Load(), a.Ended.Load())
	if last != nil {
		text += fmt.Sprintf(", the last time: %v", last)
	}
	return text
}

// wait waits for d or the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
