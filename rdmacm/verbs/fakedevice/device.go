// Package fakedevice is an RDMA device in memory, for tests of rdmacm/verbs. It carries work out
// as soon as it is posted. It checks keys, offsets, lengths, rights, domains and queue sizes. It
// panics if its user does something that would make a real device touch freed memory.
//
// Like shim, it may deliver an event of an ID after the ID was closed.
package fakedevice

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// A Device is a device.Library with one device, which carries every address. Its fields must be
// set before it is used. Join makes a library of several.
type Device struct {
	Attributes device.Attributes
	// Fail, if not nil, is called for each call of a method that can fail, with the method's name, such
	// as "Create". It returns the error with which the call fails, or nil. It may be called on any
	// goroutine.
	Fail func(call string) error
	// FailCreate and FailRegister, if not nil, are called for each ID.Create and
	// Domain.Register. They return the error with which the call fails, or nil.
	FailCreate   func(caps device.Caps) error
	FailRegister func(length, access int) error
	// PortOf, if not nil, returns the number of the port that carries an address. If it is nil, port 1
	// carries all.
	PortOf func(netip.Addr) int
	// Deregistered, if not nil, is called while a region is being deregistered, with the
	// region's length in bytes.
	Deregistered func(length int)
	// Woken, if not nil, is called each time that the function ready of Serve has returned, with
	// the number of calls of Poll and Flush since ready was called.
	Woken func(calls int)
	// Take, if not nil, is called with the number of works of each Flush, and returns how many of
	// them the Flush accepts. If that is fewer, the Flush fails with ENOMEM at the first work
	// that is not accepted.
	Take func(works int) int
	// If HoldEstablished is true, the accepting side gets the event Established only when Settle
	// is called. Before that, a Disconnect of that side does not reach the peer. rdma_cm behaves
	// in this way until the peer's last message of the set-up has arrived.
	HoldEstablished bool
	// If Deaf is not nil, connections cannot wait for completions: Serve returns Deaf after it has
	// called its function once.
	Deaf error
	// If Lose is not nil and returns true for an event's type, the device never delivers that
	// event.
	Lose func(t device.EventType) bool

	// Completions counts the completions of works.
	Completions atomic.Int64

	mu        sync.Mutex // guards everything of the device
	number    uint64
	key       uint32
	port      uint16
	regions   map[uint32]*region
	listeners map[netip.AddrPort]*id
	ids       map[uint64]*id
	held      bool
	hangs     bool                // the argument of Hang
	async     []device.AsyncEvent // not taken by Async yet
	fatal     bool                // the device has had a fatal error
	dead      bool                // it was retired after a fatal error, and no use of it succeeds before Return
	down      map[int]bool        // ports that are down
	failing   map[int]bool        // ports that are down, or going down
	mute      bool                // the connection manager had to send over a failing port, and can never send again
	vanished  bool                // the argument of Vanish
	noReads   bool                // StopReads was called
	removed   bool
	inUse     chan struct{} // closed when no device.Device of a removed device is open any more
	left      Left
}

// Left counts the objects of a device that its users have made and not closed.
type Left struct{ Channels, Devices, IDs, Domains, Regions, Queues, Conns int }

// devices is the number of devices made so far. No two IDs have one number, whatever their devices.
var devices atomic.Uint64

// New returns a device like rxe, or like siw if iwarp is true. If Attributes.SIW is set, an
// accepted connection gets no message before its own first RDMA Read is answered, because siw
// may miss data that arrives while it accepts. The device then also refuses a request of a page or
// more that is not signaled, because siw sends the memory of such a request without a copy.
func New(iwarp bool) *Device {
	protocol := "RoCE"
	if iwarp {
		protocol = "iWARP"
	}
	return &Device{
		Attributes: device.Attributes{
			Name: "fake0", Protocol: protocol, IWARP: iwarp, QPs: 1 << 10, QPWorks: 1 << 14, SGEs: 32, ReadSGEs: 32, CQEntries: 1 << 15,
			ReadsServed: 128, ReadsOutstanding: 128, MaxMessage: 8 << 20,
			Active: true, Device: 1, Port: 1,
		},
		number: devices.Add(1) << 32, key: 0x100, port: 30000, regions: make(map[uint32]*region),
		listeners: make(map[netip.AddrPort]*id), ids: make(map[uint64]*id), down: make(map[int]bool), failing: make(map[int]bool),
	}
}

// portOf returns the number of the port that carries an address.
func (d *Device) portOf(a netip.Addr) int {
	if d.PortOf == nil {
		return 1
	}
	return d.PortOf(a)
}

