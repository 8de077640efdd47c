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

// A Behaviour is what hostile peers of one kind do. Its fields say how many
// peers there are and with what they come.
type Behaviour interface {
	// String says in words what the peers do.
	String() string
	// Start lets the peers begin and returns at once. They go on until ctx
	// ends.
	Start(ctx context.Context, target Target) *Attack
}

// A Target is a daemon and the addresses that hostile peers come from.
type Target struct {
	TCP, RDMA netip.AddrPort
	// Source is the address of the peer with a number.
	Source func(i int) netip.Addr
}

// comeBack is how long a peer waits that the daemon sent away before it comes
// again.
const comeBack = time.Second

// An Attack is hostile peers at work.
type Attack struct {
	// Peers is how many there are. Standing is how many of them hold now what
	// they came for. Refused is how often the daemon sent one away before
	// that, Ended how often afterwards.
	Peers                    int
	Standing, Refused, Ended atomic.Int64

	begun atomic.Int64 // peers that stood, or were refused, for the first time
	work  sync.WaitGroup

	mu    sync.Mutex
	fault error // of this machine
	last  error // the daemon's last answer to a peer that it did not keep
}

// A peer is one hostile peer: it comes, does what it does, and returns why that
// ended. It calls stands when it holds what it came for.
type peer func(ctx context.Context, i int, stands func()) error

// attack starts n peers. Those that the daemon sends away come again.
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
			return // it has done what it came for
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

// ofThisMachine says that err is a limit of the machine that the peers run on,
// not the daemon's answer.
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

// How long Await waits while no further peer stands or is refused, and at all.
const (
	settled  = 2 * time.Second
	standing = 10 * time.Second
)

// Await waits until each peer stands or was refused once, or nothing changes any
// more: what the daemon leaves waiting is not waited for. It fails where this
// machine could not carry the attack.
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

// Wait returns when nothing of the attack runs any more, which the end of its
// context brings about.
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
