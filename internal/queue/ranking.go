package queue

// A Ranking orders elements by their counts. The element with the largest count comes first; among
// equals, the one whose count changed longest ago. The zero Ranking is empty. It has no lock.
type Ranking[T any] struct {
	// Total is the sum of all counts.
	Total int
	ranks map[int]*List[Place[T], *Place[T]] // the places with each count, except 0
	most  int                                // the largest count
}

// A Place is the place of an element in one Ranking. The element contains it.
type Place[T any] struct {
	Links[Place[T]]
	// Of is the element. Set it before the first Add.
	Of *T
	// Count is the element's count. If it is 0, the element is not in the Ranking.
	Count int
}

// Add adds n, which is 1, 0 or -1, to the count of p, and puts p behind the places with the same
// count.
func (r *Ranking[T]) Add(p *Place[T], n int) {
	if same := r.ranks[p.Count]; same != nil {
		if same.Remove(p); same.First == nil && n != 0 {
			delete(r.ranks, p.Count)
		}
	}
	p.Count += n
	r.Total += n
	if p.Count > 0 {
		same := r.ranks[p.Count]
		if same == nil {
			same = new(List[Place[T], *Place[T]])
			if r.ranks == nil {
				r.ranks = make(map[int]*List[Place[T], *Place[T]])
			}
			r.ranks[p.Count] = same
		}
		same.Add(p)
	}
	if r.most = max(r.most, p.Count); r.ranks[r.most] == nil {
		r.most = p.Count // it was the only one with the largest count, which is now one less
	}
}

// Top returns the place of the first element, or nil if there is none.
func (r *Ranking[T]) Top() *Place[T] {
	if r.most == 0 {
		return nil
	}
	return r.ranks[r.most].First
}
