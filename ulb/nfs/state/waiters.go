package state

import (
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/byterange"
)

// A waiter is a denied lock for which its owner waits.
type waiter struct {
	LockNotice
	want byterange.Range
	// open is the open through which the owner last asked for the lock. Its end ends the waiting. A host's open stays as long
	// as it has waiters.
	open  *State
	asked time.Time // when the owner last asked for the lock
	// offered is true if the lock became free and the server reserved it for the owner, up to the time
	// until. There is at most one reservation after each LOCK of the owner: if the owner does not ask
	// again in time, the next waiter can get the lock.
	offered bool
	until   time.Time
	// quiet is the time up to which the server offers the lock to no host, because a process of this machine kept it
	// from the host. The caller of HostLock tries again before that. Each try takes the lock for a moment: if its end were
	// a notice for the others that wait for the same process, they would take turns without a pause.
	quiet time.Time
}

func (w *waiter) size() int { return sizeWaiter + len(w.Owner) }

// gaveUp reports whether the owner has sent no LOCK for this waiter during the last lease time. A client
// that still waits repeats its LOCK within that time, with or without a LockNotice. A host need not repeat it.
func (w *waiter) gaveUp(g *guard, now time.Time) bool {
	return now.Sub(w.asked) > g.cfg.Lease && !w.Client.isHost()
}

// lapsed reports whether the reservation ended before the owner took the lock.
func (w *waiter) lapsed(now time.Time) bool { return w.offered && !now.Before(w.until) }

// queue adds w to the waiters. If its owner already waits for the same lock, the earlier waiter keeps
// its place, takes the tag of w, and loses its reservation. If the client or its address has reached a
// limit (mayWait, crowded), or the file has maxFileWaiters waiters and none makes room (yield), w is
// not added, and the client gets no LockNotice.
func (of *file) queue(g *guard, w *waiter) {
	now := time.Now()
	for _, other := range of.waiting {
		if other.Client == w.Client && other.Owner == w.Owner && other.want == w.want {
			other.asked, other.Tag, other.offered, other.quiet = now, w.Tag, false, w.quiet
			g.hang(other, w.open)
			return
		}
	}
	of.unqueue(g, func(other *waiter) bool { return other.gaveUp(g, now) })
	if !w.Client.mayWait(g) || g.crowded(w.Client) || len(of.waiting) >= maxFileWaiters && !of.yield(g, w.Client, now) {
		return
	}
	w.asked = now
	of.waiting = append(of.waiting, w)
	w.open.waiters++
	g.files.usage.Waiters++
	g.charge(w.Client, w.size())
	h := &w.Client.holding
	h.waiters++
	w.Client.known.origin.waiters++
	h.waiting[of]++
}

// hang makes the waiter w one of the open to. Owners of one name may ask for one lock through several opens.
func (g *guard) hang(w *waiter, to *State) {
	if w.open.waiters--; w.open != to && w.Client.isHost() {
		g.idle = append(g.idle, w.open)
	}
	w.open = to
	to.waiters++
}

// awaits reports whether the owner waits for exactly this lock, and its last LOCK had this tag.
func (of *file) awaits(c *Client, owner string, want byterange.Range, tag any) bool {
	return slices.ContainsFunc(of.waiting, func(w *waiter) bool {
		return w.Client == c && w.Owner == owner && w.want == want && w.Tag == tag
	})
}

// deadlocked reports whether the owner of s, which wants to lock r, would wait for ever (RFC 8881 §18.10.4,
// NFS4ERR_DEADLOCK): each owner whose lock is in its way waits itself, and has waited for longer, for bytes that
// s has locked. So two owners that both hold a read lock cannot both wait for a write lock. The one that has
// waited longest never hears of a deadlock, and gets its lock when the others have let go.
func (of *file) deadlocked(g *guard, s *State, c *Client, owner string, r *byterange.Range) (is bool) {
	now, before, looks := time.Now(), of.waiting, maxHindrances
	if i := slices.IndexFunc(before, func(w *waiter) bool { return w.Client == c && w.Owner == owner && w.want.Overlaps(r) }); i >= 0 {
		before = before[:i]
	}
	of.locked.Conflicts(r, s.Owner, func(other *State, _ *byterange.Range) bool {
		is = slices.ContainsFunc(before, func(w *waiter) bool {
			looks--
			return w.Client == other.Client && w.Owner == other.Owner.key.name && !w.gaveUp(g, now) &&
				slices.ContainsFunc(s.held.Ranges(), func(held byterange.Range) bool { return w.want.Conflicts(&held) })
		})
		is = is && looks > 0
		return is
	})
	return is
}

// mayWait reports whether c may wait for one more lock. The clients of an address may have half of the
// waiters that other addresses do not use. Of these, a client may have half of those that the other
// clients of its address do not use.
func (c *Client) mayWait(g *guard) bool {
	o := c.known.origin
	free := maxWaiters - g.files.usage.Waiters
	return o.waiters < free && c.holding.waiters < (o.waiters+free)/2-o.waiters
}

