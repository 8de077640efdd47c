package mem

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// ask requests memory of s, and returns the wish, which is granted or waits.
func ask(s *Share, g *Group, name string, size int, log *[]string) *wish {
	w := newWish(name, size, log)
	w.Group = g
	s.Get(&w.Request)
	return w
}

// fill takes the main zone in blocks of this size, as far as possible for separate clients, in
// the given groups or in none.
func fill(t testing.TB, p *Pool, size int, in ...*Group) (held []*Buffer) {
	t.Helper()
	if len(in) == 0 {
		in = []*Group{nil}
	}
	for _, g := range in {
		for {
			b, ok := p.NewShare().TryGetIn(g, size)
			if !ok || b.page >= p.main.total {
				if ok {
					b.Release()
				}
				break
			}
			held = append(held, b)
		}
	}
	return held
}

func release(held []*Buffer) {
	for _, b := range held {
		b.Release()
	}
}

// A client that asks for one block does not wait for all earlier requests of another client: it
// is served after one request of each client that waits.
func TestClientsTakeTurns(t *testing.T) {
	p := newPool(t, 8*mib, 8*mib)
	held := fill(t, p, mib)
	var log []string
	var waiting []*wish
	hog := []*Share{p.OpenShare("hog", nil), p.OpenShare("hog", nil), p.OpenShare("hog", nil)}
	for i := range 600 {
		waiting = append(waiting, ask(hog[i%3], nil, "hog", mib, &log))
	}
	for _, who := range []string{"a", "b"} {
		waiting = append(waiting, ask(p.OpenShare(who, nil), nil, who, mib, &log))
	}
	for range 3 {
		held[0].Release()
		held = held[1:]
	}
	if want := []string{"hog", "a", "b"}; !slices.Equal(log, want) {
		t.Errorf("granted to %v, want %v", log, want)
	}
	audited(t, p)
	release(held)
	drain(t, p, waiting)
}

// Sites take turns, in a group and among groups: a site gains nothing by many addresses that wait.
func TestSitesTakeTurns(t *testing.T) {
	for _, size := range []int{mib, PageSize} {
		for _, groups := range []int{1, 2} {
			p := configured(t, Config{Ceiling: 64 * mib, Group: 64 * mib})
			in := []*Group{p.NewGroup(), p.NewGroup()}
			held := fill(t, p, mib)
			var reserved []*Buffer
			for pages := smallPages; pages > 0; {
				if b, ok := p.NewShare().TryGet(pages * PageSize); ok {
					reserved = append(reserved, b)
				} else {
					pages--
				}
			}
			var log []string
			var waiting []*wish
			for i := range 64 {
				waiting = append(waiting, ask(p.OpenShare(site(1, 1+i), nil), in[0], "many", size, &log))
			}
			for range 4 {
				waiting = append(waiting, ask(p.OpenShare(site(2, 1), nil), in[groups-1], "one", size, &log))
			}
			for ; len(log) < 8; held = held[1:] {
				held[0].Release()
				delivered(t, p)
			}
			one := 0
			for _, name := range log[:8] {
				if name == "one" {
					one++
				}
			}
			if one != 4 {
				t.Errorf("%d bytes, %d groups: granted to %v", size, groups, log[:8])
			}
			audited(t, p)
			release(append(held, reserved...))
			drain(t, p, waiting)
		}
	}
}

// Sites whose connections end after each request gain no turn in their group before a site in another one.
func TestSitesThatComeAgainKeepTheirTurn(t *testing.T) {
	p := configured(t, Config{Ceiling: 64 * mib, Group: 64 * mib})
	stays, again := p.NewGroup(), p.NewGroup()
	held := fill(t, p, mib)
	var log []string
	waiting := []*wish{ask(p.OpenShare("first", nil), nil, "first", mib, &log)}
	for range 16 {
		waiting = append(waiting, ask(p.OpenShare(site(1, 1), nil), stays, "stays", mib, &log))
	}
	var shares [3]*Share
	var asked [3]*wish
	come := func(i int) {
		shares[i] = p.OpenShare(site(2+i, 1), nil)
		asked[i] = ask(shares[i], again, "comes again", mib, &log)
	}
	for i := range shares {
		come(i)
	}
	for i := 0; len(log) < 16; i = (i + 1) % len(shares) {
		for ; asked[i].calls == 0 && len(held) > 0; held = held[1:] {
			held[0].Release()
		}
		asked[i].want(t, 1, nil)
		asked[i].buffer.Release()
		shares[i].Close()
		come(i)
	}
	stayed := 0
	for _, name := range log[:16] {
		if name == "stays" {
			stayed++
		}
	}
	if stayed < 4 {
		t.Errorf("granted to %v", log)
	}
	audited(t, p)
	release(held)
	drain(t, p, append(waiting, asked[:]...))
}

