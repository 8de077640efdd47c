package gss

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// A holder has the contexts of one peer address.
type holder struct {
	queue.Links[holder] // links in the rank for its number of contexts
	addr                netip.Addr
	contexts            queue.List[serverContext, *serverContext]
	count               int
}

// A ranking sorts the holders by their numbers of contexts, to find a holder with the largest
// number.
type ranking struct {
	ranks []rank // ranks[n] has the holders with n contexts
	most  int
}

// A rank is the queue of holders with the same number of contexts.
type rank = queue.List[holder, *holder]

func newRanking(share int) ranking { return ranking{ranks: make([]rank, share+1)} }

// count sets the number of contexts of h to n. If n is 0, it removes h from the ranking.
func (r *ranking) count(h *holder, n int) {
	if h.count > 0 {
		r.ranks[h.count].Remove(h)
	}
	if h.count = n; n > 0 {
		r.ranks[n].Add(h)
	}
	r.most = max(r.most, n)
	for r.most > 0 && r.ranks[r.most].First == nil {
		r.most--
	}
}
