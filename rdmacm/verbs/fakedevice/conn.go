package fakedevice

import (
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// Statuses that have no name in package device.
const (
	localLength     device.Status = 1
	localProtection device.Status = 4
	invalidRequest  device.Status = 9
)

// The largest number of requests that one Flush posts, and of completions that one Poll
// returns.
const (
	flush = 64
	polls = 64
)

// A queue counts the requests of a send queue or a receive queue, and holds their completions.
// room is the largest number of requests that fit.
type queue struct {
	room      int
	posted    uint64 // number of all requests posted so far
	reclaimed uint64 // number of posted requests whose room is free again
	done      []entry
	armed     bool
}

type entry struct {
	device.Completion
	count uint64 // number of the request, counted from 1 in the order of posts
}

// A work is a posted work request.
type work struct {
	device.Work
	count uint64
}

type conn struct {
	id       *id
	in       *domain
	caps     device.Caps
	sends    queue
	receives queue
	works    []work // not carried out yet
	reads    []work // RDMA Reads that are not answered
	promised []device.Receive
	failed   bool // the queue pair is in the error state
	deaf     bool // messages for this side wait, as over siw (see New)
	left     bool // Disconnect was called
	ending   bool // DestroyQueues was called
	noQP     bool // the queues were destroyed
	gone     bool // Destroy was called

	signal  chan struct{}
	flushes atomic.Int32 // calls of Flush under way
	calls   atomic.Int32 // calls of Flush and Poll so far
	serving bool

	polled    []device.Completion
	toPost    []device.Work
	toPromise []device.Receive
}

func (i *id) Create(o device.Domain, caps device.Caps) (device.Conn, error) {
	d := i.c.d
	if err := d.fails("Create"); err != nil {
		return nil, err
	}
	if d.FailCreate != nil {
		if err := d.FailCreate(caps); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a := &d.Attributes
	if in := o.(*domain); i.closed || i.conn != nil || in.closed || in.d != d {
		panic("fakedevice: Create of an ID that is closed or has queues, or in a domain that is closed or another device's")
	}
	if int(max(caps.Sends, caps.Receives)) > min(a.QPWorks, a.CQEntries) || int(caps.SGEs) > a.SGEs {
		return nil, unix.EINVAL
	}
	c := &conn{
		id: i, in: o.(*domain), caps: caps, sends: queue{room: int(caps.Sends)}, receives: queue{room: int(caps.Receives), armed: true},
		signal: make(chan struct{}, 1), toPost: make([]device.Work, flush), toPromise: make([]device.Receive, flush),
	}
	i.conn = c
	c.in.users++
	d.left.Conns++
	d.left.Queues++
	return c, nil
}

// lock locks the device for a call of one of c's methods, and returns the function that unlocks
// it. It panics after Destroy, when no calls are allowed.
func (c *conn) lock() (unlock func()) {
	c.id.c.d.mu.Lock()
	if c.gone {
		c.id.c.d.mu.Unlock()
		panic("fakedevice: a connection is used after Destroy")
	}
	return c.id.c.d.mu.Unlock
}

func (c *conn) Works() []device.Work       { return c.toPost }
func (c *conn) Receives() []device.Receive { return c.toPromise }

func (c *conn) Accept(p device.Param) error {
	if err := c.id.c.d.fails("Accept"); err != nil {
		return err
	}
	defer c.lock()()
	c.deaf = c.id.c.d.Attributes.SIW
	return c.id.answer(p)
}

func (c *conn) Connect(p device.Param) error {
	if err := c.id.c.d.fails("Connect"); err != nil {
		return err
	}
	defer c.lock()()
	return c.id.begin(p)
}

func (c *conn) Flush(armSends bool, receives, works int) error {
	c.calls.Add(1)
	if c.flushes.Add(1) > 1 {
		panic("fakedevice: two goroutines call Flush")
	}
	defer c.flushes.Add(-1)
	if err := c.id.c.d.fails("Flush"); err != nil {
		return err
	}
	defer c.lock()()
	if c.ending {
		panic("fakedevice: Flush after DestroyQueues")
	}
	if armSends {
		c.sends.armed = true
	}
	for _, r := range c.toPromise[:receives] {
		if !c.receives.take() {
			return unix.ENOMEM
		}
		c.promised = append(c.promised, r)
	}
	most := works
	if d := c.id.c.d; d.Take != nil {
		most = d.Take(works)
	}
	defer c.carryOut()
	for i := range c.toPost[:works] {
		w := &c.toPost[i]
		if err := c.refused(w); err != nil {
			return err
		}
		if i == most || !c.sends.take() {
			return unix.ENOMEM
		}
		c.works = append(c.works, work{*w, c.sends.posted})
	}
	return nil
}

// refused returns the error with which the device refuses w, or nil.
func (c *conn) refused(w *device.Work) error {
	a := &c.id.c.d.Attributes
	switch {
	case a.SIW && w.Op != device.Read && w.Flags&device.Signal == 0 && length(w) >= unix.Getpagesize():
		return unix.EPERM
	case !c.id.accepted, w.Count > uint16(c.caps.SGEs), w.Op == device.Read && int(w.Count) > max(a.ReadSGEs, 1):
		return unix.EINVAL
	case a.MaxMessage > 0 && length(w) > a.MaxMessage: // as for ReadSGEs, 0 means that the driver does not say
		return unix.EINVAL
	case w.Op < device.Write || w.Op > device.Send:
		return unix.EOPNOTSUPP
	}
	return nil
}

// take reserves a place in the queue for a request. It returns false if the queue is full.
func (q *queue) take() bool {
	if q.posted-q.reclaimed == uint64(q.room) {
		return false
	}
	q.posted++
	return true
}

func (c *conn) complete(q *queue, count uint64, done device.Completion) {
	q.done = append(q.done, entry{done, count})
	if q.armed {
		q.armed = false
		notify(c.signal)
	}
}

func (c *conn) completeWork(w *work, status device.Status) {
	if status != device.OK || w.Flags&device.Signal != 0 {
		c.id.c.d.Completions.Add(1)
		c.complete(&c.sends, w.count, device.Completion{ID: w.ID, Status: status})
	}
}

func (c *conn) completeReceive(r device.Receive, status device.Status, length int) {
	// Receives complete in order, and r has just been removed from promised, so the difference
	// is the number of r.
	c.complete(&c.receives, c.receives.posted-uint64(len(c.promised)), device.Completion{
		ID: r.ID, Status: status, Length: uint32(length), Receive: device.Message,
	})
}

// Immediate makes the peer of each connection post an RDMA Write or a Send of n bytes with immediate
// data. The peer needs no key for an empty Write, and this device carries out a longer one as if the peer
// had a key. The connection must have promised a receive.
func (d *Device) Immediate(op device.Op, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.ids {
		c := i.conn
		switch {
		case c == nil || i.peer == nil || c.failed || c.noQP:
		case len(c.promised) == 0:
			c.fail()
		case op == device.Write:
			r := c.promised[0]
			c.promised = c.promised[1:]
			c.complete(&c.receives, c.receives.posted-uint64(len(c.promised)), device.Completion{
				ID: r.ID, Length: uint32(n), Receive: device.Immediate,
			})
		default:
			if _, fault := c.deliver(c, [][]byte{make([]byte, n)}, n); fault {
				c.fail()
			}
		}
	}
}

// fail puts the queue pair into the error state. All its requests complete with the status
// Flushed. On siw the oldest work request completes with the status LocalOperation instead.
func (c *conn) fail() {
	c.failed = true
	status := device.Flushed
	if c.id.c.d.Attributes.SIW {
		status = device.LocalOperation
	}
	for _, w := range append(c.reads, c.works...) {
		c.completeWork(&w, status)
		status = device.Flushed
	}
	c.reads, c.works = nil, nil
	for len(c.promised) > 0 {
		r := c.promised[0]
		c.promised = c.promised[1:]
		c.completeReceive(r, device.Flushed, 0)
	}
}

// carryOut carries out the posted work. Work stays posted if the peer's queue pair is in the
// error state or destroyed, because a real device would repeat it for a long time.
func (c *conn) carryOut() {
	if c.noQP {
		return
	}
	if c.failed {
		c.fail()
		return
	}
	for len(c.works) > 0 && !c.id.c.d.held && !c.id.c.d.hangs {
		if d := c.id.c.d; d.vanished || c.id.failing() {
			status := device.RetriesExceeded
			if c.id.failing() {
				status = device.LocalOperation
			}
			w := c.works[0]
			c.works = c.works[1:]
			c.completeWork(&w, status)
			c.fail()
			return
		}
		if c.id.peer == nil || c.id.peer.conn == nil {
			return
		}
		p := c.id.peer.conn
		if p.failed || p.noQP || p.deaf {
			return
		}
		w := c.works[0]
		c.works = c.works[1:]
		if w.Op == device.Read && c.id.c.d.noReads {
			c.reads = append(c.reads, w)
			continue
		}
		mine, theirs := c.carry(p, &w)
		c.completeWork(&w, mine)
		if w.Op == device.Read && c.deaf {
			c.deaf = false
			p.carryOut()
		}
		if mine != device.OK {
			c.fail()
		}
		if theirs {
			p.fail()
		}
	}
}

func length(w *device.Work) (n int) {
	for _, e := range w.SGE[:w.Count] {
		n += int(e.Length)
	}
	return n
}

// carry carries out w. p is the peer's queue pair, whose memory w reads or writes. status is the
// status with which w completes. fault is true if p has to go into the error state.
func (c *conn) carry(p *conn, w *work) (status device.Status, fault bool) {
	local := 0
	if w.Op == device.Read {
		if local = device.LocalWrite; c.id.c.d.Attributes.IWARP {
			local |= device.RemoteWrite
		}
	}
	var pieces [][]byte
	for _, e := range w.SGE[:w.Count] {
		m, ok := c.in.reach(e.LKey, e.Addr, int(e.Length), local)
		if !ok {
			return localProtection, false
		}
		pieces = append(pieces, m)
	}
	n := length(&w.Work)
	switch {
	case w.Op == device.Send:
		return c.deliver(p, pieces, n)
	case n == 0:
		return device.OK, false
	case w.Op == device.Write:
		to, ok := p.in.reach(w.RKey, w.Remote, n, device.RemoteWrite)
		if !ok {
			return device.RemoteAccess, true
		}
		copy(to, slices.Concat(pieces...))
	default:
		from, ok := p.in.reach(w.RKey, w.Remote, n, device.RemoteRead)
		if !ok {
			return device.RemoteAccess, true
		}
		for _, m := range pieces {
			from = from[copy(m, from):]
		}
	}
	return device.OK, false
}

// deliver carries out a Send. It returns the same results as carry.
func (c *conn) deliver(p *conn, pieces [][]byte, n int) (status device.Status, fault bool) {
	if len(p.promised) == 0 {
		return device.NotPromised, true
	}
	r := p.promised[0]
	p.promised = p.promised[1:]
	if n > int(r.At.Length) {
		p.completeReceive(r, localLength, 0)
		return invalidRequest, true
	}
	to, ok := p.in.reach(r.At.LKey, r.At.Addr, int(r.At.Length), device.LocalWrite)
	if !ok {
		p.completeReceive(r, localProtection, 0)
		return invalidRequest, true
	}
	copy(to, slices.Concat(pieces...))
	p.completeReceive(r, device.OK, n)
	return device.OK, false
}

func (c *conn) Poll(flags int) (done []device.Completion, more bool, err error) {
	c.calls.Add(1)
	if err := c.id.c.d.fails("Poll"); err != nil {
		return nil, false, err
	}
	defer c.lock()()
	if flags&device.ArmReceives != 0 {
		c.receives.armed = true
	}
	if flags&device.ArmSends != 0 {
		c.sends.armed = true
	}
	clear(c.polled) // a device overwrites them, too
	c.polled = c.sends.poll(c.receives.poll(c.polled[:0], polls/2), polls)
	return c.polled, len(c.receives.done)+len(c.sends.done) > 0, nil
}

func (q *queue) poll(done []device.Completion, most int) []device.Completion {
	for len(q.done) > 0 && len(done) < most {
		done = append(done, q.done[0].Completion)
		q.reclaimed = q.done[0].count
		q.done = q.done[1:]
	}
	return done
}

func (c *conn) Serve(ready func() bool) error {
	unlock := c.lock()
	c.serving = true
	unlock()
	for goOn := true; goOn; {
		before := c.calls.Load()
		if goOn = ready(); c.id.c.d.Woken != nil {
			c.id.c.d.Woken(int(c.calls.Load() - before))
		}
		if goOn && c.id.c.d.Deaf != nil {
			unlock = c.lock()
			defer unlock()
			c.serving = false
			return c.id.c.d.Deaf
		}
		if goOn {
			<-c.signal
		}
	}
	defer c.lock()()
	c.serving = false
	return nil
}

func (c *conn) Wake() {
	defer c.lock()()
	notify(c.signal)
}

func (c *conn) Disconnect() error {
	defer c.lock()()
	if c.left = true; !c.noQP && !c.id.c.d.hangs {
		c.fail()
	}
	if !c.id.unsettled {
		c.id.part()
	}
	return nil
}

func (c *conn) DestroyQueues() error {
	err := c.id.c.d.fails("DestroyQueues")
	defer c.lock()()
	if c.serving || c.flushes.Load() > 0 || c.noQP {
		panic("fakedevice: DestroyQueues before Serve returned, beside Flush, or again after it has succeeded")
	}
	c.ending = true
	if c.id.c.d.hangs {
		err = unix.ETIMEDOUT
	}
	if err != nil && !c.id.c.d.removed {
		c.in.stuck = true
		return err
	}
	c.destroyQueues()
	return nil
}

func (c *conn) destroyQueues() {
	c.noQP = true
	c.id.c.d.left.Queues--
	c.reads, c.works, c.promised = nil, nil, nil
	c.in.users--
}

func (c *conn) Destroy() {
	defer c.lock()()
	if !c.ending {
		panic("fakedevice: Destroy before DestroyQueues")
	}
	if !c.noQP && !c.id.c.d.hangs {
		c.destroyQueues()
	}
	c.gone = true
	c.id.c.d.left.Conns--
	c.id.close()
}
