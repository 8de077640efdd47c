package mem

import (
	"slices"
	"sync"
	"testing"
)

// A request whose group is at its limit delays no request of another group, not even of its own
// share, and its share is not charged meanwhile.
func TestGroupAtItsLimitDelaysOnlyItsOwnRequests(t *testing.T) {
	p := newPool(t, 8*mib, 6*mib)
	g, other := p.NewGroup(), p.NewGroup()
	a, b := p.NewShare(), p.NewShare()
	held, ok := a.TryGetIn(g, 4*mib)
	if !ok {
		t.Fatal("no memory")
	}
	if _, ok := b.TryGetIn(g, large1); ok {
		t.Fatal("beyond the group's limit")
	}
	var log []string
	large, small, last := newWish("large", 2*mib, &log), newWish("small", mib, &log), newWish("last", large1, &log)
	for _, w := range []*wish{large, small, last} {
		w.Group = g
	}
	a.Get(&large.Request)
	b.Get(&small.Request)
	a.Get(&last.Request)
	if n := a.InUse(); n != 4*mib {
		t.Errorf("a share holds %d bytes", n)
	}
	// Twice, for another group and for no group: share a has room for 2 MiB.
	for _, in := range []*Group{other, nil} {
		for _, s := range []*Share{a, b} {
			m, ok := s.TryGetIn(in, 2*mib)
			if !ok {
				t.Fatal("held up by another group")
			}
			m.Release()
		}
	}
	large.want(t, 0, nil)
	held.Release()
	if !slices.Equal(log, []string{"large", "small", "last"}) {
		t.Fatal(log)
	}
	if n := g.InUse(); n != 3*mib+large1 {
		t.Errorf("the group holds %d bytes", n)
	}
	for _, w := range []*wish{large, small, last} {
		w.buffer.Release()
	}
	if !g.Idle() {
		t.Error("the group is not idle")
	}
}

// A request that waits for its share is not charged to its group. So a share that is full because
// of one group takes no memory away from another group.
func TestFullShareHoldsNothingOfAGroup(t *testing.T) {
	p := newPool(t, 16*mib, 4*mib)
	stalled, g := p.NewGroup(), p.NewGroup()
	a, b := p.NewShare(), p.NewShare()
	held, _ := a.TryGetIn(stalled, 4*mib)
	var waiting []*wish
	for range 8 {
		w := newWish("w", mib, nil)
		w.Group = g
		waiting = append(waiting, w)
		a.Get(&w.Request)
	}
	m, ok := b.TryGetIn(g, 4*mib)
	if !ok {
		t.Fatal("requests that wait for another share are charged to the group")
	}
	held.Release()
	m.Release()
	for i := range waiting {
		waiting[i].want(t, 1, nil)
		waiting[i].buffer.Release()
	}
}

// A request that waited for its share, and then has to wait for its group, is served before later
// requests of that group.
func TestRequestKeepsItsPlaceByAge(t *testing.T) {
	p := configured(t, Config{Ceiling: 16 * mib, Share: 4 * mib, Group: 4 * mib})
	g := p.NewGroup()
	a, b := p.NewShare(), p.NewShare()
	full, _ := a.TryGet(4 * mib)
	var log []string
	first, second, third := newWish("first", 2*mib, &log), newWish("second", 4*mib, &log), newWish("third", mib, &log)
	for _, w := range []*wish{first, second, third} {
		w.Group = g
	}
	a.Get(&first.Request) // waits for the limit of a
	busy, _ := b.TryGetIn(g, 3*mib)
	b.Get(&second.Request) // waits for the limit of g
	b.Get(&third.Request)  // would fit, but waits behind second
	full.Release()         // first now waits for the limit of g
	if len(log) != 0 {
		t.Fatal(log)
	}
	busy.Release()
	first.want(t, 1, nil)
	second.want(t, 0, nil)
	first.buffer.Release()
	second.want(t, 1, nil)
	second.buffer.Release()
	third.want(t, 1, nil)
	third.buffer.Release()
}

// A request larger than the group's limit is granted alone.
func TestRequestLargerThanItsGroup(t *testing.T) {
	p := configured(t, Config{Ceiling: 16 * mib, Share: 8 * mib, Group: mib})
	g, s := p.NewGroup(), p.NewShare()
	held, _ := s.TryGetIn(g, large1)
	w := newWish("w", 4*mib, nil)
	w.Group = g
	s.Get(&w.Request)
	w.want(t, 0, nil)
	held.Release()
	w.want(t, 1, nil)
	if _, ok := s.TryGetIn(g, large1); ok {
		t.Error("the group lets another in")
	}
	w.buffer.Release()
}

