package census

// Stats is a snapshot of a Census.
type Stats struct {
	// Seats counts seats by Stage. Leaving counts the connections that lost their seats and are not
	// closed yet. Addresses counts client addresses.
	Seats              [Known + 1]int
	Leaving, Addresses int
	// Entered is how many newcomers have got a seat. Count is how many connections the Census
	// refused or ended, by Reason.
	Entered uint64
	Count   [reasons]uint64
}

// Total is the number of seats.
func (s *Stats) Total() (n int) {
	for _, k := range s.Seats {
		n += k
	}
	return n
}

// Stats returns the counts of this moment.
func (c *Census) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Stats{Leaving: c.leaving, Addresses: len(c.addresses), Entered: c.entered, Count: c.count}
	for stage := range c.stages {
		s.Seats[stage] = c.stages[stage].n
	}
	return s
}
