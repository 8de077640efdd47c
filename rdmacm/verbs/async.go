package verbs

import (
	"fmt"
	"maps"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// An AsyncError is a fault of a connection's queues that the device reported by an asynchronous event.
type AsyncError struct{ Type device.AsyncType }

func (e *AsyncError) Error() string {
	return fmt.Sprintf("verbs: the device ended the connection: %v", e.Type)
}

// takeAsync takes the asynchronous events of the device. The method keep calls it once every
// lookInterval, so no thread waits for events. A connection that ends for an unknown reason
// calls it as well, because the reason may be among the events.
func (d *rnic) takeAsync() {
	p := d.p
	d.taking.Lock()
	defer d.taking.Unlock()
	port := false
	d.open.Async(func(e device.AsyncEvent) {
		p.mu.Lock()
		defer p.mu.Unlock()
		d.events[e.Type]++
		switch e.Type {
		case device.CQError, device.QPFatal, device.QPRequest, device.QPAccess:
			if c, ok := p.sinks[e.ID].(*Conn); ok {
				c.queuesFailed(e.Type)
			}
		case device.DeviceFatal:
			d.removedLocked()
		case device.PortActive, device.PortError:
			port = true
		}
	})
	if !port {
		return
	}
	p.mu.Lock()
	ports := maps.Clone(d.ports)
	p.mu.Unlock()
	for number, was := range ports {
		active := d.open.Active(number) // the events may be older than the port's present state
		if active == was {
			continue
		}
		p.mu.Lock()
		d.ports[number] = active
		p.mu.Unlock()
		if active {
			p.cfg.Log(fmt.Sprintf("port %d of RDMA device %s is up again", number, d.Name))
		} else {
			p.cfg.Log(fmt.Sprintf("port %d of RDMA device %s is down: look at the cable, and at the network interface", number, d.Name))
		}
	}
}

// awaitPort waits until the port of the connection is up. up is false if the device was removed, or
// the provider was closed, before that.
//
// A connection that ends calls awaitPort before it tells the peer. Otherwise rxe may fail for
// good (Linux 6.12): the kernel's connection manager sends through a queue pair of its own. If
// it sends while the port is down, rxe puts this queue pair into the error state, and the
// device can make no more connections.
func (c *Conn) awaitPort() (up bool) {
	d := c.rnic
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for !c.up() {
		select {
		case <-look.C:
		case <-d.gone:
			return false
		case <-d.p.closing:
			return false
		}
	}
	return true
}

// up reports whether the port of the connection is up.
func (c *Conn) up() bool { return c.rnic.open.Active(c.port.Port) }

// settlePort waits as long as rxe may report that its port is up although it is going down. Linux takes
// a network interface down in steps: after the first one rxe's work fails at once, but its port goes
// down only after the last one. See awaitPort for what follows if the manager sends in between.
func (d *rnic) settlePort() {
	settled := time.NewTimer(lookInterval)
	defer settled.Stop()
	select {
	case <-settled.C:
	case <-d.gone:
	case <-d.p.closing:
	}
}

// queuesFailed ends the connection because of an asynchronous event. If the queue pair is already being
// drained, the event becomes the reason for the end only if no other reason is known.
func (c *Conn) queuesFailed(t device.AsyncType) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.phase < draining || c.ending.phase == draining && c.ending.fault {
		c.failLocked(&AsyncError{t})
	}
}
