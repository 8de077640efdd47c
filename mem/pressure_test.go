package mem

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A peer is a Holder that a test controls.
type peer struct {
	name  string
	rate  uint64 // bytes that it moves in a second
	began time.Time
	works bool // its memory does not wait for the peer
	share *Share
	log   *ended
	keeps bool // it keeps its memory after it was told to end
	told  atomic.Int32

	mu   sync.Mutex
	held []*Buffer
	gone bool
}

// ended records the peers that were told to end, in order, and the times.
type ended struct {
	sync.Mutex
	names []string
	after []time.Duration
}

func (l *ended) all() []string {
	l.Lock()
	defer l.Unlock()
	return slices.Clone(l.names)
}

func (c *peer) Progress() (uint64, bool) {
	return uint64(time.Since(c.began).Seconds() * float64(c.rate)), !c.works
}

func (c *peer) End(why error) {
	if !errors.Is(why, ErrNoProgress) {
		panic(why)
	}
	c.log.Lock()
	c.log.names = append(c.log.names, c.name)
	c.log.after = append(c.log.after, time.Since(c.began))
	c.log.Unlock()
	c.told.Add(1)
	if !c.keeps {
		c.leave()
	}
}

func (c *peer) leave() {
	c.share.Close()
	c.mu.Lock()
	held := c.held
	c.held, c.gone = nil, true
	c.mu.Unlock()
	release(held)
}

// want asks for a block of 1 MiB.
func (c *peer) want(g *Group) {
	c.share.Get(&Request{Size: mib, Group: g, Granted: func(_ *Request, b *Buffer, err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.gone && err == nil {
			b.Release()
		} else if err == nil {
			c.held = append(c.held, b)
		}
	}})
}

// connect opens a share for a peer. The part of its name before a dash is its client, by its address
// if it is one.
func (l *ended) connect(p *Pool, name string, rate uint64) *peer {
	c := &peer{name: name, rate: rate, began: time.Now(), log: l}
	client := name
	for i := range name {
		if name[i] == '-' {
			client = name[:i]
		}
	}
	var key any = client
	if a, err := netip.ParseAddr(client); err == nil {
		key = a
	}
	c.share = p.OpenShare(key, c)
	return c
}

// take gives the peer n blocks of 1 MiB.
func (c *peer) take(t *testing.T, g *Group, n int) *peer {
	t.Helper()
	for range n {
		c.want(g)
	}
	if len(c.held) < n {
		t.Fatalf("%s has %d blocks, want %d", c.name, len(c.held), n)
	}
	return c
}

// pressed runs a test of a pool with a main zone of 16 MiB under testing/synctest.
func pressed(t *testing.T, f func(t *testing.T, p *Pool, l *ended)) {
	synctest.Test(t, func(t *testing.T) {
		f(t, newPool(t, 16*mib, 16*mib), &ended{})
	})
}

// While no request waits, a peer may take any time to move its data. While one waits, the pool ends
// peers that make no progress, within seconds, the largest holders first, by client, then by share,
// until there is enough memory. It does not end peers that move the data in their memory.
func TestPeerWithoutProgressIsEnded(t *testing.T) {
	pressed(t, func(t *testing.T, p *Pool, l *ended) {
		small := l.connect(p, "small", 0).take(t, nil, 2)
		two := l.connect(p, "two-a", 0).take(t, nil, 2)
		more := l.connect(p, "two-b", 0).take(t, nil, 3)
		good := l.connect(p, "good", 2*mib).take(t, nil, 9)
		time.Sleep(time.Hour)
		if names := l.all(); len(names) > 0 {
			t.Fatalf("%v were ended though no request waited", names)
		}
		began := time.Now()
		w := ask(p.OpenShare("honest", nil), nil, "honest", 4*mib, nil)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if want, names := []string{"two-b", "two-a"}, l.all(); !slices.Equal(names, want) {
			t.Fatalf("ended: %v, want %v", names, want)
		}
		w.want(t, 1, nil)
		for _, at := range l.after {
			if d := at - time.Hour; d < 2*time.Second || d > 4*time.Second {
				t.Errorf("ended %v after the request came (%v)", d, time.Since(began))
			}
		}
		if two.told.Load() != 1 || more.told.Load() != 1 || p.Stats().Ended != 2 {
			t.Errorf("told %d and %d times: %+v", two.told.Load(), more.told.Load(), p.Stats())
		}
		w.buffer.Release()
		small.leave()
		good.leave()
	})
}

