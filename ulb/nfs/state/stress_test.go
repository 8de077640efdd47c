package state

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A lockedClaimer is a Claimer of one file that many goroutines may use.
type lockedClaimer struct {
	mu   sync.Mutex
	held vfs.Claims
	busy atomic.Bool
}

func (c *lockedClaimer) Claim(_ vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	if c.busy.Swap(true) {
		panic("two at once")
	}
	defer c.busy.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held.Set(start, length, mode)
}

func (c *lockedClaimer) TestClaim(vfs.Handle, uint64, uint64, vfs.ClaimMode) (found vfs.Claimed, ok bool, err error) {
	return found, false, nil
}

func (c *lockedClaimer) DropClaims(vfs.Handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = vfs.Claims{}
}

// While one owner has a write lock on a byte, no other owner has a lock on it, however
// many goroutines lock, unlock, come and go.
func TestNoTwoHoldTheSame(t *testing.T) {
	m := newManager(t)
	claimer := &lockedClaimer{}
	var count openCount
	var writers, readers [8]atomic.Int64 // the number of holders of each byte
	var granted atomic.Int64
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for life := range 5 {
				c := newClient(m, 1, fmt.Sprintf("client %d %d", i, life))
				stress(t, m, c, claimer, &count, rng, &writers, &readers, &granted)
				m.removeNow(c)
			}
		})
	}
	wg.Wait()
	givenUp(m)
	nothingLeft(t, m)
	if granted.Load() < 32*5 {
		t.Errorf("only %d locks were granted", granted.Load())
	}
	if n := count.n.Load(); n != 0 || !claimer.held.None() || len(m.files.claims) != 0 {
		t.Errorf("%d files are open, %+v is claimed", n, &claimer.held)
	}
}

func stress(t *testing.T, m *Manager, c *Client, claimer vfs.Claimer, count *openCount, rng *rand.Rand, writers, readers *[8]atomic.Int64, granted *atomic.Int64) {
	key := fileKey(1)
	for range 40 {
		f := count.open()
		o, s := m.Open(&OpenArgs{Client: c, OwnerName: []byte("owner"), Key: key, Access: AccessBoth, File: f})
		if s != ok {
			f.Close()
			continue
		}
		start := rng.IntN(8)
		n := rng.IntN(8-start) + 1
		write := rng.IntN(2) == 0
		id, _, s := m.Lock(&LockArgs{
			Ref: Ref{ID: o.ID, Client: c, Key: key}, New: true, OwnerName: []byte("locker"),
			Offset: uint64(start), Length: uint64(n), Write: write, Claimer: claimer,
		})
		switch s {
		case ok:
			granted.Add(1)
			hold(t, writers[start:start+n], readers[start:start+n], write)
			if rng.IntN(3) == 0 {
				break // the CLOSE unlocks it
			}
			if _, s := m.Unlock(&Ref{ID: id, Client: c, Key: key}, uint64(start), uint64(n), claimer, false); s != ok {
				t.Error(s)
			}
		case LockConflict:
		default:
			t.Error(s)
		}
		if rng.IntN(3) > 0 { // else the open ends with its client, or a later OPEN repeats it
			if _, s := m.CloseOpen(&Ref{ID: o.ID, Client: c, Key: key}, false); s != ok {
				t.Error(s)
			}
		}
	}
}

// hold counts a lock for a moment, and fails the test if another owner holds a conflicting lock.
func hold(t *testing.T, writers, readers []atomic.Int64, write bool) {
	mine := readers
	if write {
		mine = writers
	}
	for i := range mine {
		mine[i].Add(1)
	}
	runtime.Gosched()
	for i := range mine {
		if w, r := writers[i].Load(), readers[i].Load(); w > 1 || w == 1 && r > 0 {
			t.Errorf("%d writers and %d readers", w, r)
		}
	}
	for i := range mine {
		mine[i].Add(-1)
	}
}
