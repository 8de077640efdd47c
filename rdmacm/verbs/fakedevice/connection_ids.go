package fakedevice

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// Lengths of private data in InfiniBand's messages, in bytes.
const (
	requestData = 56
	acceptData  = 196
	rejectData  = 148
)

// Reason codes of an InfiniBand REJ message.
const (
	invalidService = 8
	consumer       = 28
)

type channel struct {
	d      *Device
	events []device.Event
	signal chan struct{}
	closed bool
	ids    int
}

// Open implements device.Library.
func (d *Device) Open() (device.Channel, error) {
	if err := d.fails("Open"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left.Channels++
	return &channel{d: d, signal: make(chan struct{}, 1)}, nil
}

func (c *channel) Events(told func(device.Event)) error {
	for {
		c.d.mu.Lock()
		events, closed := c.events, c.closed
		c.events = nil
		c.d.mu.Unlock()
		for _, e := range events {
			told(e)
		}
		if closed {
			return nil
		}
		<-c.signal
	}
}

func (c *channel) Close() {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if c.closed || c.ids > 0 {
		panic("fakedevice: an event channel is closed twice, or with IDs on it")
	}
	c.closed = true
	c.d.left.Channels--
	notify(c.signal)
}

// notify wakes the goroutine that waits for c.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// An id is an end of a connection that is being made or exists, or a listener.
type id struct {
	c             *channel
	number        uint64
	local, remote netip.AddrPort
	peer          *id // the other end, from Connect on; nil without a connection
	conn          *conn
	param         device.Param // argument of Connect
	accepted      bool
	unsettled     bool // accepted, but Established was not delivered yet
	closed        bool
	passive       bool
	of            uint64 // number of the device, as in Attributes.Device
}

func (c *channel) newID() *id {
	if c.closed {
		panic("fakedevice: an ID is made on a closed channel")
	}
	c.d.number++
	i := &id{c: c, number: c.d.number, of: c.d.Attributes.Device}
	c.d.ids[i.number] = i
	c.ids++
	c.d.left.IDs++
	return i
}

func (i *id) tell(e device.Event) {
	if i.closed || i.c.d.Lose != nil && i.c.d.Lose(e.Type) {
		return
	}
	if e.ID = i.number; e.Made != nil {
		e.Listener, e.ID = i.number, e.Made.(*id).number
	}
	if !e.Local.IsValid() {
		e.Local, e.Peer = i.local, i.remote
	}
	i.c.events = append(i.c.events, e)
	notify(i.c.signal)
}

// padded returns private data as it arrives at the peer: n bytes, with zeros at the end.
func padded(data []byte, n int) []byte { return append(make([]byte, 0, n), data...)[:n] }

func (c *channel) freePort() uint16 {
	c.d.port++
	return c.d.port
}

func (c *channel) Listen(addr netip.AddrPort, _ bool, _ int) (device.ID, error) {
	if err := c.d.fails("Listen"); err != nil {
		return nil, err
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if c.d.removed && !addr.Addr().IsUnspecified() {
		return nil, unix.ENODEV
	}
	if addr.Port() == 0 {
		addr = netip.AddrPortFrom(addr.Addr(), c.freePort())
	}
	if c.d.listeners[addr] != nil {
		return nil, unix.EADDRINUSE
	}
	i := c.newID()
	i.local = addr
	c.d.listeners[addr] = i
	return i, nil
}

func (c *channel) Resolve(addr netip.AddrPort, _ time.Duration) (device.ID, error) {
	if err := c.d.fails("Resolve"); err != nil {
		return nil, err
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	i := c.newID()
	i.local, i.remote = netip.AddrPortFrom(addr.Addr(), c.freePort()), addr
	if c.d.removed {
		i.tell(device.Event{Type: device.AddrError, Status: -int32(unix.ENODEV)})
		return i, nil
	}
	i.tell(device.Event{Type: device.AddrResolved})
	return i, nil
}

func (i *id) Number() uint64 { return i.number }
func (i *id) Port() uint16   { return i.local.Port() }

func (i *id) Attributes() (device.Attributes, error) {
	if err := i.c.d.fails("Attributes"); err != nil {
		return device.Attributes{}, err
	}
	i.c.d.mu.Lock()
	defer i.c.d.mu.Unlock()
	if i.of != i.c.d.Attributes.Device {
		return device.Attributes{}, unix.ENODEV
	}
	if i.c.d.dead {
		return device.Attributes{}, unix.EBADF
	}
	return i.c.d.attributesAt(i.local.Addr()), nil
}

func (i *id) Route(time.Duration) error {
	if err := i.c.d.fails("Route"); err != nil {
		return err
	}
	i.c.d.mu.Lock()
	defer i.c.d.mu.Unlock()
	i.tell(device.Event{Type: device.RouteResolved})
	return nil
}

func (i *id) OpenDomain() (device.Domain, error) {
	if err := i.c.d.fails("OpenDomain"); err != nil {
		return nil, err
	}
	i.c.d.mu.Lock()
	defer i.c.d.mu.Unlock()
	i.c.d.left.Domains++
	return &domain{d: i.c.d}, nil
}

func (i *id) Reject(data []byte) error {
	if err := i.c.d.fails("Reject"); err != nil {
		return err
	}
	i.c.d.mu.Lock()
	defer i.c.d.mu.Unlock()
	if len(data) > rejectData {
		return unix.EINVAL
	}
	return i.refuse(data)
}

func (i *id) refuse(data []byte) error {
	if !i.passive || i.accepted || i.peer == nil {
		return unix.EINVAL
	}
	i.peer.peer = nil
	i.peer.tell(device.Event{Type: device.Rejected, Status: consumer, Data: padded(data, rejectData)})
	i.peer = nil
	return nil
}

func (i *id) Close() {
	i.c.d.mu.Lock()
	defer i.c.d.mu.Unlock()
	if i.conn != nil {
		panic("fakedevice: Close of an ID that a connection has")
	}
	i.close()
}

func (i *id) close() {
	d := i.c.d
	if i.closed {
		panic("fakedevice: an ID is closed twice")
	}
	if i.refuse(nil) != nil && i.peer != nil {
		i.part()
	}
	i.closed = true
	delete(d.ids, i.number)
	if d.listeners[i.local] == i {
		delete(d.listeners, i.local)
	}
	i.c.ids--
	d.left.IDs--
}

// part ends the connection of i, or its request for a connection, and tells the other end.
func (i *id) part() {
	p := i.peer
	if p == nil {
		return
	}
	i.peer, p.peer = nil, nil
	if i.failing() {
		i.c.d.mute = true
		return
	}
	if i.c.d.vanished {
		i.repeat()
		return
	}
	if !p.accepted {
		p.tell(device.Event{Type: device.Unreachable, Status: -int32(unix.ETIMEDOUT)})
		return
	}
	p.tell(device.Event{Type: device.Disconnected})
	i.tell(device.Event{Type: device.Disconnected})
}

// failing reports whether the port of i is down, or going down.
func (i *id) failing() bool { return i.c.d.failing[i.c.d.portOf(i.local.Addr())] }

// repeatAfter is the time after which rdma_cm repeats a message that was not answered.
const repeatAfter = 4300 * time.Millisecond

// repeat makes the connection manager send for i again and again.
func (i *id) repeat() {
	time.AfterFunc(repeatAfter, func() {
		d := i.c.d
		d.mu.Lock()
		defer d.mu.Unlock()
		if !i.closed {
			d.mute = d.mute || i.failing()
			i.repeat()
		}
	})
}

// begin implements device.Conn.Connect.
func (i *id) begin(p device.Param) error {
	d := i.c.d
	if i.remote == (netip.AddrPort{}) || i.peer != nil || i.passive || len(p.Data) > requestData {
		return unix.EINVAL
	}
	if d.mute {
		i.tell(device.Event{Type: device.Unreachable, Status: -int32(unix.ETIMEDOUT)})
		return nil
	}
	l := d.listeners[i.remote]
	for _, any := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if l == nil && any.Is4() == i.remote.Addr().Is4() {
			l = d.listeners[netip.AddrPortFrom(any, i.remote.Port())]
		}
	}
	if l == nil || d.removed {
		i.tell(device.Event{Type: device.Rejected, Status: invalidService})
		return nil
	}
	made := l.c.newID()
	made.local, made.remote, made.passive = i.remote, i.local, true
	made.peer, i.peer, i.param = i, made, p
	l.tell(device.Event{
		Type: device.ConnectRequest, Made: made, Data: padded(p.Data, requestData), Responder: p.Initiator, Initiator: p.Responder,
		Local: made.local, Peer: made.remote,
	})
	return nil
}

// answer implements device.Conn.Accept.
func (i *id) answer(p device.Param) error {
	if !i.passive || i.accepted || len(p.Data) > acceptData {
		return unix.EINVAL
	}
	if i.peer == nil {
		return unix.ECONNRESET
	}
	// A real device may refuse more RDMA Reads than the request offered.
	if asked := &i.peer.param; p.Initiator > asked.Responder || p.Responder > asked.Initiator {
		return unix.EINVAL
	}
	i.accepted, i.peer.accepted = true, true
	i.peer.tell(device.Event{Type: device.Established, Data: padded(p.Data, acceptData), Responder: p.Initiator, Initiator: p.Responder})
	if i.unsettled = i.c.d.HoldEstablished; !i.unsettled {
		i.tell(device.Event{Type: device.Established})
	}
	return nil
}
