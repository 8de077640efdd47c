package mem

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/queue"
)

// A Holder is the connection of a Share. The pool calls it while memory is short, on a goroutine of
// the pool and without a lock. The methods must not block.
type Holder interface {
	// Progress returns how many bytes moved between this process and the peer so far, and whether
	// the share's memory now waits for the peer: for the rest of a message, for the answer to an
	// RDMA Read, or for the peer to take a reply. Memory that a file system or an executor uses
	// does not wait for the peer.
	Progress() (moved uint64, waitsForPeer bool)
	// End makes the holder end the connection, so that its share's memory is released. The pool
	// calls it at most once, perhaps while the share is being closed or after that. why gives the
	// reason, and wraps ErrNoProgress.
	End(why error)
}

// ErrNoProgress is the reason that Holder.End gets: memory is short, and the peer has sent or taken
// too few bytes for the memory that its share holds.
var ErrNoProgress = errors.New("mem: memory is short, and the peer makes no progress")

const (
	// sweepEvery is the length of a tick: the time between two calls of sweep.
	sweepEvery = 250 * time.Millisecond
	// patienceTicks is the number of ticks after which a request has waited too long: in the next
	// tick, after more than 1 s, the pool makes connections end to free memory for it.
	patienceTicks = 4
	// grace is how long a connection may move fewer bytes per second than leastRate before the pool
	// may end it. For blamed clients it is blamedGrace.
	grace = 2500 * time.Millisecond
	// ticksToForgive is the number of ticks between two calls of forgiveLocked: 5 s.
	ticksToForgive = 20
	// endedTicks is how long after Holder.End the pool counts the memory of the share as about to
	// be released: 2 s.
	endedTicks = 8
)

// pressure is the state of the sweeper. The sweeper is a timer that runs while strainedLocked returns
// true; in each tick it calls sweep.
type pressure struct {
	sweeper *time.Timer // nil if the sweeper does not run
	tick    uint64
	leaving []*Share                  // shares whose Holder.End was called less than endedTicks ago
	blames  queue.List[blame, *blame] // of blamed Clients with a key, in the order in which the blame ends
}

// leastRate is the rate, in bytes per second, below which a peer is too slow while memory is short.
// The parameter held is how many bytes the peer's share holds. The rate moves all of them in 8 s,
// but is at most 1 MiB per second.
func leastRate(held int64) float64 { return float64(min(held/8, 1<<20)) }

// progress is the sweeper's record of a share: since when the peer has been slower than leastRate.
// pool.mu guards only told and toldTick. Only sweep uses the other fields, and only one call of
// sweep runs at a time.
type progress struct {
	told     bool // true once End was called or is about to be called
	toldTick uint64

	tick  uint64 // tick of the last call of look
	begun time.Time
	moved uint64
	least int64 // the least number of bytes held since begun
	now   int64 // number of bytes held now
	slow  time.Duration
}

// look asks the holder how many bytes have moved, and notes for how long the peer has been too slow
// (leastRate). That time begins again if the peer is fast enough, or if the memory does not wait
// for the peer.
func (s *Share) look(tick uint64, now time.Time) {
	moved, waits := s.holder.Progress()
	m := &s.progress
	again := m.tick+1 == tick
	m.tick, m.least, m.slow = tick, min(m.least, m.now), now.Sub(m.begun)
	if again && waits && moved >= m.moved {
		enough := leastRate(m.least) * m.slow.Seconds()
		if m.slow < time.Second || float64(moved-m.moved) < enough {
			return
		}
	}
	m.begun, m.moved, m.least, m.slow = now, moved, m.now, 0
}

// strainedLocked updates Pressed, and reports whether the sweeper has to run: because memory is
// short (Pressed), because free pages have to be given back (swollenLocked), or because a request
// waits for the limit of its Group or for the part of its client.
func (p *Pool) strainedLocked() bool {
	short := p.current != nil || p.unfittable > 0 || p.starved > 0 || p.overdrawnLocked() > 0
	if short != p.Pressed() {
		p.pressed.Store(short)
	}
	if short || p.beyond > 0 || p.swollenLocked() {
		return true
	}
	for w := p.crowded.First; w != nil; w = w.Next {
		if w.group.blocked || w.group.bounded > 0 {
			return true
		}
	}
	return false
}

