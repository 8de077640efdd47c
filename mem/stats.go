package mem

// Stats is a snapshot of a Pool's counters.
type Stats struct {
	Ceiling, InUse, Peak int64 // bytes of payload memory
	// Charged is how many bytes of Go heap are charged to shares (Ledger).
	Charged int64
	// Small is how many bytes of the reserve for small requests are in use.
	Small int64
	// Resident is an upper bound of the arena's bytes that occupy memory.
	Resident int64
	// Trimmed is how many bytes were given back to the kernel since the start.
	Trimmed uint64
	// Waiting is how many requests wait now. Unfittable is how many requestQueues the pool passes
	// over, because their next request needs a block so large that none can become free at present.
	Waiting, Unfittable int
	// Shares is how many shares are open. Clients is how many clients with a key the pool knows:
	// each has a share, holds memory, or is blamed (Client.blamed). Active is how many clients hold
	// memory or wait for it.
	Shares, Clients, Active int
	// Granted is how many requests got memory, Waited how many had to queue first, and Refused how
	// many got an error.
	Granted, Waited, Refused uint64
	// Ended counts the connections that the pool made end because memory was short and their peers
	// made no progress (Holder.End).
	Ended uint64
	// Pressed is true if memory is short: see Pool.Pressed.
	Pressed bool
}

// Stats returns the counters of this moment.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{
		Ceiling:    int64(p.total()) * PageSize,
		InUse:      int64(p.inUse()) * PageSize,
		Peak:       int64(p.peak) * PageSize,
		Charged:    p.heap.Load(),
		Small:      int64(p.reserve.inUse) * PageSize,
		Resident:   int64(p.resident()) * PageSize,
		Trimmed:    p.trimmed,
		Waiting:    p.waiting,
		Unfittable: p.unfittable,
		Shares:     len(p.shares),
		Clients:    len(p.clients),
		Active:     int(p.active),
		Granted:    p.granted,
		Waited:     p.waited,
		Refused:    p.refused,
		Ended:      p.ended,
		Pressed:    p.pressed.Load(),
	}
}
