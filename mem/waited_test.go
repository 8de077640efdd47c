package mem

import (
	"testing"
	"testing/synctest"
	"time"
)

// The sum of the times of many requests that wait for long does not overflow.
func TestLongWaitsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{}
		p.countWaitLocked()
		p.waiting = 1_000_000
		const year = 365 * 24 * time.Hour
		time.Sleep(year)
		p.countWaitLocked()
		if want := 1e6 * year.Seconds(); p.waitedFor != want {
			t.Errorf("requests have waited for %v s, want %v", p.waitedFor, want)
		}
	})
}

// Stats says how long requests have waited together, those that still wait included.
func TestWaitsForMemoryAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewPool(Config{Ceiling: ceilingOf(8 * mib)})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		share := p.NewShare()
		defer share.Close()
		waited := func(want float64) {
			t.Helper()
			if got := p.Stats().WaitedFor; got != want {
				t.Errorf("requests have waited for %v s, want %v", got, want)
			}
		}
		var held []*Buffer
		for {
			b, ok := share.TryGet(mib)
			if !ok {
				break
			}
			held = append(held, b)
		}
		time.Sleep(time.Second)
		waited(0)
		first, second := newWish("first", mib, nil), newWish("second", mib, nil)
		share.Get(&first.Request)
		time.Sleep(time.Second)
		share.Get(&second.Request)
		time.Sleep(time.Second)
		waited(3)
		for _, b := range held {
			b.Release()
		}
		first.want(t, 1, nil)
		second.want(t, 1, nil)
		time.Sleep(time.Second)
		waited(3)
		first.buffer.Release()
		second.buffer.Release()
	})
}