// watchLocked starts the sweeper if it has to run (strainedLocked) and does not run.
func (p *Pool) watchLocked() {
	if p.strainedLocked() && p.sweeper == nil && !p.closed {
		// The sweeper has not run for a while, so the shares' records (progress) are out of
		// date. After one more tick, look begins them anew.
		p.tick++
		p.forgiveLocked()
		p.sweeper = time.AfterFunc(sweepEvery, p.sweep)
	}
}

// overdrawnLocked returns the number of pages by which the charges exceed their account; it is 0 or
// less if they do not.
func (p *Pool) overdrawnLocked() int64 { return p.heapPages - p.chargesOf()/PageSize }

// swollenLocked reports whether free pages have to be given back to the kernel, because charges and
// all pages that may be resident, used or free, together exceed the ceiling. It is false if a
// device uses the arena, because then no pages can be given back.
func (p *Pool) swollenLocked() bool {
	return p.heapPages > 0 && p.pinned == 0 &&
		int64(p.resident())+p.heapPages > int64(p.total())
}

// sweep runs in each tick. It serves requests, asks the holders of all shares that hold memory
// about progress, makes connections end if their memory is needed, and gives free pages back if too
// many may be resident (swollenLocked).
func (p *Pool) sweep() {
	p.mu.Lock()
	p.grantLocked()
	if p.closed || !p.strainedLocked() {
		p.sweeper, p.fits = nil, anySize
		p.deliverAndUnlock()
		return
	}
	p.tickLocked()
	tick := p.tick
	var asked []*Share
	for _, s := range p.shares {
		if s.holder != nil && !s.told && (s.pages > 0 || s.heap > 0) {
			s.now = int64(s.pages)*PageSize + s.heap
			asked = append(asked, s)
		}
	}
	p.deliverAndUnlock()

	now := time.Now()
	for _, s := range asked {
		s.look(tick, now)
	}

	p.mu.Lock()
	ended := p.chooseVictimsLocked(asked, now)
	keep := int64(p.total()) - p.heapPages
	swollen := p.swollenLocked()
	if len(ended) > 0 {
		p.grantLocked() // those who are blamed now are in no other's way
	}
	p.deliverAndUnlock()
	for _, s := range ended {
		s.holder.End(fmt.Errorf("%w: of %d bytes held, less than %d moved in %v",
			ErrNoProgress, s.now, int64(leastRate(s.least)*s.slow.Seconds()), s.slow.Round(time.Millisecond)))
	}
	if swollen {
		p.trim(int32(max(keep, 0)), true)
	}
	p.mu.Lock()
	if !p.closed {
		p.sweeper.Reset(sweepEvery)
	}
	p.mu.Unlock()
}

// tickLocked does the work of one tick: it ends old blame (forgiveLocked), moves small requests that
// have waited too long to the main zone, passes over a large request that no block can serve
// (judgeLocked), and serves the requests that it can.
func (p *Pool) tickLocked() {
	p.tick++
	if p.tick%ticksToForgive == 0 {
		p.forgiveLocked()
	}
	p.promoteLocked()
	p.judgeLocked()
	p.grantLocked()
}

// If the first request of a queue of small requests has waited too long, promoteLocked moves the
// queue from the waitingPlace of the reserve to that of its group, for the main zone. There its
// turn comes, even if smaller requests keep taking every free page of the reserve. A client that has its
// part gets nothing there.
func (p *Pool) promoteLocked() {
	var late []*requestQueue
	for w := p.short.First; w != nil; w = w.Next {
		for r := w.first(); r != nil; r = r.next() {
			for _, c := range r.clients {
				for q := c.First; q != nil; q = q.Next {
					if p.lateLocked(q) && c.client.mayLocked(q.group, q.need()) {
						late = append(late, q)
					}
				}
			}
		}
	}
	slices.SortFunc(late, func(a, b *requestQueue) int { return cmp.Compare(a.in.turn, b.in.turn) })
	for _, q := range late {
		p.leaveLocked(q)
		p.joinLocked(&q.group.waiting, q)
	}
}

