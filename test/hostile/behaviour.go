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

// A Behaviour is one kind of attack: the actions of hostile peers. Its fields have the number of
// peers and their means.
type Behaviour interface {
	// String describes the peers' actions in words.
	String() string
	// Start starts the peers and returns at once. They go on until ctx ends.
	Start(ctx context.Context, target Target) *Attack
}

// A Target is a daemon and the addresses that hostile peers come from.
type Target struct {
	TCP, RDMA netip.AddrPort
	// Source returns the address of the peer with a number.
	Source func(i int) netip.Addr
}

// comeBack is the time after which a peer that the daemon sent away comes again.
const comeBack = time.Second

// An Attack is hostile peers at work.
type Attack struct {
	// Peers is the number of peers. Standing is the number of peers that hold now what they came
	// for. Refused counts the times that the daemon sent a peer away before that, Ended the times
	// that it did so afterwards.
	Peers                    int
	Standing, Refused, Ended atomic.Int64

	source func(i int) netip.Addr
	over   bool         // its Stage has ended it
	begun  atomic.Int64 // peers that stood, or were refused, for the first time
	work   sync.WaitGroup

	mu    sync.Mutex
	fault error // of this machine
	last  error // the daemon's last answer to a peer that it sent away
}

// A peer runs one hostile peer: it connects, acts, and returns the reason why that ended. It
// calls stands when it holds what it came for.
type peer func(ctx context.Context, i int, stands func()) error

// attack starts n peers. A peer that the daemon sends away comes again.
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

// ofThisMachine reports whether err is a limit of the machine that the peers run on, and not the
// daemon's answer.
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

// settled is the time after which Await returns if no further peer stands or is refused; standing
// is the longest time that Await waits in all.
const (
	settled  = 2 * time.Second
	standing = 10 * time.Second
)

// Await waits until each peer stands or was refused once. It gives up when nothing has changed
// for the time settled, because the daemon may keep peers waiting. It fails if this machine could
// not carry the attack.
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

// Wait waits until nothing of the attack runs any more. The end of the attack's context ends the
// attack.
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
