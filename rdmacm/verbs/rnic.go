package verbs

import (
	"fmt"
	"net/netip"
	"sync"
	"time"
	"unsafe"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// chunkSize is how much of the arena is registered at a time, in bytes.
const chunkSize = 16 << 20

// An rnic is a device that connections use, with the protection domain that they share.
type rnic struct {
	device.Attributes
	p      *Provider
	open   device.Device
	shared device.Domain
	arena  []byte

	// users are connections. Their number grows while Provider.devices has the rnic, and
	// with Provider.mu held.
	users sync.WaitGroup
	gone  chan struct{} // the device was removed
	ended int           // connections, by the removal. Provider.mu guards it

	mu     sync.RWMutex
	chunks []device.Region // of arena; nil: not registered yet
}

// rnicOf is the device of id, which local is an address of. The caller becomes one of its
// users.
func (p *Provider) rnicOf(id device.ID, local netip.Addr) (*rnic, error) {
	a, err := id.Attributes()
	if err != nil {
		return nil, err
	}
	if !a.SendsInvalidate {
		return nil, fmt.Errorf("verbs: %s has no memory management extensions", a.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.devices[a.Device]
	if d == nil {
		if d, err = p.openLocked(&a, local); err != nil {
			return nil, err
		}
	}
	d.users.Add(1)
	return d, nil
}

func (p *Provider) openLocked(a *device.Attributes, local netip.Addr) (*rnic, error) {
	if p.arena == nil && p.cfg.Arena != nil {
		p.arena = p.cfg.Arena()
	}
	d := &rnic{
		Attributes: *a, p: p, arena: p.arena, gone: make(chan struct{}),
		chunks: make([]device.Region, (len(p.arena)+chunkSize-1)/chunkSize),
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

// keep looks whether the device is still there. It closes the device when that was removed,
// or the provider closes, and no connection uses it any more.
func (d *rnic) keep() {
	p := d.p
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for removed, closing := false, false; !removed && !closing; {
		select {
		case <-look.C:
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
	for _, r := range d.chunks {
		if r != nil {
			r.Deregister()
		}
	}
	d.shared.Close()
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

// removedLocked ends the connections of the device, which was removed. The kernel waits for
// that: a removal does not complete while a process has the device open.
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

// key is the local key of the arena's memory at the beginning of b, and how much of b the
// key is good for. 0 bytes: b lies elsewhere, or the device does not take the chunk.
func (d *rnic) key(b []byte) (key uint32, length int) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(d.arena)))
	if at >= uintptr(len(d.arena)) {
		return 0, 0
	}
	i := int(at / chunkSize)
	d.mu.RLock()
	r := d.chunks[i]
	d.mu.RUnlock()
	if r == nil {
		if r = d.register(i); r == nil {
			return 0, 0
		}
	}
	return r.LKey(), min(len(b), (i+1)*chunkSize-int(at))
}

func (d *rnic) register(i int) device.Region {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.chunks[i] == nil {
		r, err := d.shared.Register(d.arena[i*chunkSize:min((i+1)*chunkSize, len(d.arena))], device.LocalWrite)
		if err != nil {
			return nil
		}
		d.chunks[i] = r
	}
	return d.chunks[i]
}