// lateLocked reports whether the first request of q has waited too long.
func (p *Pool) lateLocked(q *requestQueue) bool { return p.tick-q.First.tick > patienceTicks }

// chooseVictimsLocked chooses the shares whose connections have to end, among those in asked whose
// peers were too slow for longer than Client.grace and whose memory helps (helpsLocked). Clients with
// the most bytes in such shares come first, and of each client its largest shares. It chooses as many
// as the requests that have waited too long need, and as bring the charges back into their account.
func (p *Pool) chooseVictimsLocked(asked []*Share, now time.Time) []*Share {
	wants := p.wantsLocked(p.shares...)
	need, over := int64(0), p.overdrawnLocked()
	for _, n := range wants {
		need += n
	}
	if need <= 0 && over <= 0 {
		return nil
	}
	p.leaving = slices.DeleteFunc(p.leaving, func(s *Share) bool { return p.tick-s.toldTick >= endedTicks })
	for _, s := range p.leaving {
		need, over = need-int64(s.pages), over-pagesIn(s.heap)
	}
	var stuck []*Share
	held := make(map[*Client]int64) // bytes in the shares that are stuck
	for _, s := range asked {
		if s.slow >= s.client.grace() && !s.told && !s.closed && p.helpsLocked(s, wants) {
			stuck = append(stuck, s)
			held[s.client] += s.now
		}
	}
	slices.SortStableFunc(stuck, func(a, b *Share) int {
		return cmp.Or(cmp.Compare(held[b.client], held[a.client]), cmp.Compare(a.client.id, b.client.id), cmp.Compare(b.now, a.now))
	})
	for i, s := range stuck {
		if need <= 0 && over <= 0 {
			return stuck[:i]
		}
		s.told, s.toldTick = true, p.tick
		p.leaving = append(p.leaving, s)
		p.blameUntilLocked(s.client, now.Add(blameFor))
		p.ended++
		need, over = need-int64(s.pages), over-pagesIn(s.heap)
	}
	return stuck
}

// A want says whose memory helps a request that has waited too long: that of any share if the want is
// zero, or only that in a group, or in a group that of the clients of a site.
type want struct {
	group  *Group
	site   netip.Addr
	blamed bool // only that of blamed clients, which have one part together
}

// helpedBy reports whether the release of the memory of s helps the request.
func (w want) helpedBy(s *Share) bool {
	switch {
	case s.pages == 0,
		w.group != nil && s.of(w.group) == 0,
		w.site.IsValid() && w.site != s.client.site,
		w.blamed && !s.client.blamed:
		return false
	}
	return true
}

// wantsLocked returns how many pages the requests of these shares want that have waited too long. The
// group of a want is set if the first request of the queue waits for the limit of the Group, and the
// site if it waits for the part of its client. A queue that waits for the limit of its share does not
// count.
func (p *Pool) wantsLocked(shares ...*Share) map[want]int64 {
	wants := make(map[want]int64)
	for _, s := range shares {
		for _, q := range s.queues {
			g, n := q.group, q.need()
			switch {
			case !p.lateLocked(q):
			case q == p.current:
				wants[want{}] += q.pages
			case s.fullLocked() != nil && s.full != q || !s.roomLocked(n):
			case !s.client.mayLocked(g, n):
				w := want{group: g, blamed: s.client.blamed}
				if !w.blamed {
					w.site = s.client.site
				}
				wants[w] += q.pages
			case q.in.row.place == &g.waiting && (g.blocked || !g.roomLocked(n)):
				wants[want{group: g}] += q.pages
			default:
				wants[want{}] += q.pages
			}
		}
	}
	return wants
}

// helpsLocked reports whether the release of the memory of s would help requests of other shares,
// of the same or another client, that have waited too long. The parameter wants is what the requests
// of all shares want. It also returns true if the charges exceed their account, and s has some.
func (p *Pool) helpsLocked(s *Share, wants map[want]int64) bool {
	if s.heap > 0 && p.overdrawnLocked() > 0 {
		return true
	}
	own := p.wantsLocked(s)
	for w, n := range wants {
		if n > own[w] && w.helpedBy(s) {
			return true
		}
	}
	return false
}
