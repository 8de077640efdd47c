package mem

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// A Ledger charges its share for the sum of its additions, to within ledgerStep, and for nothing
// when all was subtracted again. This holds for any amounts, from many goroutines at once.
func TestLedger(t *testing.T) {
	p := newPool(t, 16*mib, 0)
	s := p.OpenShare("one", nil)
	var l Ledger
	l.Open(s)
	l.Add(ledgerStep - 1)
	if n := s.Charged(); n != 0 {
		t.Errorf("%d bytes are charged for less than a step", n)
	}
	l.Add(1)
	if n := s.Charged(); n != ledgerStep*3/2 {
		t.Errorf("%d bytes are charged for %d", n, ledgerStep)
	}
	l.Add(-ledgerStep)
	if n := s.Charged(); n != 0 {
		t.Errorf("%d bytes are charged when all is gone", n)
	}
	for _, n := range []int{ledgerStep + 4000, -ledgerStep - 1000, -3000} {
		l.Add(n)
	}
	if n := s.Charged(); n != 0 {
		t.Errorf("%d bytes are charged when all is gone, a little at last", n)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			var held []int
			for range 5000 {
				if len(held) > 0 && r.IntN(2) == 0 {
					l.Add(-held[0])
					held = held[1:]
				} else {
					n := r.IntN(50_000)
					held = append(held, n)
					l.Add(n)
				}
			}
			for _, n := range held {
				l.Add(-n)
			}
		})
	}
	all.Wait()
	if n := s.Charged(); n != 0 {
		t.Errorf("%d bytes are charged when all is gone", n)
	}
	s.Close()
}
