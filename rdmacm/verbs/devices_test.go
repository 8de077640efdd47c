package verbs_test

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

var firstAddress, secondAddress = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")

// pairAt connects two peers over the device and the port that carry an address.
func pairAt(t *testing.T, p *verbs.Provider, at netip.Addr) (a, b *rdmatest.Peer) {
	t.Helper()
	l, err := p.Listen(netip.AddrPortFrom(at, 20049))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan *rdmatest.Peer)
	go func() { accepted <- rdmatest.AcceptPeer(t, l, peerParam()) }()
	a = rdmatest.DialPeer(t, p, l.Addr(), peerParam())
	return a, <-accepted
}

// A connection depends on the port that carries it, whichever port of the device was used first. While
// the other port is down, its peer hears of its end, nothing of it is left, and its attributes and
// those of the other port are told apart.
func TestConnectionOverTheOtherPort(t *testing.T) {
	for _, first := range []netip.Addr{firstAddress, secondAddress} {
		t.Run(first.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := fakedevice.New(false)
				d.PortOf = func(a netip.Addr) int {
					if a == secondAddress {
						return 2
					}
					return 1
				}
				var lines []string
				p, err := verbs.New(verbs.Config{Library: d, Log: func(s string) { lines = append(lines, s) }})
				if err != nil {
					t.Fatal(err)
				}
				other := secondAddress
				if first == secondAddress {
					other = firstAddress
				}
				a, b := pairAt(t, p, first)
				c, e := pairAt(t, p, other)
				before := d.Left()
				d.SetPortActive(d.PortOf(first), false)
				time.Sleep(2 * time.Second)
				if s := p.Stats().Devices[0]; s.Active {
					t.Error("both ports are told as up")
				}
				begun := time.Now()
				c.Conn().Disconnect()
				c.End()
				e.End()
				if took := time.Since(begun); took > time.Second {
					t.Errorf("the end over the port that is up takes %v", took)
				}
				time.Sleep(time.Minute)
				if left := d.Left(); left.IDs != before.IDs-2 || left.Queues != 2 {
					t.Errorf("there is left %+v after %+v", left, before)
				}
				d.SetPortActive(d.PortOf(first), true)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				want := []string{"port " + port(d, first) + " of RDMA device fake0 is down", "port " + port(d, first) + " of RDMA device fake0 is up"}
				for i, line := range lines {
					if len(lines) != 2 || !strings.HasPrefix(line, want[i]) {
						t.Errorf("the log has %q, want %q", lines, want)
					}
				}
				a.Conn().Disconnect()
				a.End()
				b.End()
				p.Close()
				if left := d.Left(); left != (fakedevice.Left{}) {
					t.Errorf("there is left %+v", left)
				}
			})
		})
	}
}

func port(d *fakedevice.Device, at netip.Addr) string { return string(rune('0' + d.PortOf(at))) }

// two returns two devices, and a library in which the second one carries secondAddress, and also
// firstAddress if moved is set.
func two() (one, other *fakedevice.Device, library device.Library, moved *atomic.Bool) {
	one, other, moved = fakedevice.New(false), fakedevice.New(false), new(atomic.Bool)
	other.Attributes.Name, other.Attributes.Device = "fake1", 100
	return one, other, fakedevice.Join(func(a netip.Addr) *fakedevice.Device {
		if a == secondAddress || moved.Load() {
			return other
		}
		return one
	}, one, other), moved
}

// The removal of a device ends its connections, and no connections of another device.
func TestRemovalOfOneOfTwoDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other, library, _ := two()
		p, err := verbs.New(verbs.Config{Library: library})
		if err != nil {
			t.Fatal(err)
		}
		a, b := pairAt(t, p, firstAddress)
		c, e := pairAt(t, p, secondAddress)
		<-one.Remove(true)
		a.End()
		b.End()
		if err := c.Send([]byte("over the other device")); err != nil {
			t.Error(err)
		}
		e.Receive()
		c.Conn().Disconnect()
		c.End()
		e.End()
		p.Close()
		for _, d := range []*fakedevice.Device{one, other} {
			if left := d.Left(); left != (fakedevice.Left{}) {
				t.Errorf("there is left %+v", left)
			}
		}
	})
}

// If an address moves to another device, as that of a bond does at its failover, the listener accepts
// connections over that device.
func TestListenerFollowsItsAddress(t *testing.T) {
	for name, skip := range map[string]func(*device.Attributes) bool{"one address": nil, "each address": func(*device.Attributes) bool { return false }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, other, library, moved := two()
				p, err := verbs.New(verbs.Config{Library: library, Skip: skip})
				if err != nil {
					t.Fatal(err)
				}
				l, err := p.Listen(netip.AddrPortFrom(firstAddress, 20049))
				if err != nil {
					t.Fatal(err)
				}
				connect := func(want string) {
					t.Helper()
					accepted := make(chan *rdmatest.Peer)
					go func() { accepted <- rdmatest.AcceptPeer(t, l, peerParam()) }()
					a := rdmatest.DialPeer(t, p, l.Addr(), peerParam())
					b := <-accepted
					if got := b.Conn().Carrier().Device; got != want {
						t.Errorf("a connection over %s, want %s", got, want)
					}
					a.Conn().Disconnect()
					a.End()
					b.End()
				}
				connect("fake0")
				moved.Store(true)
				time.Sleep(3 * time.Second)
				connect("fake1")
				moved.Store(false)
				time.Sleep(3 * time.Second)
				connect("fake0")
				l.Close()
				p.Close()
				for _, d := range []*fakedevice.Device{one, other} {
					if left := d.Left(); left != (fakedevice.Left{}) {
						t.Errorf("there is left %+v", left)
					}
				}
			})
		})
	}
}

// A side that accepts asks for no more RDMA Reads than the request offered, in either direction: a real
// device may refuse such an accept.
func TestAcceptKeepsToTheRequest(t *testing.T) {
	for _, offered := range []int{0, 1, 3} {
		t.Run(fmt.Sprint(offered), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open(t, fakedevice.New(false), nil)
				l := listen(t, p)
				asking := peerParam()
				asking.InboundReads, asking.OutboundReads = offered, offered
				accepted := make(chan *rdmatest.Peer)
				go func() { accepted <- rdmatest.AcceptPeer(t, l, peerParam()) }()
				a := rdmatest.DialPeer(t, p, l.Addr(), asking)
				b := <-accepted
				if a.Conn().ReadDepth() != offered || b.Conn().ReadDepth() != offered {
					t.Errorf("the sides may have %d and %d Reads outstanding, want %d", a.Conn().ReadDepth(), b.Conn().ReadDepth(), offered)
				}
				a.Conn().Disconnect()
				a.End()
				b.End()
			})
		})
	}
}