// Cancel and Close also remove requests that wait for their group. The next requests of the group
// are then served.
func TestCancelAndCloseInAGroup(t *testing.T) {
	p := newPool(t, 8*mib, 6*mib)
	g := p.NewGroup()
	a, b := p.NewShare(), p.NewShare()
	held, _ := a.TryGetIn(g, 3*mib)
	wish := func(s *Share, size int) *wish {
		w := newWish("w", size, nil)
		w.Group = g
		s.Get(&w.Request)
		return w
	}
	head, next := wish(a, 3*mib), wish(b, PageSize)
	if !a.Cancel(&head.Request) {
		t.Fatal("Cancel fails")
	}
	head.want(t, 0, nil)
	next.want(t, 1, nil)
	next.buffer.Release()
	head, next = wish(a, 2*mib), wish(b, PageSize)
	a.Close()
	head.want(t, 1, ErrClosed)
	next.want(t, 1, nil)
	next.buffer.Release()
	last := wish(b, 4*mib)
	if p.crowded.Len != 1 {
		t.Errorf("%d groups are crowded", p.crowded.Len)
	}
	p.Close()
	last.want(t, 1, ErrClosed)
	if p.crowded.Len != 0 {
		t.Errorf("%d groups are crowded", p.crowded.Len)
	}
	if n := g.InUse(); n != 3*mib {
		t.Errorf("the group holds %d bytes", n)
	}
	held.Release()
}

// Closing a share gives back what its waiting requests were charged to their group.
func TestCloseGivesBackToGroups(t *testing.T) {
	p := newPool(t, 4*mib, 4*mib)
	g := p.NewGroup()
	hog, a, b := p.NewShare(), p.NewShare(), p.NewShare()
	held, _ := hog.TryGet(4 * mib)
	w, behind := newWish("w", 2*mib, nil), newWish("behind", mib, nil)
	w.Group, behind.Group = g, g
	a.Get(&w.Request)
	b.Get(&behind.Request)
	a.Close()
	w.want(t, 1, ErrClosed)
	held.Release()
	behind.want(t, 1, nil)
	behind.buffer.Release()
	if !g.Idle() {
		t.Error("the group is not idle")
	}
}

func TestGroupOfAnotherPool(t *testing.T) {
	p, q := newPool(t, 4*mib, 0), newPool(t, 4*mib, 0)
	defer func() {
		if recover() == nil {
			t.Error("accepted")
		}
	}()
	w := newWish("w", 1, nil)
	w.Group = q.NewGroup()
	p.NewShare().Get(&w.Request)
}

func TestGetInAGroupDoesNotAllocate(t *testing.T) {
	p := newPool(t, 16*mib, 16*mib)
	s, g := p.NewShare(), p.NewGroup()
	r := &Request{Size: mib, Group: g, Granted: func(_ *Request, b *Buffer, err error) { b.Release() }}
	for name, size := range map[string]int{"at once": 0, "through the group's queue": 8 * mib} {
		if n := testing.AllocsPerRun(1000, func() {
			b, _ := s.TryGetIn(g, size)
			s.Get(r)
			b.Release()
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// LimitGroups lowers the limit for later requests of groups, and never raises it again.
func TestLimitGroups(t *testing.T) {
	p, err := NewPool(Config{Ceiling: 8 * mib, Share: 8 * mib, Group: 8 * mib})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, g := p.NewShare(), p.NewGroup()
	defer s.Close()
	first, ok := s.TryGetIn(g, 4*mib)
	if !ok {
		t.Fatal("no memory in a group without a limit")
	}
	p.LimitGroups(4 * mib)
	p.LimitGroups(8 * mib)
	p.LimitGroups(8 << 40) // more pages than an int32 holds
	if _, ok := s.TryGetIn(g, mib); ok {
		t.Error("a group at its limit got more")
	}
	if b, ok := s.TryGetIn(p.NewGroup(), mib); !ok {
		t.Error("another group got nothing")
	} else {
		b.Release()
	}
	first.Release()
	if b, ok := s.TryGetIn(g, mib); !ok {
		t.Error("a group that gave all back got nothing")
	} else {
		b.Release()
	}
}

// If many goroutines make requests by all combinations of shares and groups, every request is
// served, and the limits hold.
func TestStressInGroups(t *testing.T) {
	p := newPool(t, 8*mib, 3*mib)
	groups := []*Group{p.NewGroup(), p.NewGroup(), nil}
	shares := []*Share{p.NewShare(), p.NewShare(), p.NewShare()}
	var all sync.WaitGroup
	for w := range 18 {
		s, g := shares[w%3], groups[w/3%3]
		all.Go(func() {
			answer := make(chan *Buffer, 1)
			r := &Request{Group: g, Granted: func(_ *Request, b *Buffer, err error) {
				if err != nil {
					t.Error(err)
				}
				answer <- b
			}}
			for i := range 300 {
				r.Size = 1 + (i*7919+w*104729)%(2*mib)
				s.Get(r)
				if i%5 == 0 && s.Cancel(r) {
					continue
				}
				b := <-answer
				if g != nil && g.InUse() > 5*mib { // its limit, and all of the reserve
					t.Errorf("a group holds %d bytes", g.InUse())
				}
				b.Release()
			}
		})
	}
	all.Wait()
	for _, g := range groups[:2] {
		if !g.Idle() {
			t.Error("a group is not idle")
		}
	}
}
