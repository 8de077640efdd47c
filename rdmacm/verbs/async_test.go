package verbs_test

import (
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// asyncType returns the type of the asynchronous event that is the reason of err, or -1 if
// there is none.
func asyncType(err error) device.AsyncType {
	if e, ok := errors.AsType[*verbs.AsyncError](err); ok {
		return e.Type
	}
	return -1
}

// An error of a queue pair or of a completion queue may come without any completion. It ends
// the connection, and the connection's error names the event.
func TestErrorOfAQueueEndsTheConnection(t *testing.T) {
	for _, event := range []device.AsyncType{device.CQError, device.QPFatal, device.QPRequest, device.QPAccess} {
		t.Run(event.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := fakedevice.New(false)
				a, b := pair(t, d)
				memory, _ := exposed(a, 64)
				d.Hold(true) // nothing completes
				out := b.Post(rdmatest.WriteOf(memory, make([]byte, 64)))
				d.Raise(event)
				if o := <-out; !errors.Is(o.Err, rdmacm.ErrFlushed) || asyncType(o.Err) != event {
					t.Errorf("work comes back with %v", o.Err)
				}
				for _, p := range []*rdmatest.Peer{a, b} {
					if err := p.End(); asyncType(err) != event {
						t.Errorf("a connection ends with %v", err)
					}
				}
			})
		})
	}
}

// A device flushes the requests of a queue pair in error, and reports the reason by an event.
// Even if the provider sees the flushed requests first, the event is the reason for the end.
func TestFlushedRequestsAreExplainedByTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		p := open(t, d, nil)
		l := listen(t, p)
		nothing := peerParam()
		nothing.Receives = 1
		accepted := make(chan *rdmatest.Peer)
		go func() { accepted <- rdmatest.AcceptPeer(t, l, nothing) }()
		a := rdmatest.DialPeer(t, p, l.Addr(), peerParam())
		b := <-accepted
		time.Sleep(time.Millisecond) // so that keep does not take the events at the same time
		memory := b.Expose(make([]byte, 8), rdmacm.RemoteWrite)
		d.Raise(device.QPAccess)
		if err := a.Write(rdmatest.At(memory, 1), make([]byte, 8)); !errors.Is(err, rdmacm.ErrNotExposed) {
			t.Errorf("a Write beyond the memory ends with %v", err)
		}
		if err := b.End(); asyncType(err) != device.QPAccess {
			t.Errorf("the connection ends with %v", err)
		}
	})
}

// A fatal error of the device has the same effect as its removal: its connections end, Done of their
// chains is called although the device completes nothing, and the device is released. Until the
// driver has removed the device and added it again, peers are refused. After that, all listeners
// accept connections again.
func TestFatalErrorOfTheDeviceIsARemoval(t *testing.T) {
	for removal, remove := range map[string]func(d *fakedevice.Device){
		"removal is told":       func(d *fakedevice.Device) { <-d.Remove(true) },
		"removal is not told":   func(d *fakedevice.Device) { <-d.Remove(false) },
		"no removal in between": func(*fakedevice.Device) {},
	} {
		for at, skip := range map[string]func(*device.Attributes) bool{
			"127.0.0.1:20049": nil, "0.0.0.0:20049": nil,
			"127.0.0.1:20050": func(*device.Attributes) bool { return false },
		} {
			t.Run(removal+"/"+at, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { failAndReturn(t, netip.MustParseAddrPort(at), skip, remove) })
			})
		}
	}
}

func failAndReturn(t *testing.T, at netip.AddrPort, skip func(*device.Attributes) bool, remove func(d *fakedevice.Device)) {
	d := fakedevice.New(false)
	p, err := verbs.New(verbs.Config{Library: d, Skip: skip})
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
		memory, _ := exposed(a, 64)
		d.Hold(true)
		out := b.Post(rdmatest.WriteOf(memory, make([]byte, 64)))
		begun := time.Now() // synctest's fake time
		d.Raise(device.DeviceFatal)
		d.Raise(device.DeviceFatal)
		if o := <-out; !errors.Is(o.Err, rdmacm.ErrFlushed) || !errors.Is(o.Err, verbs.ErrDeviceGone) {
			t.Errorf("work comes back with %v", o.Err)
		}
		for _, p := range []*rdmatest.Peer{a, b} {
			if err := p.End(); !errors.Is(err, verbs.ErrDeviceGone) {
				t.Errorf("a connection ends with %v", err)
			}
		}
		if d := time.Since(begun); d > 4*time.Second {
			t.Errorf("the connections end after %v", d)
		}
		time.Sleep(time.Minute)
		if left := d.Left(); left.Devices+left.Domains+left.Regions+left.Conns > 0 {
			t.Errorf("the failed device is not released: %+v", left)
		}
		param := peerParam().ConnParam
		param.Handler = handler{}
		if _, err := p.Dial(t.Context(), to, param); err == nil {
			t.Error("a connection over the failed device")
		}
		remove(d)
		d.Hold(false)
		d.Return()
		time.Sleep(2 * time.Second)
	}
	leave(connect())
	l.Close()
	p.Close()
	if left := d.Left(); left != (fakedevice.Left{}) {
		t.Errorf("the provider leaves behind %+v", left)
	}
}

