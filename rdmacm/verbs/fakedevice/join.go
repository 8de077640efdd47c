package fakedevice

import (
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// Join returns a library with several devices. The function of returns the device that carries an
// address now. The first of all also has the wildcard addresses.
func Join(of func(netip.Addr) *Device, all ...*Device) device.Library { return joined{of, all} }

type joined struct {
	of  func(netip.Addr) *Device
	all []*Device
}

type joinedChannel struct {
	joined
	channels map[*Device]device.Channel
}

func (j joined) Open() (device.Channel, error) {
	c := joinedChannel{j, make(map[*Device]device.Channel)}
	for _, d := range j.all {
		made, err := d.Open()
		if err != nil {
			c.Close()
			return nil, err
		}
		c.channels[d] = made
	}
	return c, nil
}

func (c joinedChannel) at(a netip.Addr) device.Channel {
	if a.IsUnspecified() {
		return c.channels[c.all[0]]
	}
	return c.channels[c.of(a)]
}

func (c joinedChannel) Events(told func(device.Event)) error {
	var one sync.Mutex
	var ended sync.WaitGroup
	for _, of := range c.channels {
		ended.Go(func() {
			of.Events(func(e device.Event) {
				one.Lock()
				defer one.Unlock()
				told(e)
			})
		})
	}
	ended.Wait()
	return nil
}

func (c joinedChannel) Close() {
	for _, of := range c.channels {
		of.Close()
	}
}

func (c joinedChannel) Listen(at netip.AddrPort, onlyFamily bool, backlog int) (device.ID, error) {
	return c.at(at.Addr()).Listen(at, onlyFamily, backlog)
}

func (c joinedChannel) Carrier(at netip.Addr) (device.Device, error) { return c.at(at).Carrier(at) }

func (c joinedChannel) Resolve(to netip.AddrPort, limit time.Duration) (device.ID, error) {
	return c.at(to.Addr()).Resolve(to, limit)
}
