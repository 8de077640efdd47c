package census

import "container/heap"

// A ranking orders the addresses with seats of one kind. The address with the most seats comes
// first; among equals, the one that has had this number longest. It implements heap.Interface.
type ranking struct {
	by    int
	total int
	clock uint64
	all   []*address
}

// place is the position of an address in a ranking. The field since is the value of ranking.clock
// when the address's count last changed.
type place struct {
	index int // position in the heap plus 1, or 0 if the address has no seats of this kind
	since uint64
}

// add changes the count of a by n.
func (r *ranking) add(a *address, n int) {
	r.total += n
	r.clock++
	a.counts[r.by] += n
	p := &a.places[r.by]
	p.since = r.clock
	switch {
	case p.index == 0:
		heap.Push(r, a)
	case a.counts[r.by] == 0:
		heap.Remove(r, p.index-1)
	default:
		heap.Fix(r, p.index-1)
	}
}

// top returns the address with the most seats of the ranking's kind, or nil if there is none.
func (r *ranking) top() *address {
	if len(r.all) == 0 {
		return nil
	}
	return r.all[0]
}

// Len implements heap.Interface.
func (r *ranking) Len() int { return len(r.all) }

// Less implements heap.Interface.
func (r *ranking) Less(i, j int) bool {
	a, b := r.all[i], r.all[j]
	if a.counts[r.by] != b.counts[r.by] {
		return a.counts[r.by] > b.counts[r.by]
	}
	return a.places[r.by].since < b.places[r.by].since
}

// Swap implements heap.Interface.
func (r *ranking) Swap(i, j int) {
	r.all[i], r.all[j] = r.all[j], r.all[i]
	r.all[i].places[r.by].index, r.all[j].places[r.by].index = i+1, j+1
}

// Push implements heap.Interface.
func (r *ranking) Push(x any) {
	a := x.(*address)
	r.all = append(r.all, a)
	a.places[r.by].index = len(r.all)
}

// Pop implements heap.Interface.
func (r *ranking) Pop() any {
	n := len(r.all) - 1
	a := r.all[n]
	r.all[n] = nil
	r.all = r.all[:n]
	a.places[r.by].index = 0
	return a
}