// The log has a line when the port goes down or comes up, and none if events are out of date.
// The metrics have the state of the port and the number of events, also of events that this
// package has no name for.
func TestStateOfThePortIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		var log []string
		p, err := verbs.New(verbs.Config{Library: d, Log: func(text string) { log = append(log, text) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		a, b := pairOf(t, p)
		expect := func(active bool, lines int) {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if s := p.Stats().Devices[0]; s.Active != active || len(log) != lines {
				t.Errorf("active: %v, want %v; the log has %q, want %d lines", s.Active, active, log, lines)
			}
		}
		expect(true, 0)
		d.SetActive(false)
		expect(false, 1)
		d.SetActive(true)
		expect(true, 2)
		d.SetActive(false)
		d.SetActive(true)
		expect(true, 2)
		d.Raise(99)
		expect(true, 2)
		counts := p.Stats().Devices[0].Events
		for _, want := range []rdmacm.Count{{What: "PORT_ERR", N: 2}, {What: "PORT_ACTIVE", N: 2}, {What: "asynchronous event 99", N: 1}} {
			if !slices.Contains(counts, want) {
				t.Errorf("%v is not among %v", want, counts)
			}
		}
		a.Conn().Disconnect()
		a.End()
		b.End()
	})
}

// oneSeat is a Seats with one Seat, which counts how often it was given up.
type oneSeat struct {
	rdmacm.Seat
	left atomic.Int32
}

func (s *oneSeat) Arrive(netip.AddrPort, rdmacm.Holder) (rdmacm.Seat, error) { return s, nil }
func (s *oneSeat) AcceptFailed(error) time.Duration                          { return 0 }
func (s *oneSeat) Knows(netip.Addr) bool                                     { return false }
func (s *oneSeat) EvictStranger()                                            {}
func (s *oneSeat) Leave()                                                    { s.left.Add(1) }

// A connection that ends while the port is down tells the peer when the port is up again. Until
// then it keeps no memory, queues or seat. The device, which loses its connection manager
// otherwise, makes connections as before.
func TestEndWhileThePortIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		seat := &oneSeat{Seat: rdmacm.Uncounted}
		p := open(t, d, seat)
		a, b := pairOf(t, p)
		both := d.Left()
		d.SetActive(false)
		b.Conn().Abort(nil)
		b.End()
		time.Sleep(time.Hour)
		left := d.Left()
		if left.Queues != 1 || left.Regions >= both.Regions || left.Domains >= both.Domains || seat.left.Load() == 0 || p.Stats().Devices[0].Connections != 1 {
			t.Errorf("%+v are left of %+v, the seat was given up %d times", left, both, seat.left.Load())
		}
		select {
		case <-a.Conn().Done():
			t.Error("the peer was told while the port was down")
		default:
		}
		begun := time.Now() // synctest's fake time
		d.SetActive(true)
		a.End()
		if d := time.Since(begun); d > time.Second {
			t.Errorf("the peer was told %v after the port had come up", d)
		}
		a, b = pairOf(t, p)
		a.Conn().Disconnect()
		a.End()
		b.End()
		time.Sleep(time.Minute)
		if left := d.Left(); left.Conns != 0 {
			t.Errorf("%d connections are left", left.Conns)
		}
	})
}

// While Linux takes an interface down, work on it fails before its port is reported to be down. The
// provider does not make the connection manager send in between, or while it waits for the answer of
// a peer that is told.
func TestEndWhileThePortGoesDown(t *testing.T) {
	for name, before := range map[string]time.Duration{"going down": 0, "down soon": 1500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := fakedevice.New(false)
				d.Attributes.RXE = true
				p := open(t, d, nil)
				a, b := pairOf(t, p)
				memory, _ := exposed(a, 64)
				synctest.Wait()
				if before > 0 {
					d.Vanish(true)
				} else {
					d.FailPort()
				}
				out := b.Post(rdmatest.WriteOf(memory, make([]byte, 64)))
				time.Sleep(before + 500*time.Millisecond)
				d.SetActive(false)
				time.Sleep(time.Minute)
				if before > 0 && d.Left().Conns != 1 {
					t.Errorf("%d connections may send while the port is down", d.Left().Conns-1)
				}
				// Nothing was wrong with the work, so it may be posted again over another connection.
				if o := <-out; !errors.Is(o.Err, rdmacm.ErrFlushed) {
					t.Errorf("the work comes back with %v", o.Err)
				}
				d.Vanish(false)
				d.SetActive(true)
				a.Conn().Abort(nil)
				a.End()
				b.End()
				leave(pairOf(t, p))
			})
		})
	}
}

// If a provider closes while the port is down, it does not wait for the answer of a peer that
// it cannot reach.
func TestCloseWhileThePortIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		p, err := verbs.New(verbs.Config{Library: d})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // runs after the listener was closed
			begun := time.Now() // synctest's fake time
			p.Close()
			if d := time.Since(begun); d != 0 {
				t.Errorf("Close takes %v", d)
			}
		})
		a, b := pairOf(t, p)
		d.SetActive(false)
		for _, side := range []*rdmatest.Peer{a, b} {
			side.Conn().Abort(nil)
			side.End()
		}
	})
}