// attributesAt returns the attributes of the device and of the port that carries an address.
func (d *Device) attributesAt(at netip.Addr) device.Attributes {
	a := d.Attributes
	a.Port = d.portOf(at)
	a.Active = a.Active && !d.down[a.Port]
	return a
}

// fails returns the error with which the call of a method must fail, or nil.
func (d *Device) fails(call string) error {
	if d.Fail == nil {
		return nil
	}
	return d.Fail(call)
}

// Left returns the numbers of objects that were not closed.
func (d *Device) Left() Left {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left
}

// Hold(true) stops the device from carrying out work. Hold(false) lets it continue.
func (d *Device) Hold(hold bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held = hold; !hold {
		for _, i := range d.ids {
			if i.conn != nil {
				i.conn.carryOut()
			}
		}
	}
}

// Hang(true) makes the device's firmware hang: the device neither carries out requests nor returns them, and
// the destruction of queues fails with ETIMEDOUT. Hang(false) ends that. So does Remove.
func (d *Device) Hang(hang bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hangs = hang
	for _, i := range d.ids {
		if c := i.conn; c != nil && c.left && !hang {
			c.fail()
		}
	}
}

// Tell delivers an event, such as device.DeviceRemoval, to each connection.
func (d *Device) Tell(t device.EventType) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.ids {
		if i.conn != nil {
			i.tell(device.Event{Type: t})
		}
	}
}

// Vanish(true) makes the peer of each connection vanish, as if its machine had lost its power. From
// then on, work fails as soon as it is carried out, and no side is told that the other one leaves,
// but the connection manager repeats its message until the ID is closed. Vanish(false) ends that.
func (d *Device) Vanish(vanished bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.vanished = vanished
}

// StopReads stops the device from answering RDMA Reads. Work posted after a Read completes all the
// same, as with siw.
func (d *Device) StopReads() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.noReads = true
}

// Settle delivers the Established events that HoldEstablished has delayed.
func (d *Device) Settle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.ids {
		if i.unsettled {
			i.unsettled = false
			i.tell(device.Event{Type: device.Established})
		}
	}
}

type domain struct {
	d      *Device
	users  int // regions and queue pairs
	closed bool
	stuck  bool // a queue pair or a region of the domain could not be destroyed
}

func (o *domain) Close() error {
	if err := o.d.fails("CloseDomain"); err != nil {
		return err
	}
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	if o.stuck && o.users > 0 {
		return unix.EBUSY
	}
	if o.closed || o.users > 0 {
		panic(fmt.Sprintf("fakedevice: a domain is closed (already: %v) with %d regions and queue pairs", o.closed, o.users))
	}
	o.closed = true
	o.d.left.Domains--
	return nil
}

type region struct {
	of     *domain
	memory []byte
	access int
	key    uint32
}

func (o *domain) Register(memory []byte, access int) (device.Region, error) {
	d := o.d
	if err := d.fails("Register"); err != nil {
		return nil, err
	}
	if d.FailRegister != nil {
		if err := d.FailRegister(len(memory), access); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if o.closed {
		panic("fakedevice: memory is registered in a closed domain")
	}
	if access&device.RemoteWrite != 0 && access&device.LocalWrite == 0 {
		return nil, unix.EINVAL
	}
	d.key++
	r := &region{of: o, memory: memory, access: access, key: d.key}
	d.regions[r.key] = r
	o.users++
	d.left.Regions++
	return r, nil
}

func (r *region) LKey() uint32 { return r.key }
func (r *region) RKey() uint32 { return r.key }

func (r *region) Deregister() error {
	d := r.of.d
	if err := d.fails("Deregister"); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		r.of.stuck = true
		return err
	}
	if d.Deregistered != nil {
		d.Deregistered(len(r.memory))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.regions[r.key] != r {
		panic("fakedevice: a region is deregistered twice")
	}
	delete(d.regions, r.key)
	r.of.users--
	d.left.Regions--
	return nil
}

// reach returns the memory from the address addr on, length bytes long, in the region with the
// given key. ok is false if there is no such region in the domain o, if it does not contain this
// memory, or if it does not grant all of the rights in access.
func (o *domain) reach(key uint32, addr uint64, length, access int) (memory []byte, ok bool) {
	r := o.d.regions[key]
	if r == nil || r.of != o || r.access&access != access {
		return nil, false
	}
	at := addr - uint64(uintptr(unsafe.Pointer(unsafe.SliceData(r.memory))))
	if at > uint64(len(r.memory)) || uint64(length) > uint64(len(r.memory))-at {
		return nil, false
	}
	return r.memory[at:][:length], true
}