// drain releases the memory of granted requests until all requests were granted.
func drain(t testing.TB, p *Pool, waiting []*wish) {
	t.Helper()
	for len(waiting) > 0 {
		delivered(t, p)
		kept := waiting[:0]
		for _, w := range waiting {
			if w.calls == 1 && w.err == nil {
				w.buffer.Release()
			} else if w.calls == 0 {
				kept = append(kept, w)
			}
		}
		if len(kept) == len(waiting) {
			t.Fatalf("%d requests wait for ever: %+v", len(kept), p.Stats())
		}
		waiting = kept
	}
}

// The shares of a client are served in turn, and the requests of a share in the order of Get.
func TestSharesOfAClientTakeTurns(t *testing.T) {
	p := newPool(t, 4*mib, 4*mib)
	held := fill(t, p, mib)
	var log []string
	var waiting []*wish
	one, two := p.OpenShare("c", nil), p.OpenShare("c", nil)
	for i := range 3 {
		waiting = append(waiting, ask(one, nil, fmt.Sprint("one", i), mib, &log))
	}
	for i := range 2 {
		waiting = append(waiting, ask(two, nil, fmt.Sprint("two", i), mib, &log))
	}
	release(held)
	if want := []string{"one0", "two0", "one1", "two1"}; !slices.Equal(log, want) {
		t.Errorf("granted to %v, want %v", log, want)
	}
	drain(t, p, waiting)
}

// Clients take turns in a group that is at its limit, too.
func TestClientsTakeTurnsInAGroup(t *testing.T) {
	p := newPool(t, 16*mib, 16*mib)
	g := p.NewGroup()
	var log []string
	var held []*Buffer
	s := p.NewShare()
	for range 8 {
		b, ok := s.TryGetIn(g, mib)
		if !ok {
			t.Fatal("no memory")
		}
		held = append(held, b)
	}
	var waiting []*wish
	hog := p.OpenShare("hog", nil)
	for range 100 {
		waiting = append(waiting, ask(hog, g, "hog", mib, &log))
	}
	waiting = append(waiting, ask(p.OpenShare("a", nil), g, "a", mib, &log))
	held[0].Release()
	held[1].Release()
	if want := []string{"hog", "a"}; !slices.Equal(log, want) {
		t.Errorf("granted to %v, want %v", log, want)
	}
	release(held[2:])
	drain(t, p, waiting)
}

// While another client waits, a client that has more than its part gets nothing more.
func TestClientsKeepToTheirFairPart(t *testing.T) {
	p := configured(t, Config{Ceiling: 16 * mib, Share: 16 * mib})
	a, b := p.OpenShare(site(1, 1), nil), p.OpenShare(site(2, 1), nil)
	held := take(p, nil, 16, site(1, 1))
	part := p.main.total / 3 // two clients have a part, and one is for the next
	if a.client.pages <= part || len(held) != int(a.client.pages)*PageSize/mib {
		t.Fatalf("a client that is alone has %d pages, and later its part is %d", a.client.pages, part)
	}
	var log []string
	var waiting []*wish
	for range 20 {
		waiting = append(waiting, ask(a, nil, "a", mib, &log), ask(b, nil, "b", mib, &log))
	}
	for _, m := range held {
		told := len(log)
		m.Release()
		delivered(t, p)
		if slices.Contains(log[told:], "a") && a.client.pages > part {
			t.Errorf("a has %d pages and gets more, and its part is %d", a.client.pages, part)
		}
	}
	if n := a.client.pages - b.client.pages; n < -mib/PageSize || n > mib/PageSize {
		t.Errorf("a has %d pages, and b %d", a.client.pages, b.client.pages)
	}
	drain(t, p, waiting)
}