// A peer that moves its data too slowly makes no progress: it must move all within 8 s, or at 1 MiB
// a second.
func TestTrickleIsNoProgress(t *testing.T) {
	for _, c := range []struct {
		held  int // MiB
		rate  uint64
		ended bool
	}{
		{1, 1, true}, {1, mib/8 - 2000, true}, {1, mib/8 + 2000, false},
		{15, mib - 2000, true}, {15, mib + 2000, false},
	} {
		pressed(t, func(t *testing.T, p *Pool, l *ended) {
			a := l.connect(p, "a", c.rate).take(t, nil, c.held)
			rest := l.connect(p, "rest", 16*mib).take(t, nil, 16-c.held)
			w := ask(p.OpenShare("honest", nil), nil, "honest", mib, nil)
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if got := len(l.all()) == 1; got != c.ended {
				t.Errorf("with %d MiB, a peer that moves %d bytes a second: ended %v", c.held, c.rate, got)
			}
			a.leave()
			rest.leave()
			drain(t, p, []*wish{w})
		})
	}
}

// A peer that has just got its memory has time to move its data.
func TestClockStartsWhenMemoryIsHeld(t *testing.T) {
	pressed(t, func(t *testing.T, p *Pool, l *ended) {
		stuck := l.connect(p, "stuck", 0).take(t, nil, 14)
		stuck.works = true
		late := l.connect(p, "late", 1000).take(t, nil, 1)
		release(late.held)
		late.held = nil
		rest := p.NewShare()
		held, _ := rest.TryGet(2 * mib)
		waits := ask(p.OpenShare("waits", nil), nil, "waits", 16*mib, nil) // memory is short all the time
		small, _ := late.share.TryGet(PageSize)
		time.Sleep(10 * time.Second)
		if names := l.all(); len(names) > 0 {
			t.Fatalf("%v were ended", names)
		}
		if !waits.cancel(p) {
			t.Fatal("Cancel fails")
		}
		held.Release()
		late.take(t, nil, 2)
		waits = ask(p.OpenShare("waits", nil), nil, "waits", mib, nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if names := l.all(); len(names) > 0 {
			t.Errorf("%v were ended within 2 s", names)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if names := l.all(); !slices.Equal(names, []string{"late"}) {
			t.Errorf("ended: %v", names)
		}
		small.Release()
		stuck.leave()
		drain(t, p, []*wish{waits})
	})
}

func (w *wish) cancel(p *Pool) bool { return w.waiter.share.Cancel(&w.Request) }

// The pool ends a peer only if that helps. A peer is not ended for memory that a file system or an
// executor keeps. Nor is it ended for a request of its own, or for a request in a file system of
// whose memory the peer holds nothing.
func TestPoolEndsNoPeerInVain(t *testing.T) {
	t.Run("the peer is not waited for", func(t *testing.T) {
		pressed(t, func(t *testing.T, p *Pool, l *ended) {
			a := l.connect(p, "a", 0).take(t, nil, 16)
			a.works = true
			w := ask(p.OpenShare("honest", nil), nil, "honest", mib, nil)
			time.Sleep(time.Minute)
			if names := l.all(); len(names) > 0 {
				t.Errorf("%v were ended", names)
			}
			a.leave()
			drain(t, p, []*wish{w})
		})
	})
	t.Run("it waits itself", func(t *testing.T) {
		pressed(t, func(t *testing.T, p *Pool, l *ended) {
			a := l.connect(p, "a", 0).take(t, nil, 16)
			w := ask(a.share, nil, "a", mib, nil)
			time.Sleep(time.Minute)
			if names := l.all(); len(names) > 0 {
				t.Errorf("%v were ended", names)
			}
			a.leave()
			drain(t, p, []*wish{w})
		})
	})
	t.Run("others wait for their file system", func(t *testing.T) {
		pressed(t, func(t *testing.T, p *Pool, l *ended) {
			stalled, other := p.NewGroup(), p.NewGroup()
			a := l.connect(p, "a", 0).take(t, stalled, 6)
			l.connect(p, "b", 0).take(t, stalled, 2)
			a.works = true
			c := l.connect(p, "c", 0).take(t, other, 4)
			w := ask(p.OpenShare("honest", nil), stalled, "honest", mib, nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			if names := l.all(); !slices.Equal(names, []string{"b"}) {
				t.Errorf("ended: %v, want b, which holds something of the group", names)
			}
			a.leave()
			c.leave()
			drain(t, p, []*wish{w})
		})
	})
	t.Run("requests wait for moments", func(t *testing.T) {
		pressed(t, func(t *testing.T, p *Pool, l *ended) {
			a := l.connect(p, "a", 0).take(t, nil, 15)
			s := p.OpenShare("honest", nil)
			for range 100 {
				one, two := ask(s, nil, "one", mib, nil), ask(p.OpenShare("other", nil), nil, "two", mib, nil)
				time.Sleep(300 * time.Millisecond)
				one.buffer.Release()
				time.Sleep(300 * time.Millisecond)
				two.buffer.Release()
			}
			if names := l.all(); len(names) > 0 {
				t.Errorf("%v were ended", names)
			}
			a.leave()
		})
	})
}

// The pool tells a share to end only once, even if its memory does not come back. After a while it
// ends other shares instead.
func TestEachIsToldOnce(t *testing.T) {
	pressed(t, func(t *testing.T, p *Pool, l *ended) {
		a, b := l.connect(p, "a", 0).take(t, nil, 9), l.connect(p, "b", 0).take(t, nil, 7)
		a.keeps = true
		w := ask(p.OpenShare("honest", nil), nil, "honest", mib, nil)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if names := l.all(); !slices.Equal(names, []string{"a"}) {
			t.Fatalf("ended: %v", names)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if a.told.Load() != 1 || b.told.Load() != 1 {
			t.Errorf("told %d and %d times", a.told.Load(), b.told.Load())
		}
		w.want(t, 1, nil)
		w.buffer.Release()
		a.leave()
	})
}

// Charges beyond their account are pressure, too. The pool ends peers that have charges, and none that
// have only payload memory.
func TestOverdrawnChargesArePressure(t *testing.T) {
	pressed(t, func(t *testing.T, p *Pool, l *ended) {
		a, b, c := l.connect(p, "a", 0), l.connect(p, "b", 0), l.connect(p, "c", 0).take(t, nil, 6)
		a.share.Charge(5 * mib)
		b.share.Charge(4 * mib)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		a.share.Discharge(5 * mib)
		time.Sleep(10 * time.Second)
		if names := l.all(); !slices.Equal(names, []string{"a"}) {
			t.Errorf("ended: %v", names)
		}
		b.share.Discharge(4 * mib)
		c.leave()
	})
}

// If 256 connections of peers that are not known take all the memory of a default pool and keep it,
// of one address or of as many, an honest client still gets 1 MiB within 4 s.
func TestStrangersHoldMemoryForSeconds(t *testing.T) {
	for _, addresses := range []int{1, 256} {
		synctest.Test(t, func(t *testing.T) {
			p, l := configured(t, Config{Ceiling: 256 * mib, Share: 128 * mib}), &ended{}
			var peers []*peer
			for i := range 256 {
				c := l.connect(p, fmt.Sprint("stranger", i%addresses, "-", i), 1)
				peers = append(peers, c)
				for range 8 {
					c.want(nil)
				}
			}
			time.Sleep(time.Minute)
			began := time.Now()
			got := make(chan *Buffer, 1)
			p.OpenShare("honest", nil).Get(&Request{Size: mib, Granted: func(_ *Request, b *Buffer, err error) { got <- b }})
			b := <-got
			if d := time.Since(began); d > 4*time.Second {
				t.Errorf("%d addresses: an honest client waited %v", addresses, d)
			}
			b.Release()
			for _, c := range peers {
				c.leave()
			}
			synctest.Wait()
		})
	}
}

// When the pressure is over, no timer is left.
func TestNothingIsSweptWithoutPressure(t *testing.T) {
	pressed(t, func(t *testing.T, p *Pool, l *ended) {
		held, _ := p.NewShare().TryGet(16 * mib)
		w := ask(p.NewShare(), nil, "w", mib, nil)
		time.Sleep(time.Second)
		held.Release()
		w.want(t, 1, nil)
		time.Sleep(time.Second)
		p.mu.Lock()
		if p.sweeper != nil || p.pressed.Load() {
			t.Error("the pool still looks for pressure")
		}
		p.mu.Unlock()
		w.buffer.Release()
	})
}

// The pool distinguishes the connections of one address: it ends a connection whose peer is stuck,
// for a request of another connection of that address.
func TestStuckBesideItsOwnClient(t *testing.T) {
	pressed(t, func(t *testing.T, p *Pool, l *ended) {
		a := l.connect(p, "a-1", 0).take(t, nil, 16)
		w := ask(l.connect(p, "a-2", 0).share, nil, "a", mib, nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if names := l.all(); !slices.Equal(names, []string{"a-1"}) {
			t.Errorf("ended: %v, want a-1", names)
		}
		a.leave()
		drain(t, p, []*wish{w})
	})
}

// A client that pinned memory, and does the same again within a minute, is served after clients
// that did not, and is ended sooner.
func TestBlame(t *testing.T) {
	pressed(t, func(t *testing.T, p *Pool, l *ended) {
		first := l.connect(p, "bad-1", 0).take(t, nil, 16)
		honest := p.OpenShare("honest", nil)
		w := ask(honest, nil, "honest", mib, nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		first.leave()
		synctest.Wait()
		w.buffer.Release()

		// The client takes all memory again, and asks for more. The honest client asks later.
		second := l.connect(p, "bad-2", 0).take(t, nil, 16)
		third := l.connect(p, "bad-3", 0)
		var order []string
		large := ask(p.OpenShare("other", nil), nil, "other", 16*mib, &order)
		more := ask(third.share, nil, "bad", mib, &order)
		w = ask(honest, nil, "honest", mib, &order)
		began := time.Now()
		for len(l.all()) < 2 && time.Since(began) < 10*time.Second {
			time.Sleep(100 * time.Millisecond)
		}
		if d := time.Since(began); d > 2500*time.Millisecond {
			t.Errorf("it was ended after %v", d)
		}
		second.leave()
		synctest.Wait()
		drain(t, p, []*wish{large, w, more})
		third.leave()
		if !slices.Equal(order, []string{"other", "honest", "bad"}) {
			t.Errorf("they had their turns as %v", order)
		}
		time.Sleep(2 * time.Minute)
	})
}

// A blame that is over when memory is short again has no effect, although no tick has ended it.
func TestBlameEndsBetweenShortages(t *testing.T) {
	pressed(t, func(t *testing.T, p *Pool, l *ended) {
		first := l.connect(p, "bad-1", 0).take(t, nil, 16)
		honest := p.OpenShare("honest", nil)
		w := ask(honest, nil, "honest", mib, nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		first.leave()
		synctest.Wait()
		w.buffer.Release()
		if len(l.all()) == 0 {
			t.Fatal("no peer is ended")
		}
		time.Sleep(2 * blameFor)
		hog := l.connect(p, "hog", 100*mib).take(t, nil, 16)
		again := l.connect(p, "bad-2", 0)
		var order []string
		waiting := []*wish{
			ask(p.OpenShare("other", nil), nil, "other", mib, &order),
			ask(again.share, nil, "bad", mib, &order),
			ask(honest, nil, "honest", mib, &order),
		}
		hog.leave()
		synctest.Wait()
		drain(t, p, waiting)
		again.leave()
		if want := []string{"other", "bad", "honest"}; !slices.Equal(order, want) {
			t.Errorf("they had their turns as %v, want %v", order, want)
		}
	})
}
