package verbs

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// chunkSize is the size of the chunks in which the arena is registered, in bytes.
const chunkSize = 16 << 20

// An rnic is an open device, with the protection domain that its connections share.
type rnic struct {
	device.Attributes // those of the port that was used first
	p                 *Provider
	open              device.Device
	shared            device.Domain
	arena             []byte

	// users counts the connections that use the rnic. Only rnicOf adds to it, under Provider.mu
	// and while Provider.devices has the rnic.
	users sync.WaitGroup
	gone  chan struct{} // closed when the device was removed
	ended int           // number of connections that the removal ended. Provider.mu guards it
	// connections is the number of connections of the device. Provider.mu guards it.
	connections int
	// ports has the state of each port that was used: whether it was active when its last event was
	// taken. Provider.mu guards it.
	ports  map[int]bool
	events map[device.AsyncType]uint64 // number of events of each type. Provider.mu guards it
	taking sync.Mutex                  // held by a goroutine that takes events

	// chunks holds the registered region of each chunk of the arena, or nil for a chunk that is
	// not registered yet. A goroutine that registers a chunk holds the mutex registering.
	chunks      []atomic.Pointer[device.Region]
	registering sync.Mutex
}

// rnicOf returns the device of id, and the attributes of id's port. local is an address of the device.
// rnicOf adds the caller to the rnic's users.
func (p *Provider) rnicOf(id device.ID, local netip.Addr) (*rnic, device.Attributes, error) {
	a, err := id.Attributes()
	if err == nil {
		err = judge(&a)
	}
	if err != nil {
		return nil, a, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.devices[a.Device]
	if d == nil {
		if d, err = p.openLocked(&a, local); err != nil {
			return nil, a, err
		}
	}
	if _, known := d.ports[a.Port]; !known {
		d.ports[a.Port] = a.Active
	}
	d.users.Add(1)
	return d, a, nil
}

func (p *Provider) openLocked(a *device.Attributes, local netip.Addr) (*rnic, error) {
	if p.arena == nil && p.cfg.Arena != nil {
		p.arena = p.cfg.Arena()
	}
	d := &rnic{
		Attributes: *a, p: p, arena: p.arena, gone: make(chan struct{}), events: make(map[device.AsyncType]uint64), ports: make(map[int]bool),
		chunks: make([]atomic.Pointer[device.Region], (len(p.arena)+chunkSize-1)/chunkSize),
	}
	var err error
	if d.open, err = p.channel.Carrier(local); err != nil {
		return nil, err
	}
	if other := d.open.Attributes(); other.Device != a.Device {
		err = fmt.Errorf("verbs: device %s carries %v now, and not %s", other.Name, local, a.Name)
	} else {
		d.shared, err = d.open.OpenDomain()
	}
	if err != nil {
		d.open.Close()
		return nil, err
	}
	p.devices[d.Device], p.sinks[d.open.Number()] = d, d
	p.leaving.Go(d.keep)
	return d, nil
}

// keep takes the device's asynchronous events, and watches whether the machine still has the
// device. When the device was removed or the provider closes, keep waits until no connection
// uses the device, and then closes it.
func (d *rnic) keep() {
	p := d.p
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for removed, closing := false, false; !removed && !closing; {
		select {
		case <-look.C:
			d.takeAsync()
			if !d.open.Present() {
				p.mu.Lock()
				d.removedLocked()
				p.mu.Unlock()
			}
		case <-d.gone:
			removed = true
		case <-p.closing:
			closing = true
		}
	}
	d.users.Wait()
	p.forget(d.open.Number())
	for i := range d.chunks {
		if r := d.chunks[i].Load(); r != nil {
			(*r).Deregister()
		}
	}
	if err := d.shared.Close(); err != nil {
		p.cfg.Log(fmt.Sprintf("RDMA device %s keeps memory registered until the daemon ends: %v", d.Name, err))
	}
	select {
	case <-d.gone:
		d.open.Retire()
		p.cfg.Log(fmt.Sprintf("RDMA device %s is gone, %d connections have ended", d.Name, d.ended))
	default:
		d.open.Close()
	}
}

// eventLocked implements sink.
func (d *rnic) eventLocked(e *device.Event) {
	if e.Type == device.DeviceRemoval {
		d.removedLocked()
	}
}

// removedLocked ends the connections of the device after its removal, so that keep can close the
// device. The kernel cannot complete the removal while a process has the device open.
func (d *rnic) removedLocked() {
	if d.p.devices[d.Device] != d {
		return
	}
	delete(d.p.devices, d.Device)
	close(d.gone)
	for _, s := range d.p.sinks {
		if c, ok := s.(*Conn); ok && c.rnic == d {
			c.eventLocked(&device.Event{Type: device.DeviceRemoval})
			d.ended++
		}
	}
}

// chunk returns the number of the arena's chunk in which b begins, and the offset of b in the
// arena. If b lies outside the arena, number is -1.
func (d *rnic) chunk(b []byte) (number, at int) {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(d.arena)))
	if from >= uintptr(len(d.arena)) {
		return -1, 0
	}
	return int(from / chunkSize), int(from)
}

// region returns the region of the arena's chunk in which b begins, or nil if that chunk is not
// registered yet. length is the number of bytes of b that lie in the chunk. It is 0 if b lies
// outside the arena.
func (d *rnic) region(b []byte) (r *device.Region, length int) {
	i, at := d.chunk(b)
	if i < 0 {
		return nil, 0
	}
	return d.chunks[i].Load(), min(len(b), (i+1)*chunkSize-at)
}

func (d *rnic) chunkEnd(i int) int { return min((i+1)*chunkSize, len(d.arena)) }

// register registers the chunk in which b begins, and returns its region, or nil if the device
// refuses the memory. It may sleep.
func (d *rnic) register(b []byte) *device.Region {
	i, _ := d.chunk(b)
	d.registering.Lock()
	defer d.registering.Unlock()
	if d.chunks[i].Load() == nil {
		r, err := d.shared.Register(d.arena[i*chunkSize:d.chunkEnd(i)], device.LocalWrite)
		if err != nil {
			return nil
		}
		d.chunks[i].Store(&r)
	}
	return d.chunks[i].Load()
}
