package gss

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// A holder is a peer address with its contexts, in the order of their queue.
type holder struct {
	queue.Links[holder] // in the rank of its count
	addr                netip.Addr
	contexts            queue.List[serverContext, *serverContext]
	count               int
}

// A ranking finds the holders with the most contexts.
type ranking struct {
	ranks []rank // index: number of contexts
	most  int
}

// A rank is the queue of holders with the same number of contexts.
type rank = queue.List[holder, *holder]

func newRanking(share int) ranking { return ranking{ranks: make([]rank, share+1)} }

// count sets the number of contexts of h to n. With 0, h leaves the ranking.
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
