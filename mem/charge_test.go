package mem

import (
	"testing"
	"testing/synctest"
	"time"
)

// Charge charges n bytes to the share, as a Ledger does.
func (s *Share) Charge(n int) {
	p := s.pool
	p.mu.Lock()
	s.chargeHeapLocked(int64(n))
	p.watchLocked()
	p.mu.Unlock()
}

// Discharge ends a charge of n bytes.
func (s *Share) Discharge(n int) { s.Charge(-n) }

// Charged returns the number of bytes charged.
func (s *Share) Charged() int64 {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.heap
}

// Charges delay no request. Otherwise calls that wait for memory could hold what they wait for, and
// wait for ever.
func TestChargesDelayNoRequest(t *testing.T) {
	p := newPool(t, 8*mib, 8*mib)
	s, other := p.OpenShare("a", nil), p.NewShare()
	s.Charge(100*mib + 1)
	if n := s.Charged(); n != 100*mib+1 {
		t.Errorf("%d bytes are charged", n)
	}
	if st := p.Stats(); st.Charged != 100*mib+1 || !st.Pressed {
		t.Errorf("%+v", st)
	}
	held, ok := other.TryGet(8 * mib)
	if !ok {
		t.Fatal("no memory beside what is charged")
	}
	w := ask(s, nil, "w", 8*mib, nil)
	w.want(t, 0, nil)
	audited(t, p)
	held.Release()
	w.want(t, 1, nil)
	w.buffer.Release()
	s.Close()
	s.Discharge(2 * mib) // charges may be discharged after Close
	s.Discharge(98*mib + 1)
	if st := p.Stats(); st.Charged != 0 || st.Clients != 0 || st.Pressed {
		t.Errorf("%+v", st)
	}
}

// A client may keep half of that part of the account for charges that the others leave, counted over
// all its shares; beyond that each of its connections has LeastCalls calls under way.
func TestClientsLeaveRoomForCharges(t *testing.T) {
	p := newPool(t, 31*mib, 0)
	a, again, b, c := p.OpenShare("a", nil), p.OpenShare("a", nil), p.OpenShare("b", nil), p.OpenShare("c", nil)
	want := func(s *Share, full bool) {
		t.Helper()
		if s.Full(100) != full || s.Full(LeastCalls) != full || s.Full(LeastCalls-1) {
			t.Errorf("with %d bytes charged to it, of %d: %v, %v and %v", s.Charged(), p.Stats().Charged, s.Full(100), s.Full(LeastCalls), s.Full(LeastCalls-1))
		}
	}
	a.Charge(3 * mib)
	want(a, false)
	again.Charge(int(p.chargesOf())*3/4 - 3*mib)
	want(a, true)
	want(again, true)
	want(b, false)
	b.Charge(mib)
	want(b, false)
	c.Charge(int(p.chargesOf())/4 - mib)
	want(b, true) // nothing is left
	want(c, true)
	a.Discharge(mib)
	want(a, true) // of what the others leave, it has more than three quarters
	want(b, false)
	want(c, false)
	again.Discharge(mib)
	want(a, false)
	for _, s := range []*Share{a, again, b, c} {
		s.Discharge(int(s.Charged()))
	}
}

// Pressed reports that charges exceed their account, or that a request waits for memory that others
// hold. It does not count a request that waits for its own share or file system.
func TestPressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 8*mib, 4*mib)
		g := p.NewGroup()
		a, b := p.NewShare(), p.NewShare()
		pressed := func(want bool, when string) {
			t.Helper()
			if got := p.Pressed(); got != want || p.Stats().Pressed != want {
				t.Errorf("%s: %v", when, got)
			}
		}
		pressed(false, "at first")
		held, _ := a.TryGetIn(g, 4*mib)
		ofShare, ofGroup := ask(a, nil, "of the share", mib, nil), ask(b, g, "of the group", mib, nil)
		pressed(false, "a share and a group at their limits")
		rest, _ := b.TryGet(4 * mib)
		w := ask(p.NewShare(), nil, "of the pool", mib, nil)
		pressed(true, "a request waits for memory")
		time.Sleep(10 * time.Second)
		rest.Release()
		pressed(false, "it was granted")
		w.buffer.Release()
		held.Release()
		drain(t, p, []*wish{ofShare, ofGroup})
		a.Charge(int(p.chargesOf()) + 1)
		pressed(true, "charges overdraw")
		a.Discharge(1)
		pressed(false, "they do not")
		a.Discharge(int(p.chargesOf()))
	})
}

// While heap is charged, the pool returns free resident pages to the system, so that both
// together stay within the ceiling.
func TestChargesPushFreePagesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 64*mib, 64*mib)
		ordinaryPages(t, p)
		s := p.NewShare()
		b, _ := s.TryGet(60 * mib)
		touch(b)
		b.Release()
		keep, _ := s.TryGet(8 * mib)
		touch(keep)
		s.Charge(40 * mib)
		time.Sleep(time.Second)
		synctest.Wait()
		ceiling := ceilingOf(64 * mib)
		if n := resident(t, p); n+40*mib > ceiling || n < 8*mib {
			t.Errorf("%d bytes are resident beside 40 MiB that are charged, of %d", n, ceiling)
		}
		s.Charge(10 * mib) // Housekeep does it, too
		if p.Housekeep(); resident(t, p)+50*mib > ceiling {
			t.Errorf("%d bytes are resident beside 50 MiB that are charged", resident(t, p))
		}
		s.Discharge(50 * mib)
		keep.Release()
	})
}

func TestChargeDoesNotAllocate(t *testing.T) {
	p := newPool(t, 8*mib, 0)
	s := p.OpenShare("a", nil)
	if n := testing.AllocsPerRun(1000, func() {
		s.Charge(100)
		s.Discharge(100)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
