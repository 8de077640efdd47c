package mem

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// If the first request in a share's queue is cancelled, the next one is served.
func TestCancelOfShareHeadLetsTheNextIn(t *testing.T) {
	p := newPool(t, 8*mib, 2*mib)
	s := p.NewShare()
	held, _ := s.TryGet(mib)
	large, small := newWish("large", 2*mib, nil), newWish("small", mib, nil)
	s.Get(&large.Request)
	s.Get(&small.Request)
	small.want(t, 0, nil)
	if !s.Cancel(&large.Request) {
		t.Fatal("Cancel fails")
	}
	small.want(t, 1, nil)
	small.buffer.Release()
	held.Release()
}

// A share's requests are answered in the order of Get, even if Get itself can answer one while
// answers to earlier requests are still to be delivered.
func TestGetDoesNotOvertakeAnswersOwed(t *testing.T) {
	p := newPool(t, 4*mib, 4*mib)
	s := p.NewShare()
	held, _ := s.TryGet(4 * mib)
	var log []string
	second, third := newWish("second", mib, &log), newWish("third", mib, &log)
	first := &Request{Size: mib, Granted: func(_ *Request, b *Buffer, err error) {
		log = append(log, "first")
		s.Get(&third.Request)
		b.Release()
	}}
	s.Get(first)
	s.Get(&second.Request)
	held.Release()
	if !slices.Equal(log, []string{"first", "second", "third"}) {
		t.Fatal(log)
	}
	second.buffer.Release()
	third.buffer.Release()
}

// A request that found no pages, because Trim had them, gets them when Trim ends.
func TestTrimServesRequestsThatCameMeanwhile(t *testing.T) {
	p := newPool(t, 4*mib, 4*mib)
	w := newWish("w", 4*mib, nil)
	p.mu.Lock()
	e := extent{0, trimPages}
	p.main.fence(e)
	p.mu.Unlock()
	p.NewShare().Get(&w.Request)
	w.want(t, 0, nil)
	p.mu.Lock()
	p.main.unfence(e)
	p.mu.Unlock()
	p.Trim()
	w.want(t, 1, nil)
	w.buffer.Release()
}

// OnArena shows the arena to a device only when no Trim is at work.
func TestOnArenaWaitsForTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewPool(Config{Ceiling: MinCeiling})
		if err != nil {
			t.Fatal(err)
		}
		p.trimming = true
		shown := make(chan struct{})
		go func() {
			if err := p.OnArena(func([]byte) error { close(shown); return nil }); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		select {
		case <-shown:
			t.Fatal("shown during a Trim")
		default:
		}
		p.mu.Lock()
		p.trimming = false
		p.trimDone.Broadcast()
		p.mu.Unlock()
		<-shown
		p.pinned = 0
		p.Close()
	})
}

func TestPeakIsTheMostAtAnyTime(t *testing.T) {
	p := newPool(t, 8*mib, 8*mib)
	s := p.NewShare()
	for _, size := range []int{mib, 3 * mib, PageSize} {
		b, _ := s.TryGet(size)
		b.Release()
	}
	if st := p.Stats(); st.Peak != 3*mib || st.InUse != 0 {
		t.Fatalf("%+v", st)
	}
}

// A goroutine that releases memory calls Granted a limited number of times; another goroutine
// delivers the further grants.
func TestReleaseIsNotKeptForLong(t *testing.T) {
	p := newPool(t, 4*mib, 4*mib)
	all, _ := p.NewShare().TryGet(4 * mib)
	returned, waited := make(chan struct{}), make(chan bool, 1)
	var waiting []*wish
	calls := 0
	for range deliveries + 1 {
		w := newWish("w", large1, nil)
		granted := w.Granted
		w.Granted = func(r *Request, b *Buffer, err error) {
			if granted(r, b, err); calls == deliveries {
				select {
				case <-returned:
					waited <- true
				case <-time.After(20 * time.Second):
					waited <- false
				}
			}
			calls++
		}
		waiting = append(waiting, w)
		p.NewShare().Get(&w.Request)
	}
	all.Release()
	close(returned)
	if !<-waited {
		t.Error("Release called Granted for all")
	}
	drain(t, p, waiting)
}
