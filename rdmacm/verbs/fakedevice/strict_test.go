package fakedevice

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"unsafe"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// A side is one end of a connection, with a registered region of 64 bytes.
type side struct {
	id     device.ID
	domain device.Domain
	conn   device.Conn
	region device.Region
	memory []byte
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func sideOf(i device.ID, access int) *side {
	s := &side{id: i, domain: must(i.OpenDomain()), memory: make([]byte, 64)}
	s.region = must(s.domain.Register(s.memory, access))
	s.conn = must(i.Create(s.domain, device.Caps{Sends: 4, Receives: 2, SGEs: 1}))
	return s
}

func connected(d *Device, accessOfB int) (a, b *side) {
	c := must(d.Open()).(*channel)
	l := must(c.Listen(netip.MustParseAddrPort("127.0.0.1:0"), true, 1))
	a = sideOf(must(c.Resolve(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), l.Port()), 0)), device.LocalWrite)
	if err := a.conn.Connect(device.Param{Data: []byte("hello")}); err != nil {
		panic(err)
	}
	b = sideOf(c.events[len(c.events)-1].Made, accessOfB)
	if err := b.conn.Accept(device.Param{}); err != nil {
		panic(err)
	}
	return a, b
}

func (s *side) sge() device.SGE {
	return device.SGE{Addr: uint64(uintptr(unsafe.Pointer(&s.memory[0]))), Length: 64, LKey: s.region.LKey()}
}

// work posts a request that names the side's whole region. change, if not nil, changes the
// request before.
func (s *side) work(change func(w *device.Work), of device.Work) error {
	of.Count, of.SGE[0] = 1, s.sge()
	if change != nil {
		change(&of)
	}
	s.conn.Works()[0] = of
	return s.conn.Flush(false, 0, 1)
}

func (s *side) status(t *testing.T) device.Status {
	t.Helper()
	done, _, err := s.conn.Poll(0)
	if err != nil {
		panic(err)
	}
	if len(done) != 1 {
		t.Fatalf("%d completions, want 1", len(done))
	}
	return done[0].Status
}

func TestWorkIsChecked(t *testing.T) {
	const remote = device.LocalWrite | device.RemoteWrite | device.RemoteRead
	for name, c := range map[string]struct {
		op     device.Op
		access int // of b's region
		change func(w *device.Work)
		want   device.Status
	}{
		"Write":                     {device.Write, remote, nil, device.OK},
		"Write without the right":   {device.Write, device.LocalWrite | device.RemoteRead, nil, device.RemoteAccess},
		"Write beyond":              {device.Write, remote, func(w *device.Work) { w.Remote++ }, device.RemoteAccess},
		"Write before":              {device.Write, remote, func(w *device.Work) { w.Remote-- }, device.RemoteAccess},
		"Write with a key of none":  {device.Write, remote, func(w *device.Work) { w.RKey += 100 }, device.RemoteAccess},
		"Write with an own key":     {device.Write, remote, func(w *device.Work) { w.RKey = w.SGE[0].LKey }, device.RemoteAccess},
		"Write of the peer's":       {device.Write, remote, func(w *device.Work) { w.SGE[0].LKey = w.RKey }, localProtection},
		"Write of more than is own": {device.Write, remote, func(w *device.Work) { w.SGE[0].Length++ }, localProtection},
		"Read":                      {device.Read, remote, nil, device.OK},
		"Read without the right":    {device.Read, device.LocalWrite | device.RemoteWrite, nil, device.RemoteAccess},
		"Send without a receive":    {device.Send, remote, nil, device.NotPromised},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connected(New(false), c.access)
			w := device.Work{Op: c.op, Flags: device.Signal, RKey: b.region.RKey(), Remote: b.sge().Addr}
			if err := a.work(c.change, w); err != nil {
				t.Fatal(err)
			}
			if got := a.status(t); got != c.want {
				t.Errorf("it ends with %q, want %q", got, c.want)
			}
			if err := a.work(nil, w); err != nil {
				t.Fatal(err)
			}
			want := device.Flushed
			if c.want == device.OK {
				want = device.OK
			}
			if got := a.status(t); got != want {
				t.Errorf("the next one ends with %q, want %q", got, want)
			}
		})
	}
}

func TestQueuesHaveAnEnd(t *testing.T) {
	a, b := connected(New(false), device.LocalWrite)
	for range 4 {
		if err := a.work(nil, device.Work{Op: device.Write, Flags: device.Signal}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.work(nil, device.Work{Op: device.Write}); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("a fifth work of four: %v", err)
	}
	if err := b.conn.Flush(false, 3, 0); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("a third receive of two: %v", err)
	}
}

func TestUseAfterTheEndPanics(t *testing.T) {
	for name, use := range map[string]func(a *side){
		"domain with users":  func(a *side) { a.domain.Close() },
		"deregistered twice": func(a *side) { a.region.Deregister(); a.region.Deregister() },
		"Flush":              func(a *side) { a.conn.DestroyQueues(); a.conn.Flush(false, 0, 0) },
		"Destroy":            func(a *side) { a.conn.Destroy() },
		"Wake":               func(a *side) { a.conn.DestroyQueues(); a.conn.Destroy(); a.conn.Wake() },
		"ID":                 func(a *side) { a.id.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := connected(New(false), 0)
			defer func() {
				if recover() == nil {
					t.Error("it does not panic")
				}
			}()
			use(a)
		})
	}
}
