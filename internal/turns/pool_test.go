package turns

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func newPool(most int) *Pool[*int] {
	return &Pool[*int]{Most: most, New: func() *int { return new(int) }}
}

func borrow(t *testing.T, p *Pool[*int], b *Borrower[*int]) *int {
	t.Helper()
	unit, ok := p.Borrow(b)
	if !ok {
		t.Fatal("no unit is lent")
	}
	return unit
}

// Waiting borrowers get units by client address in turn. A Pool makes no more units than it may.
func TestPoolInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1)
		unit := borrow(t, p, &Borrower[*int]{Address: address(9)})
		order := make(chan byte, 4)
		for _, from := range []byte{1, 1, 1, 2} {
			go func() {
				b := &Borrower[*int]{Address: address(from)}
				unit, _ := p.Borrow(b)
				order <- from
				p.GiveBack(unit)
			}()
			synctest.Wait()
		}
		p.GiveBack(unit)
		for i, want := range []byte{1, 2, 1, 1} {
			if got := <-order; got != want {
				t.Errorf("borrower %d has address %d, want %d", i, got, want)
			}
		}
		synctest.Wait()
		if units, lent := p.Count(); units != 1 || lent != 0 || p.Wanted() {
			t.Errorf("%d units, %d of them lent; wanted: %v", units, lent, p.Wanted())
		}
	})
}

// End ends a wait, and the unit goes to the next borrower. The ended borrower gets no further unit.
func TestEndOfABorrower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1)
		unit := borrow(t, p, new(Borrower[*int]))
		first, second := &Borrower[*int]{Address: address(1)}, &Borrower[*int]{Address: address(1)}
		got := make(chan bool, 1)
		go func() {
			_, ok := p.Borrow(first)
			got <- ok
		}()
		synctest.Wait()
		next := make(chan bool, 1)
		go func() {
			_, ok := p.Borrow(second)
			next <- ok
		}()
		synctest.Wait()
		if !p.Waits(first) || !p.Waits(second) {
			t.Fatal("the borrowers do not wait")
		}
		p.End(first)
		if <-got {
			t.Error("an ended borrower gets a unit")
		}
		p.GiveBack(unit)
		if !<-next {
			t.Error("the next borrower gets no unit")
		}
		if _, ok := p.Borrow(first); ok {
			t.Error("an ended borrower gets a unit later")
		}
		p.End(first)
	})
}

// If no unit is given back for Patience, a waiter gets an additional one. The Pool keeps no more
// units than Most. As long as units are given back, waiters wait.
func TestPoolWhoseBorrowersAreStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(2)
		p.Patience = time.Second
		stuck := borrow(t, p, new(Borrower[*int]))
		at := borrow(t, p, new(Borrower[*int]))
		begin := time.Now()
		additional := make(chan *int, 1)
		go func() {
			unit, _ := p.Borrow(&Borrower[*int]{Address: address(1)})
			additional <- unit
		}()
		synctest.Wait()
		time.Sleep(900 * time.Millisecond)
		p.mu.Lock()
		p.given++ // as if a unit had been given back, and another borrower had got it
		p.mu.Unlock()
		unit := <-additional
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("the additional unit comes after %v", took)
		}
		if units, lent := p.Count(); units != 3 || lent != 3 {
			t.Errorf("%d units, %d of them lent", units, lent)
		}
		for _, u := range []*int{stuck, at, unit} {
			p.GiveBack(u)
		}
		if units, lent := p.Count(); units != 2 || lent != 0 {
			t.Errorf("%d units, %d of them lent", units, lent)
		}
	})
}

