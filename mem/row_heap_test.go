package mem

import "testing"

// A client that gives back pages of the reserve comes before one of another site that has more of it, although it
// came later and had most.
func TestRanksFollowWhatIsGivenBack(t *testing.T) {
	p := newPool(t, 16*mib, 16*mib)
	rest := fill(t, p, mib)
	pages := func(of, n int) (s *Share, held []*Buffer) {
		s = p.OpenShare(site(of, 1), nil)
		for range n {
			b, ok := s.TryGet(PageSize)
			if !ok {
				t.Fatalf("the reserve has no page for site %d", of)
			}
			held = append(held, b)
		}
		return s, held
	}
	first, ofFirst := pages(1, 3)
	second, ofSecond := pages(2, 4)
	for i := 3; ; i++ { // clients with a page each use up the reserve
		b, ok := p.OpenShare(site(i, 1), nil).TryGet(PageSize)
		if !ok {
			break
		}
		rest = append(rest, b)
	}
	a, b := ask(first, nil, "first", PageSize, nil), ask(second, nil, "second", PageSize, nil)
	audited(t, p)
	for len(ofSecond) > 0 {
		a.want(t, 0, nil)
		b.want(t, 0, nil)
		ofSecond[0].Release()
		ofSecond = ofSecond[1:]
		delivered(t, p)
		audited(t, p)
	}
	a.want(t, 0, nil)
	b.want(t, 1, nil)
	release(append(rest, ofFirst...))
	drain(t, p, []*wish{a, b})
}
