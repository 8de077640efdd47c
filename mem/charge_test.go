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
	p.grantLocked()
	p.watchLocked()
	p.deliverAndUnlock()
}

// Discharge ends a charge of n bytes.
func (s *Share) Discharge(n int) { s.Charge(-n) }

// Charged returns the number of bytes charged.
func (s *Share) Charged() int64 {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.heap
}

// Charged bytes take the place of payload memory. When they are discharged, waiting requests get
// that memory.
func TestChargesCountAgainstTheCeiling(t *testing.T) {
	p := newPool(t, 8*mib, 8*mib)
	s, other := p.OpenShare("a", nil), p.NewShare()
	s.Charge(5*mib + 1)
	if n := s.Charged(); n != 5*mib+1 {
		t.Errorf("%d bytes are charged", n)
	}
	if st := p.Stats(); st.Charged != 5*mib+1 || st.Pressed {
		t.Errorf("%+v", st)
	}
	held, ok := other.TryGet(3*mib - PageSize)
	if !ok {
		t.Fatal("no memory beside what is charged")
	}
	w := ask(other, nil, "w", mib, nil)
	w.want(t, 0, nil)
	small := ask(other, nil, "small", PageSize, nil) // the reserve is not overdrawn
	small.want(t, 1, nil)
	small.buffer.Release()
	audited(t, p)
	s.Discharge(mib)
	w.want(t, 1, nil)
	w.buffer.Release()
	held.Release()
	s.Close()
	s.Discharge(2 * mib) // charges may be discharged after Close
	s.Discharge(2*mib + 1)
	if st := p.Stats(); st.Charged != 0 || st.Clients != 0 {
		t.Errorf("%+v", st)
	}
}

// A client may keep half of the memory that the others leave, counted over all its shares; beyond
// that each of its connections has two calls under way.
func TestClientsLeaveRoomForCharges(t *testing.T) {
	p := newPool(t, 8*mib, 8*mib)
	a, again, b, c := p.OpenShare("a", nil), p.OpenShare("a", nil), p.OpenShare("b", nil), p.OpenShare("c", nil)
	want := func(s *Share, full bool) {
		t.Helper()
		if s.Full(100) != full || s.Full(2) != full || s.Full(1) {
			t.Errorf("with %d bytes charged to it, of %d: %v, %v and %v", s.Charged(), p.Stats().Charged, s.Full(100), s.Full(2), s.Full(1))
		}
	}
	a.Charge(3 * mib)
	want(a, false)
	half := int(p.total()) * PageSize / 2
	again.Charge(half - 3*mib + 1)
	want(a, true)
	want(again, true)
	want(b, false)
	b.Charge(half / 2)
	want(b, true)
	c.Charge(mib - 1)
	want(c, false)
	a.Discharge(3 * mib)
	want(a, false)
	want(b, false)
	for _, s := range []*Share{a, again, b, c} {
		s.Discharge(int(s.Charged()))
	}
}

// Charges count towards the fair part that a client may have while others wait.
func TestChargesCountInTheFairPart(t *testing.T) {
	p := newPool(t, 8*mib, 8*mib)
	hog, a, b := p.NewShare(), p.OpenShare("a", nil), p.OpenShare("b", nil)
	var held []*Buffer
	for range 5 {
		m, _ := hog.TryGet(mib)
		held = append(held, m)
	}
	a.Charge(3 * mib) // all of its fair part
	var log []string
	var waiting []*wish
	for range 3 {
		waiting = append(waiting, ask(a, nil, "a", mib, &log), ask(b, nil, "b", mib, &log))
	}
	// a's first request was next before b's came.
	for i, want := range []string{"a", "b", "b", "b"} {
		if held[i].Release(); len(log) != i+1 || log[i] != want {
			t.Fatalf("granted to %v, want %s in the end", log, want)
		}
	}
	held[4].Release()
	a.Discharge(3 * mib)
	drain(t, p, waiting)
}

// Pressed reports that charges exceed the ceiling, or that a request waits for memory that others
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
		held, _ = a.TryGet(4 * mib)
		a.Charge(6 * mib)
		pressed(true, "charges overdraw")
		a.Discharge(1 * mib)
		pressed(false, "they do not")
		a.Charge(2 * mib)
		pressed(true, "again")
		held.Release()
		pressed(false, "payload memory made room")
		a.Discharge(7 * mib)
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
