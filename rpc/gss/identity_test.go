package gss_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/gsstest"
)

// A directory looks up the users of principals. A test can make it slow, or make it fail.
type directory struct {
	mu    sync.Mutex
	uid   uint32
	known bool
	fails error
	asked atomic.Int64
	slow  chan struct{} // if not nil, a look-up waits until it is closed
}

func (d *directory) set(uid uint32, known bool, slow chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.uid, d.known, d.slow = uid, known, slow
}

// fail makes the directory fail with err, or work again if err is nil.
func (d *directory) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = err
}

func (d *directory) identify(string) (uid, gid uint32, groups []uint32, ok bool, err error) {
	d.asked.Add(1)
	d.mu.Lock()
	uid, known, slow, fails := d.uid, d.known, d.slow, d.fails
	d.mu.Unlock()
	if slow != nil {
		<-slow
	}
	return uid, 100, nil, known, fails
}

// The server looks up a principal's numbers when it makes a context, and again in the background of
// later calls. These calls do not wait, and use the old numbers.
func TestIdentitiesAreRefreshedBehindCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &directory{uid: 1000, known: true}
		s := newSite(t, gss.Config{Identify: d.identify})
		s.mech.Life = 5 * time.Hour
		var uid uint32
		var anonymous bool
		s.program.Judging = func(a *rpc.Arrived, _ *rpc.Judgement) rpc.Outcome {
			uid, anonymous = a.Cred.UID, a.Cred.Anonymous
			return rpc.Done
		}
		r := s.establish(s.wire(), s.mech)
		seq := uint32(0)
		calls := func(what string, want uint32, asked int64) {
			t.Helper()
			seq++
			if err := answer(r.call(r.ctx, r.data(seq, 1), put(tag))); err != nil || uid != want || anonymous != (want == rpc.NobodyID) {
				t.Errorf("%s: user %d, anonymous %v, %v", what, uid, anonymous, err)
			}
			synctest.Wait()
			if n := d.asked.Load(); n != asked {
				t.Errorf("%s: asked %d times, want %d", what, n, asked)
			}
		}
		calls("at first", 1000, 1)
		time.Sleep(9 * time.Minute)
		calls("while it is fresh", 1000, 1)
		slow := make(chan struct{})
		d.set(2000, true, slow)
		time.Sleep(2 * time.Minute)
		calls("when it is old", 1000, 2)
		calls("while it is asked for", 1000, 2)
		d.set(2000, true, nil)
		close(slow)
		synctest.Wait()
		calls("afterwards", 2000, 2)

		d.set(0, false, nil)
		s.gss.Refresh()
		synctest.Wait()
		calls("when it is known to nobody", rpc.NobodyID, 3)
		d.set(3000, true, nil)
		time.Sleep(31 * time.Second)
		calls("half a minute later", rpc.NobodyID, 4)
		calls("when it is known again", 3000, 4)
	})
}

// The server looks up the numbers of idle contexts again, even without calls, and at once after
// Refresh.
func TestIdentitiesOfIdleContextsAreRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &directory{uid: 1000, known: true}
		s := newSite(t, gss.Config{Identify: d.identify})
		s.mech.Life = 5 * time.Hour
		var uid uint32
		s.program.Judging = func(a *rpc.Arrived, _ *rpc.Judgement) rpc.Outcome {
			uid = a.Cred.UID
			return rpc.Done
		}
		r := s.establish(s.wire(), s.mech)
		seq := uint32(0)
		is := func(what string, want uint32) {
			t.Helper()
			seq++
			if err := answer(r.call(r.ctx, r.data(seq, 1), put(tag))); err != nil || uid != want {
				t.Errorf("%s: user %d, %v, want %d", what, uid, err, want)
			}
			synctest.Wait()
		}
		is("at first", 1000)
		d.set(2000, true, nil)
		time.Sleep(12 * time.Minute)
		is("after a while without calls", 2000)
		d.set(3000, true, nil)
		s.gss.Refresh()
		synctest.Wait()
		is("after a change", 3000)
		d.fail(errors.New("the directory is away"))
		s.gss.Refresh()
		synctest.Wait()
		is("while nobody can tell", 3000)
	})
}