// yield makes room for a waiter of c in a file that has maxFileWaiters of them: it removes the latest
// waiter of the client with the most at the address with the most. It returns false if no other address
// or client has more waiters than c would have. Waiters with a reserved lock stay.
func (of *file) yield(g *guard, c *Client, now time.Time) bool {
	byOrigin := make(map[*origin]int)
	for _, w := range of.waiting {
		byOrigin[w.Client.known.origin]++
	}
	own, mine := byOrigin[c.known.origin], c.holding.waiting[of]
	var victim *waiter
	for _, w := range of.waiting {
		o := w.Client.known.origin
		near, has := o == c.known.origin, w.Client.holding.waiting[of]
		if now.Before(w.until) || near && has <= mine+1 || !near && byOrigin[o] <= own+1 {
			continue
		}
		if victim == nil || byOrigin[o] > byOrigin[victim.Client.known.origin] ||
			o == victim.Client.known.origin && has >= victim.Client.holding.waiting[of] {
			victim = w
		}
	}
	if victim == nil {
		return false
	}
	of.unqueue(g, func(w *waiter) bool { return w == victim })
	return true
}

// unqueue removes the waiters for which over returns true.
func (of *file) unqueue(g *guard, over func(w *waiter) bool) {
	of.waiting = slices.DeleteFunc(of.waiting, func(w *waiter) bool {
		if !over(w) {
			return false
		}
		if w.open.waiters--; w.Client.isHost() {
			g.idle = append(g.idle, w.open)
		}
		g.files.usage.Waiters--
		g.charge(w.Client, -w.size())
		h := &w.Client.holding
		h.waiters--
		w.Client.known.origin.waiters--
		if h.waiting[of]--; h.waiting[of] == 0 {
			delete(h.waiting, of)
		}
		return true
	})
}

// reserved returns a conflicting lock that the server has reserved for another owner, or nil.
func (of *file) reserved(r *byterange.Range, c *Client, owner string) *Denied {
	if len(of.waiting) == 0 {
		return nil
	}
	now := time.Now()
	for _, w := range of.waiting {
		if w.Client == c && w.Owner == owner {
			continue
		}
		if now.Before(w.until) && w.want.Conflicts(r) {
			return denied(&w.want, w.Client.ID, w.Owner)
		}
	}
	return nil
}

// released reserves locks that have become free for their waiters, and adds the notices to g. It takes
// the waiters in the order of their arrival or, if the file has more than 128 (the square root of
// maxHindrances), in the order of inTurn, so that a client that waits for many locks does not keep
// others from their notices. It stops after it has checked maxHindrances locks and waiters.
func (g *guard) released(of *file) {
	if len(of.waiting) == 0 {
		return
	}
	g.files.searches++
	now := time.Now()
	of.unqueue(g, func(w *waiter) bool { return w.gaveUp(g, now) })
	left := maxHindrances
	var turns []int // nil means the order of arrival
	if n := len(of.waiting); n*n > left {
		turns = of.inTurn()
	}
	for i, w := range of.waiting {
		if turns != nil {
			i = turns[i]
			w = of.waiting[i]
		}
		hindered, looks := of.hindered(i, now)
		if left -= looks; left < 0 {
			return
		}
		if w.offered || hindered || now.Before(w.quiet) {
			continue
		}
		w.offered, w.until = true, now.Add(reservation)
		g.notices = append(g.notices, w.LockNotice)
	}
}

// inTurn returns the indexes of the first waiter of each address, then of the first one of each other
// client, then of all others, each in the order of arrival.
func (of *file) inTurn() []int {
	origins, clients := make(map[*origin]bool), make(map[*Client]bool)
	firsts, seconds, others := make([]int, 0, len(of.waiting)), []int(nil), []int(nil)
	for i, w := range of.waiting {
		switch o := w.Client.known.origin; {
		case !origins[o]:
			firsts = append(firsts, i)
		case !clients[w.Client]:
			seconds = append(seconds, i)
		default:
			others = append(others, i)
		}
		origins[w.Client.known.origin], clients[w.Client] = true, true
	}
	return append(append(firsts, seconds...), others...)
}

// hindered reports whether waiter i cannot have its lock, because another owner has a conflicting lock
// or an earlier waiter wants one. looks is the number of locks and waiters that it checked.
func (of *file) hindered(i int, now time.Time) (is bool, looks int) {
	w := of.waiting[i]
	of.locked.Conflicts(&w.want, w.Client.holding.owners[ownerKey{true, w.Owner}], func(*State, *byterange.Range) bool {
		is = true
		return false
	})
	if is {
		return true, 1
	}
	for _, before := range of.waiting[:i] {
		if (before.Client != w.Client || before.Owner != w.Owner) && !before.lapsed(now) && before.want.Conflicts(&w.want) {
			return true, i
		}
	}
	return false, i
}
