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
	// Small is how many bytes of the reserve for small requests are in use.
	Small int64
	// Resident is an upper bound of the arena's bytes that occupy memory.
	Resident int64
	// Trimmed counts the bytes given back to the kernel.
	Trimmed uint64
	// Waiting is how many requests wait now. Aside is how many lines wait for a block so large
	// that none can become free at present.
	Waiting, Aside int
	// Shares is how many are open. Clients is how many clients with a key have a share or hold
	// memory. Active is how many clients hold memory or wait for it.
	Shares, Clients, Active int
	// Granted counts requests that got memory, Waited requests that had to queue, Refused
	// requests that got an error.
	Granted, Waited, Refused uint64
	// Ended counts the shares whose holders were told to end.
	Ended uint64
	// Pressed is the value of Pool.Pressed.
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

// ClientStats describes one client.
type ClientStats struct {
	// Client is the key that its shares were opened with, or nil.
	Client any
	// Held is its payload memory, including the request whose turn it is. Charged is its part of
	// the heap. Both are in bytes.
	Held, Charged int64
	Shares        int // that are open
	// Waiting is how many of its requests wait.
	Waiting int
	// Ended counts its shares whose holders were told to end.
	Ended uint64
}

// Largest returns at most so many clients, those that hold the most memory. It leaves out clients
// without an open share.
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
