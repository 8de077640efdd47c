package mem

import (
	"cmp"
	"slices"
)

// Stats is a snapshot of a Pool's counters.
type Stats struct {
	Ceiling, InUse, Peak int64 // bytes of payload memory
	// Charged is how many bytes of the heap are charged to shares.
	Charged int64
	// Small is what is in use of the part that is kept for small requests, in bytes.
	Small int64
	// Resident is an upper bound of the arena's bytes that occupy memory.
	Resident int64
	// Trimmed counts the bytes given back to the kernel.
	Trimmed uint64
	// Waiting is how many requests wait now, Aside how many connections with a
	// request for a block so large that there can be none at present.
	Waiting, Aside int
	// Shares is how many are open, Clients how many clients have one or hold
	// something, those without a key aside. Active is how many clients hold
	// memory or wait for it.
	Shares, Clients, Active int
	// Granted counts requests that got memory, Waited those of them and of
	// others that had to queue, Refused those answered with an error.
	Granted, Waited, Refused uint64
	// Ended counts the shares whose holders were told to end.
	Ended uint64
	// Pressed says what Pool.Pressed does.
	Pressed bool
}

// Stats returns the counters of this moment.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	aside := 0
	for l := p.aside.head; l != nil; l = l.next {
		aside++
	}
	return Stats{
		Ceiling:  int64(p.total()) * PageSize,
		InUse:    int64(p.inUse()) * PageSize,
		Peak:     int64(p.peak) * PageSize,
		Charged:  p.heap.Load(),
		Small:    int64(p.reserveInUse) * PageSize,
		Resident: int64(p.resident()) * PageSize,
		Trimmed:  p.trimmed,
		Waiting:  p.waiting,
		Aside:    aside,
		Shares:   len(p.shares),
		Clients:  len(p.clients),
		Active:   int(p.active),
		Granted:  p.granted,
		Waited:   p.waited,
		Refused:  p.refused,
		Ended:    p.ended,
		Pressed:  p.pressed.Load(),
	}
}

// ClientStats is what one client holds.
type ClientStats struct {
	// Client is the key that its shares were opened with, nil where they had none.
	Client any
	// Held is its payload memory, with what the request whose turn it is asks
	// for, Charged its part of the heap, in bytes.
	Held, Charged int64
	Shares        int // that are open
	// Waiting is how many of its requests wait.
	Waiting int
	// Ended counts its shares whose holders were told to end.
	Ended uint64
}

// Largest is a snapshot of the clients that hold most, so many at most. Clients
// that have no open share are left out.
func (p *Pool) Largest(most int) []ClientStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []ClientStats
	at := make(map[*Client]int)
	for _, s := range p.shares {
		c := s.client
		i, ok := at[c]
		if !ok {
			if c.pages == 0 && c.heap.Load() == 0 && c.lines == 0 {
				continue
			}
			i = len(all)
			at[c] = i
			all = append(all, ClientStats{
				Client: c.key, Held: int64(c.pages) * PageSize, Charged: c.heap.Load(), Shares: c.shares, Ended: c.ended,
			})
		}
		for l := s.lines; l != nil; l = l.mate {
			all[i].Waiting += l.count
		}
	}
	slices.SortStableFunc(all, func(a, b ClientStats) int {
		return cmp.Compare(b.Held+b.Charged, a.Held+a.Charged)
	})
	return all[:min(most, len(all))]
}