// A client whose requests in one group exceed its fair part does not starve in another group while
// others go on asking: its memory in one group does not count in the other.
func TestHoldingInOneGroupDoesNotCostTheTurnInAnother(t *testing.T) {
	p := configured(t, Config{Ceiling: 32 * mib, Share: 32 * mib})
	stalled, g := p.NewGroup(), p.NewGroup()
	a, b := p.OpenShare("a", nil), p.OpenShare("b", nil)
	var held []*Buffer
	for { // a's file system stalls
		m, ok := a.TryGetIn(stalled, mib)
		if !ok {
			break
		}
		held = append(held, m)
	}
	if len(held) < 8 {
		t.Fatalf("the group has %d blocks only", len(held))
	}
	var busy []*Buffer
	for {
		m, ok := b.TryGetIn(g, mib)
		if !ok {
			break
		}
		busy = append(busy, m)
	}
	waiting := []*wish{ask(b, g, "b", mib, nil), ask(b, g, "b", mib, nil), ask(a, g, "a", mib, nil)}
	release(busy[:2])
	waiting[2].want(t, 1, nil)
	release(busy[2:])
	drain(t, p, waiting)
	release(held)
}

// For any sizes of large requests, no client is served three times while another one within its
// fair part waits.
func TestNoClientIsPassedThreeTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := NewPool(Config{Ceiling: 9 * mib, Share: 9 * mib})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		const clients = 4
		var shares []*Share
		for i := range 2 * clients {
			shares = append(shares, p.OpenShare(i%clients, nil))
		}
		waiting := map[int]int{}
		var passed [clients][clients]int
		var held, asked []*wish
		get := func(i, size int) {
			c := i % clients
			w := &wish{}
			w.Size = size
			w.Granted = func(_ *Request, b *Buffer, err error) {
				w.buffer, w.err = b, err
				w.calls++
				held = append(held, w)
				waiting[c]--
				for other := range clients {
					if other == c || waiting[other] == 0 {
						passed[other][c] = 0
						continue
					}
					p.mu.Lock()
					within := shares[other].client.pages == 0
					p.mu.Unlock()
					if passed[other][c]++; within && passed[other][c] >= 3 {
						t.Fatalf("client %d is served the third time while %d waits", c, other)
					}
				}
				for other := range clients {
					passed[c][other] = 0
				}
			}
			waiting[c]++
			asked = append(asked, w)
			shares[i].Get(&w.Request)
		}
		for range 60 {
			if len(held) > 0 && rapid.Bool().Draw(t, "release") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				w := held[i]
				held = append(held[:i], held[i+1:]...)
				w.buffer.Release()
			} else {
				get(rapid.IntRange(0, len(shares)-1).Draw(t, "share"), rapid.IntRange(large1, 4*mib).Draw(t, "size"))
			}
			delivered(t, p)
		}
		for len(held) > 0 {
			w := held[0]
			held = held[1:]
			w.buffer.Release()
			delivered(t, p)
		}
		for _, w := range asked {
			if w.calls != 1 {
				t.Fatal("a request waits for ever")
			}
		}
	})
}

// A client that waits in two groups is served in turn in each of them. So it is served at most
// twice, once in each group, before a client that waits in one of the groups is served.
func TestClientsTakeTurnsAcrossGroups(t *testing.T) {
	p := newPool(t, 16*mib, 16*mib)
	held := fill(t, p, mib)
	one, two := p.NewGroup(), p.NewGroup()
	both, other := p.OpenShare("both", nil), p.OpenShare("other", nil)
	var log []string
	var waiting []*wish
	for range 4 {
		waiting = append(waiting, ask(both, one, "one", mib, &log), ask(both, two, "two", mib, &log), ask(other, two, "other", mib, &log))
	}
	for range 6 {
		held[0].Release()
		held = held[1:]
	}
	count := map[string]int{}
	for _, name := range log {
		count[name]++
	}
	if count["one"] != 2 || count["two"] != 2 || count["other"] != 2 {
		t.Errorf("granted to %v", log)
	}
	release(held)
	drain(t, p, waiting)
}