// A waiter that looks late whether units are given back waits for Patience once more, counted from
// that time.
func TestPoolWhoseWaiterIsLate(t *testing.T) {
	p := newPool(1)
	p.Patience = 100 * time.Millisecond
	unit := borrow(t, p, new(Borrower[*int]))
	type got struct {
		unit *int
		at   time.Time
	}
	additional := make(chan got, 1)
	go func() {
		unit, _ := p.Borrow(&Borrower[*int]{Address: address(1)})
		additional <- got{unit, time.Now()}
	}()
	time.Sleep(p.Patience / 2)
	p.mu.Lock() // the waiter cannot look
	time.Sleep(p.Patience * 14 / 10)
	p.given++ // as if a unit had been given back, and another borrower had got it
	given := time.Now()
	p.mu.Unlock()
	g := <-additional
	if after := g.at.Sub(given); after < p.Patience {
		t.Errorf("the additional unit comes %v after a unit was given back", after)
	}
	p.GiveBack(unit)
	p.GiveBack(g.unit)
}

// A borrower is overdue when others have waited for long enough, and only then.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1)
		b, other := new(Borrower[*int]), &Borrower[*int]{Address: address(1)}
		unit := borrow(t, p, b)
		late := func(want bool) {
			t.Helper()
			if got := p.Overdue(b, time.Millisecond); got != want {
				t.Errorf("overdue: %v", got)
			}
		}
		time.Sleep(time.Second)
		late(false) // nobody waits
		go func() {
			unit, _ := p.Borrow(other)
			p.GiveBack(unit)
		}()
		synctest.Wait()
		late(false)
		time.Sleep(time.Millisecond - 1)
		late(false)
		time.Sleep(time.Nanosecond)
		late(true)
		p.GiveBack(unit)
		synctest.Wait()
		unit = borrow(t, p, b)
		late(false)
		p.GiveBack(unit)
	})
}

// Many goroutines borrow, give back and end at the same time. No unit is lent twice, and none is
// lost.
func TestPoolRaces(t *testing.T) {
	p := newPool(3)
	p.Patience = time.Hour
	var all sync.WaitGroup
	for i := range 20 {
		b := &Borrower[*int]{Address: address(byte(i % 3))}
		all.Go(func() {
			for range 500 {
				unit, ok := p.Borrow(b)
				if !ok {
					return
				}
				*unit++ // the race detector finds a unit that is lent twice
				p.Overdue(b, 0)
				p.GiveBack(unit)
			}
		})
		if i%4 == 0 {
			all.Go(func() { p.End(b) })
		}
	}
	all.Wait()
	if units, lent := p.Count(); units > 3 || lent != 0 || p.Wanted() {
		t.Errorf("%d units, %d of them lent; wanted: %v", units, lent, p.Wanted())
	}
}

// In steady state a Pool allocates nothing, also if borrowers wait.
func TestPoolAllocatesNothing(t *testing.T) {
	p := newPool(1)
	b := new(Borrower[*int])
	if n := testing.AllocsPerRun(100, func() {
		unit, _ := p.Borrow(b)
		p.Overdue(b, time.Hour)
		p.GiveBack(unit)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// However many borrowers wait, one unit is added for each Patience, and there are never more than twice
// as many units as Most. A borrower that is served meanwhile begins a new Patience for the others.
func TestPatienceAddsOneUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, waiters = 4, 100
		p := newPool(most)
		p.Patience = time.Second
		var lent []*int
		for range most {
			lent = append(lent, borrow(t, p, new(Borrower[*int])))
		}
		got := make(chan *int, waiters)
		for range waiters {
			go func() {
				unit, _ := p.Borrow(&Borrower[*int]{Address: address(1)})
				got <- unit
			}()
		}
		for i := 1; i <= 2*most; i++ {
			time.Sleep(time.Second)
			synctest.Wait()
			if units, _ := p.Count(); units != most+min(i, most) {
				t.Errorf("%d units after %d s", units, i)
			}
		}
		for _, u := range lent {
			p.GiveBack(u)
		}
		for range waiters {
			p.GiveBack(<-got)
		}
		if units, lent := p.Count(); units != most || lent != 0 {
			t.Errorf("%d units in the end, %d of them lent", units, lent)
		}
	})
}
