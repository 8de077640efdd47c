package fakedevice

import "github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"

// Raise raises an asynchronous event of type t. If t is about queues, there is one event for
// each connection. Otherwise there is one event, about the device. After DeviceFatal, once the
// device was retired, no use of it succeeds before Return.
func (d *Device) Raise(t device.AsyncType) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fatal = d.fatal || t == device.DeviceFatal
	if t > device.QPAccess {
		d.async = append(d.async, device.AsyncEvent{Type: t})
		return
	}
	for number, i := range d.ids {
		if i.conn != nil {
			d.async = append(d.async, device.AsyncEvent{Type: t, ID: number})
		}
	}
}

// SetActive changes the state of port 1, and raises PortActive or PortError.
func (d *Device) SetActive(active bool) { d.SetPortActive(1, active) }

// SetPortActive changes the state of a port, and raises PortActive or PortError.
func (d *Device) SetPortActive(port int, active bool) {
	d.mu.Lock()
	d.down[port], d.failing[port] = !active, !active
	d.mu.Unlock()
	t := device.PortError
	if active {
		t = device.PortActive
	}
	d.Raise(t)
}

// FailPort begins to take port 1 down, until SetActive. From now on work fails as soon as it is
// carried out, and the connection manager cannot send, but the port is still reported as active.
func (d *Device) FailPort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing[1] = true
}

// Async implements device.Device.
func (o *opened) Async(told func(e device.AsyncEvent)) {
	d := o.c.d
	d.mu.Lock()
	events := d.async
	d.async = nil
	if o.closed {
		panic("fakedevice: Async after Close")
	}
	d.mu.Unlock()
	for _, e := range events {
		told(e)
	}
}

// Active implements device.Device.
func (o *opened) Active(port int) bool {
	o.c.d.mu.Lock()
	defer o.c.d.mu.Unlock()
	return o.c.d.Attributes.Active && !o.c.d.down[port]
}
