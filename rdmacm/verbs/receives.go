package verbs

import (
	"bytes"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// receives holds the receives that the connection has promised, and the buffers for messages.
// Conn.mu guards it.
type receives struct {
	size    int // size of the largest message, in bytes
	depth   int // size of the receive queue, in requests
	owed    int // number of receives that are promised and not posted yet
	posted  int // number of receives that the device has
	kept    int // number of buffers with messages that the ULP has not released
	slabs   []*slab
	unknown bool // the memory of the slabs is no longer registered
	buffers []*buffer
	free    []*buffer
	// reserved is the number of buffers for which memory is reserved. If short is true, there is no memory
	// for more of them, so messages are copied, and their buffers are free at once.
	reserved int
	short    bool
}

// A buffer holds one message.
type buffer struct {
	rdmacm.Recv
	c      *Conn
	index  uint64
	memory []byte
	key    uint32
}

// receiveBit is set in the ID of each Receive, and in no ID of a Work.
const receiveBit = 1 << 63

// memoryLocked makes n more buffers. It releases mu while the device registers them.
func (c *Conn) memoryLocked(n int) error {
	if n <= 0 {
		return nil
	}
	in := &c.in
	room := room(in.size)
	c.mu.Unlock()
	s, err := newSlab(c.domain.Domain, n, room, device.LocalWrite)
	c.mu.Lock()
	if err != nil {
		return err
	}
	in.slabs = append(in.slabs, s)
	for i := range n {
		b := &buffer{c: c, index: uint64(len(in.buffers)), memory: s.memory[i*room:][:in.size:in.size], key: s.region.LKey()}
		b.Free = b.release
		in.buffers = append(in.buffers, b)
		in.free = append(in.free, b)
	}
	return nil
}

// Provide implements rdmacm.Conn.
func (c *Conn) Provide(count, size int) {
	if count < 0 || size < c.in.size {
		panic(fmt.Sprintf("verbs: Provide(%d, %d) after %d bytes at set-up", count, size, c.in.size))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in.owed+c.in.posted+count > c.in.depth {
		panic(fmt.Sprintf("verbs: %d messages are promised, MaxReceives is %d", c.in.owed+c.in.posted+count, c.in.depth))
	}
	if c.ending.phase < destroyed {
		c.in.owed += count
		c.kickLocked()
	}
}

// release takes back a message from the ULP. It is the Recv's Free.
func (b *buffer) release(*rdmacm.Recv) {
	c := b.c
	c.mu.Lock()
	c.in.free = append(c.in.free, b)
	c.in.kept--
	c.unmapLocked()
	c.mu.Unlock()
}

// unmapLocked unmaps the memory of messages once it is no longer registered and the ULP has
// released all messages.
func (c *Conn) unmapLocked() {
	if c.in.unknown && c.in.kept == 0 {
		for _, s := range c.in.slabs {
			s.unmap()
		}
		c.in.slabs = nil
	}
}

// growth is the number of buffers that are added when none is free. That happens because the
// ULP may promise receives before it releases messages.
const growth = 16

// growLocked adds buffers. It reserves memory for the next growth as well, so that it learns one growth
// ahead that messages must be copied: the device must have a receive for each promise. It releases mu.
func (c *Conn) growLocked() error {
	in := &c.in
	for !in.short && len(in.buffers)+2*growth > in.reserved {
		c.mu.Unlock()
		c.p.mu.Lock()
		err := c.p.extendLocked(c.taken, growth*int64(room(in.size)))
		c.p.mu.Unlock()
		c.mu.Lock()
		if in.short = err != nil; !in.short {
			in.reserved += growth
		}
	}
	n := min(growth, in.reserved-len(in.buffers))
	if n <= 0 {
		return fmt.Errorf("%w: messages in progress use all %d buffers", rdmacm.ErrNoMemory, in.reserved)
	}
	return c.memoryLocked(n)
}

// receivesLocked fills the slice requests, for the next Flush, with receives that were promised
// and not posted yet. It returns the number of requests that it filled.
func (c *Conn) receivesLocked(requests []device.Receive) (n int, err error) {
	in := &c.in
	for n < len(requests) && in.owed > 0 && in.posted < in.depth {
		if len(in.free) == 0 {
			if err = c.growLocked(); err != nil {
				return n, err
			}
		}
		b := in.free[len(in.free)-1]
		in.free = in.free[:len(in.free)-1]
		requests[n] = device.Receive{ID: receiveBit | b.index, At: device.SGE{Addr: address(b.memory), Length: uint32(len(b.memory)), LKey: b.key}}
		in.owed--
		in.posted++
		n++
	}
	return n, nil
}

// arrived returns the message of a completed receive, or nil if the receive brought none. In that case
// the connection is ending.
func (c *Conn) arrived(done *device.Completion) *rdmacm.Recv {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.in.buffers[done.ID&^receiveBit]
	c.in.posted--
	if done.Status != device.OK || done.Receive != device.Message || int(done.Length) > len(b.memory) {
		c.in.free = append(c.in.free, b)
		switch {
		case done.Status == device.OK:
			c.failLocked(errNoMessage)
		case done.Status != device.Flushed:
			c.failLocked(&StatusError{Status: done.Status})
		}
		c.ending.dirty = true
		return nil
	}
	if c.in.short {
		c.in.free = append(c.in.free, b)
		return &rdmacm.Recv{Bytes: bytes.Clone(b.memory[:done.Length]), Invalidated: done.Invalidated, Free: func(*rdmacm.Recv) {}}
	}
	c.in.kept++
	b.Bytes, b.Invalidated = b.memory[:done.Length], done.Invalidated
	return &b.Recv
}
