package mem

import "container/heap"

// A rowHeap has the rows of a waitingPlace that wait for the reserve, as a heap in the order of ranksBefore. While
// there are pages in the reserve only, a client may have one if it has few of it (mayHaveLocked). So if the first row may
// not, no row may, and the others need not be asked, however many sites wait.
type rowHeap []*siteRow

// ranks returns the heap that has r.
func (w *waitingPlace) ranks(r *siteRow) *rowHeap {
	if r.key.blamed {
		return &w.ranked[1]
	}
	return &w.ranked[0]
}

// ranksBefore reports whether r comes before o: its first client will have less of the reserve or, if both will have as
// much, r was served less recently.
func (r *siteRow) ranksBefore(o *siteRow) bool {
	if a, b := r.clients[0].least, o.clients[0].least; a != b {
		return a < b
	}
	return r.turn < o.turn
}

// settleLocked moves r to its place among the rows that wait for the reserve.
func (r *siteRow) settleLocked() {
	if r.place.reserve {
		heap.Fix(r.place.ranks(r), r.rank)
	}
}

// onlyReserveLocked reports whether no small request of g gets a page of the main zone: it has none, or a large request
// waits for them, or g is at its limit.
func (p *Pool) onlyReserveLocked(g *Group) bool {
	return p.current != nil || g.blocked || !g.roomLocked(1) || !p.main.has(1)
}

// serveReserveLocked serves one of the requests of w, from the reserve. It returns false if it serves none.
func (p *Pool) serveReserveLocked(w *waitingPlace) bool {
	if !p.reserve.has(1) {
		return false // mayHaveLocked always allows one page
	}
	for _, rows := range w.ranked {
		if r := p.reserveRowLocked(rows, 0, nil); r != nil {
			return p.serveSmallLocked(r)
		}
	}
	return false
}

// reserveRowLocked returns the first row in the heap, from index at downwards, whose candidate finds pages in the
// reserve. next is the best row that was found elsewhere, or nil. A row that is passed over, because its clients wait for
// the limits of their shares or because no free run of pages is long enough, costs as much as the two below it.
func (p *Pool) reserveRowLocked(rows rowHeap, at int, next *siteRow) *siteRow {
	if at >= len(rows) {
		return next
	}
	p.visited++
	r := rows[at]
	if next != nil && !r.ranksBefore(next) || !p.mayHaveLocked(r.clients[0].least) {
		return next
	}
	if q := p.candidateLocked(r); q != nil && p.mayHaveLocked(q.share.client.small+q.need()) && p.reserve.has(q.need()) {
		return r
	}
	return p.reserveRowLocked(rows, 2*at+2, p.reserveRowLocked(rows, 2*at+1, next))
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (h rowHeap) Len() int { return len(h) }

func (h rowHeap) Less(i, j int) bool {
	h[i].pool.visited++
	return h[i].ranksBefore(h[j])
}

func (h rowHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].rank, h[j].rank = i, j
}

func (h *rowHeap) Push(r any) {
	row := r.(*siteRow)
	row.rank = len(*h)
	*h = append(*h, row)
}

func (h *rowHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return r
}
