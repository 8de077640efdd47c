package gss

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// A holder is a peer address and its contexts, from the one longest in the queue to
// the newest.
type holder struct {
	queue.Links[holder] // among those that have as many
	addr                netip.Addr
	contexts            queue.List[serverContext, *serverContext]
	count               int
}

// A ranking knows which holders have most.
type ranking struct {
	ranks []rank // by count
	most  int
}

// A rank is the holders that have as many, from the one longest in the queue on.
type rank = queue.List[holder, *holder]

func newRanking(share int) ranking { return ranking{ranks: make([]rank, share+1)} }

// count says that h has so many from now on. None is none of it.
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
