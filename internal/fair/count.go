package fair

import "sync/atomic"

// A Count counts the units of a resource that only their holders give back, by the rule of Lent, where the lock of
// a Tree would cost too much. It has no lock, and any goroutine may call its methods. The user makes a Count for
// the resource, one for each site, and one for each address of a site, and drops those that hold nothing.
//
// Two goroutines that ask Room at the same time may both find the same units free.
type Count struct {
	size   int64  // of a resource
	up     *Count // the resource of a site, or the site of an address
	held   atomic.Int64
	active atomic.Int64 // how many Counts below hold units
}

// Divide makes c the Count of a resource of size units. Call it before any other method.
func (c *Count) Divide(size int64) { c.size = size }

// Under makes c a site of a resource, or an address of a site. Call it before the first Add.
func (c *Count) Under(up *Count) { c.up = up }

// Held returns the number of units that c holds, with all below it.
func (c *Count) Held() int64 { return c.held.Load() }

// Add adds units, which may be negative, to those that c holds, and to those of its site and its resource. It
// refuses nothing.
func (c *Count) Add(units int64) {
	if units == 0 {
		return
	}
	held := c.held.Add(units)
	if c.up == nil {
		return
	}
	switch {
	case held == units:
		c.up.active.Add(1)
	case held == 0:
		c.up.active.Add(-1)
	}
	c.up.Add(units)
}

// Room returns how many more units c may hold: those that Lent allows it and its site, and that no other holds. It
// is negative if c holds more.
func (c *Count) Room() int64 {
	_, room := c.most()
	return room
}

// most returns how many units c may hold by the rule, and its Room.
func (c *Count) most() (most, room int64) {
	held := c.held.Load()
	if c.up == nil {
		return c.size, c.size - held
	}
	most, room = c.up.most()
	most = Lent(most, c.up.held.Load(), held, int(c.up.active.Load()))
	return most, min(room, most-held)
}