// If a principal makes many contexts at once, the server looks it up once, even if the directory is
// slow. Other principals do not wait for that. The number of principals in the cache is bounded.
func TestPrincipalsAreAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &directory{uid: 1000, known: true, slow: make(chan struct{})}
		s := newSite(t, gss.Config{Identify: func(p string) (uid, gid uint32, groups []uint32, ok bool, err error) {
			if p == "user@TEST" {
				return d.identify(p)
			}
			return 2000, 100, nil, true, nil
		}})
		var wg sync.WaitGroup
		for i := range 50 {
			w := s.wireFrom(address(i))
			wg.Go(func() { s.establish(w, s.mech) })
		}
		synctest.Wait()
		if n := d.asked.Load(); n != 1 {
			t.Errorf("asked %d times at once", n)
		}
		other := gsstest.New()
		other.Name = "other@TEST"
		s.establish(s.wire(), other)
		close(d.slow)
		d.set(1000, true, nil)
		wg.Wait()
		for range 50 {
			s.establish(s.wire(), s.mech)
		}
		if n := d.asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		for i := range 3 * gss.MaxRemembered / 2 {
			s.gss.Identify(fmt.Sprint(i))
		}
		if n := s.gss.Remembered(); n > gss.MaxRemembered {
			t.Errorf("%d principals are remembered", n)
		}
	})
}

// The number of principals in the cache is bounded, and at the bound the cache keeps half of them: those
// whose numbers are not outdated, if they are not more than half.
func TestHalfOfThePrincipalsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(map[string]int)
		var mu sync.Mutex
		s := newSite(t, gss.Config{Identify: func(p string) (uid, gid uint32, groups []uint32, ok bool, err error) {
			mu.Lock()
			defer mu.Unlock()
			asked[p]++
			return 1000, 100, nil, true, nil
		}})
		const most = gss.MaxRemembered
		remember := func(kind string, n int) {
			for i := range n {
				s.gss.Identify(fmt.Sprint(kind, i))
			}
		}
		is := func(what string, want int) {
			t.Helper()
			if n := s.gss.Remembered(); n != want {
				t.Errorf("%s: %d principals are remembered, want %d", what, n, want)
			}
		}
		remember("a", most)
		is("at the bound", most)
		remember("b", 1)
		is("one beyond", most/2+1)
		remember("c", most/2-1)
		is("at the bound again", most)
		time.Sleep(11 * time.Minute) // all are outdated
		remember("d", 1)
		is("one beyond, and the others are outdated", 1)
		remember("e", most/2)
		time.Sleep(6 * time.Minute)
		remember("f", most/2-1)
		is("at the bound, half are older", most)
		time.Sleep(5 * time.Minute) // of e and d all are outdated, of f none
		remember("g", 1)
		is("one beyond, and half are outdated", most/2)
		clear(asked)
		remember("f", most/2-1)
		if len(asked) != 0 {
			t.Errorf("%d principals were forgotten in the place of outdated ones", len(asked))
		}
	})
}

// callers makes calls under one context, and records the credentials that the program gets.
type callers struct {
	*raw
	cred rpc.Cred
	seq  uint32
}

func newCallers(s *site) *callers {
	c := new(callers)
	s.program.Judging = func(a *rpc.Arrived, _ *rpc.Judgement) rpc.Outcome {
		c.cred = rpc.Cred{UID: a.Cred.UID, Anonymous: a.Cred.Anonymous, Unsure: a.Cred.Unsure}
		return rpc.Done
	}
	c.raw = s.establish(s.wire(), s.mech)
	return c
}

