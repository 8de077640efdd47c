package verbs_test

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// When a device is removed under load, the provider releases it within seconds, with or without
// a removal event, because the kernel's removal waits for that. The device's connections end,
// and Done of their chains is called. When the device is back, the listener accepts connections
// again.
func TestRemovedDeviceIsLetGoOf(t *testing.T) {
	for name, tell := range map[string]bool{"told": true, "untold": false} {
		for at, skip := range map[string]func(*device.Attributes) bool{
			"127.0.0.1:20049": nil, "0.0.0.0:20049": nil, "[::]:20049": nil,
			"127.0.0.1:20050": func(*device.Attributes) bool { return false },
		} {
			t.Run(name+"/"+at, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { removeAndReturn(t, netip.MustParseAddrPort(at), skip, tell) })
			})
		}
	}
}

func removeAndReturn(t *testing.T, at netip.AddrPort, skip func(*device.Attributes) bool, tell bool) {
	d := fakedevice.New(false)
	arena := make([]byte, 64<<10)
	p, err := verbs.New(verbs.Config{Library: d, Skip: skip, Arena: func() []byte { return arena }})
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), at.Port())
	connect := func() (a, b *rdmatest.Peer) {
		accepted := make(chan *rdmatest.Peer)
		go func() { accepted <- rdmatest.AcceptPeer(t, l, peerParam()) }()
		a = rdmatest.DialPeer(t, p, to, peerParam())
		return a, <-accepted
	}
	for range 2 {
		a, b := connect()
		memory, _ := exposed(a, len(arena))
		if err := b.Write(memory, arena); err != nil {
			t.Fatal(err)
		}
		d.Hold(true)
		out := b.Post(rdmatest.WriteOf(memory, arena))
		begun := time.Now() // synctest's fake time
		complete := d.Remove(tell)
		if o := <-out; !errors.Is(o.Err, rdmacm.ErrFlushed) || !errors.Is(o.Err, verbs.ErrDeviceGone) {
			t.Errorf("work comes back with %v", o.Err)
		}
		for _, p := range []*rdmatest.Peer{a, b} {
			if err := p.End(); !errors.Is(err, verbs.ErrDeviceGone) {
				t.Errorf("a connection ends with %v", err)
			}
		}
		<-complete
		if d := time.Since(begun); d > 5*time.Second {
			t.Errorf("the removal takes %v", d)
		}
		time.Sleep(time.Minute)
		d.Hold(false)
		d.Return()
		time.Sleep(2 * time.Second)
	}
	a, b := connect()
	if err := a.Send([]byte("again")); err != nil || string(b.Receive().Bytes) != "again" {
		t.Errorf("a message over the device that came back: %v", err)
	}
	a.Conn().Disconnect()
	a.End()
	b.End()
	l.Close()
	p.Close()
	if left := d.Left(); left != (fakedevice.Left{}) {
		t.Errorf("the provider leaves behind %+v", left)
	}
}

// If a device comes back before the provider has noticed its removal, the listener listens on
// it, too.
func TestDeviceThatComesBackAtOnceIsListenedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		p := open(t, d, nil)
		l := listen(t, p)
		<-d.Remove(true)
		d.Return()
		time.Sleep(2 * time.Second)
		accepted := make(chan *rdmatest.Peer)
		go func() { accepted <- rdmatest.AcceptPeer(t, l, peerParam()) }()
		a := rdmatest.DialPeer(t, p, l.Addr(), peerParam())
		a.Conn().Disconnect()
		a.End()
		(<-accepted).End()
	})
}
