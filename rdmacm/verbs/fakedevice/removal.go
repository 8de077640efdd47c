package fakedevice

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// Remove takes the device away. If tell is true, each ID gets the event DeviceRemoval, as on a
// kernel that loaded rdma_cm after ib_uverbs. Otherwise no ID gets it. As with the kernel's
// software devices, the removal is complete when no device.Device of it is open any more. The
// returned channel is then closed.
func (d *Device) Remove(tell bool) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removed, d.inUse = true, make(chan struct{})
	for _, i := range d.ids {
		if tell && !i.local.Addr().IsUnspecified() {
			i.tell(device.Event{Type: device.DeviceRemoval})
		}
	}
	for at := range d.listeners {
		if !at.Addr().IsUnspecified() {
			delete(d.listeners, at)
		}
	}
	d.completeLocked()
	return d.inUse
}

// Return brings the device back. The removal must be complete.
func (d *Device) Return() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removed, d.fatal, d.dead = false, false, false
	d.Attributes.Device++
}

func (d *Device) completeLocked() {
	select {
	case <-d.inUse:
	default:
		if d.left.Devices == 0 {
			close(d.inUse)
		}
	}
}

// An opened is an open device, as Channel.Carrier returns it.
type opened struct {
	*id
	attributes device.Attributes
}

func (c *channel) Carrier(addr netip.Addr) (device.Device, error) {
	if err := c.d.fails("Carrier"); err != nil {
		return nil, err
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if c.d.removed {
		return nil, unix.ENODEV
	}
	if c.d.dead {
		return nil, unix.EBADF
	}
	i := c.newID()
	i.local = netip.AddrPortFrom(addr, 0)
	c.d.left.Devices++
	return &opened{i, c.d.attributesAt(addr)}, nil
}

func (o *opened) Attributes() device.Attributes { return o.attributes }

func (o *opened) Present() bool {
	o.c.d.mu.Lock()
	defer o.c.d.mu.Unlock()
	return !o.c.d.removed && o.c.d.Attributes.Device == o.of
}

func (o *opened) Close() {
	o.id.Close()
	o.c.d.mu.Lock()
	defer o.c.d.mu.Unlock()
	o.c.d.left.Devices--
}

func (o *opened) Retire() {
	d := o.c.d
	o.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := &d.left; !d.removed && !d.fatal || l.Devices+l.Domains+l.Regions+l.Conns > 0 {
		panic(fmt.Sprintf("fakedevice: a device is retired (removed: %v) of which there is left %+v", d.removed, *l))
	}
	if d.dead = d.fatal; d.removed {
		d.completeLocked()
	}
}