// want makes a call and checks the user number in its credential. If uid is 0, rpc.Cred.Unsure must
// be set.
func (c *callers) want(t *testing.T, what string, uid uint32) {
	t.Helper()
	c.seq++
	err := answer(c.call(c.ctx, c.data(c.seq, 1), put(tag)))
	unsure := uid == 0
	if unsure {
		uid = rpc.NobodyID
	}
	if err != nil || c.cred.UID != uid || c.cred.Unsure != unsure || c.cred.Anonymous != (uid == rpc.NobodyID) {
		t.Errorf("%s: user %d, anonymous %v, unsure %v, %v", what, c.cred.UID, c.cred.Anonymous, c.cred.Unsure, err)
	}
	synctest.Wait()
}

// If the directory does not answer while a context is made, rpc.Cred.Unsure is set for the caller,
// not only Anonymous. As soon as the directory answers, the program gets the right user number.
func TestDirectoryThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		d := &directory{uid: 1000, known: true, slow: slow}
		s := newSite(t, gss.Config{Identify: d.identify})
		s.mech.Life = 5 * time.Hour
		begun := time.Now()
		c := newCallers(s)
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("the context was made after %v", took)
		}
		if n := s.gss.Stats().Refused[gss.Unidentified]; n != 1 {
			t.Errorf("told of %d callers that cannot be identified", n)
		}
		c.want(t, "while it stalls", 0)
		c.want(t, "while it stalls", 0)
		if n := d.asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		close(slow)
		synctest.Wait()
		c.want(t, "when it answers", 1000)
	})
}

// The server repeats a failed look-up after some seconds. The last result is used for an hour.
func TestDirectoryThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &directory{uid: 1000, known: true, fails: errors.New("out of order")}
		s := newSite(t, gss.Config{Identify: d.identify})
		s.mech.Life = 5 * time.Hour
		c := newCallers(s)
		c.want(t, "from the start", 0)
		d.fail(nil)
		c.want(t, "at once again", 0)
		if n := d.asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		time.Sleep(6 * time.Second)
		c.want(t, "some seconds later", 0) // the look-up runs in the background of this call
		c.want(t, "then", 1000)

		d.fail(errors.New("out of order again"))
		for range 5 {
			time.Sleep(11 * time.Minute)
			c.want(t, "when the answer is old", 1000)
			c.want(t, "then", 1000)
		}
		again := newCallers(s)
		again.want(t, "by another context", 1000)
		time.Sleep(11 * time.Minute)
		again.want(t, "after an hour", 0)
		d.fail(nil)
		time.Sleep(6 * time.Second)
		again.want(t, "when it is asked", 0)
		again.want(t, "when it answers again", 1000)
	})
}

// If a directory does not answer, the number of look-ups that wait for it is bounded.
func TestManyPrincipalsOfADirectoryThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &directory{uid: 1000, known: true, slow: make(chan struct{})}
		s := newSite(t, gss.Config{Identify: d.identify})
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() { s.gss.Identify(fmt.Sprint(i)) })
		}
		wg.Wait()
		if n := d.asked.Load(); n != gss.MaxAsking {
			t.Errorf("asked about %d at once", n)
		}
		close(d.slow)
		synctest.Wait()
		time.Sleep(6 * time.Second)
		d.set(1000, true, nil)
		for i := range 1000 {
			s.gss.Identify(fmt.Sprint(i))
		}
		if n := d.asked.Load(); n != 1000 {
			t.Errorf("asked about %d of 1000 when it answers", n)
		}
	})
}

// Close waits for running look-ups.
func TestCloseWaitsForTheDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &directory{uid: 1000, known: true}
		s := newSite(t, gss.Config{Identify: d.identify})
		r := s.establish(s.wire(), s.mech)
		slow := make(chan struct{})
		d.set(1000, true, slow)
		s.gss.Refresh()
		if err := answer(r.call(r.ctx, r.data(1, 1), put(tag))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		closed := make(chan struct{})
		go func() {
			s.gss.Close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("it does not")
		default:
		}
		close(slow)
		<-closed
	})
}
