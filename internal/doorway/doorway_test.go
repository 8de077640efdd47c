package doorway_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/doorway"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// An entrance is a Door whose Enter waits while it is shut.
type entrance struct {
	t       *testing.T
	l       *listener
	shut    sync.Mutex
	mu      sync.Mutex
	entered []netip.Addr
	conns   []net.Conn
	served  chan error
}

// open starts a Door that is shut, and lets a first connection wait in Enter. Addresses of 127.9.0.0/16
// are known.
func open(t *testing.T) *entrance {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &entrance{t: t, l: &listener{Listener: l}, served: make(chan error, 1)}
	d := doorway.Door{
		Enter: func(c net.Conn) {
			a := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
			e.mu.Lock()
			e.entered, e.conns = append(e.entered, a), append(e.conns, c)
			e.mu.Unlock()
			e.shut.Lock()
			defer e.shut.Unlock()
		},
		Knows:  func(a netip.Addr) bool { return a.As4()[1] == 9 },
		Failed: func(error) time.Duration { return 0 },
	}
	e.shut.Lock()
	go func() { e.served <- d.Serve(e.l) }()
	e.dial("127.1.0.1", 1)
	e.has(1)
	return e
}

// dial connects n times from an address.
func (e *entrance) dial(from string, n int) (conns []net.Conn) {
	e.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	for range n {
		c, err := d.Dial("tcp4", e.l.Listener.Addr().String())
		if err != nil {
			e.t.Fatal(err)
		}
		e.t.Cleanup(func() { c.Close() })
		conns = append(conns, c)
	}
	return conns
}

// has waits until n connections have entered.
func (e *entrance) has(n int) (entered []netip.Addr) {
	e.t.Helper()
	await.Until(e.t, "connections enter", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		entered = slices.Clone(e.entered)
		return len(entered) >= n
	})
	return entered
}

// end closes the listener and waits for Serve. It returns the addresses that have entered, in order.
func (e *entrance) end() []netip.Addr {
	e.t.Helper()
	e.l.Close()
	if err := <-e.served; !errors.Is(err, net.ErrClosed) {
		e.t.Errorf("Serve: %v", err)
	}
	for _, c := range e.conns {
		c.Close()
	}
	return e.entered
}

// isClosed reports whether the Door has closed the other end of c.
func isClosed(c net.Conn) bool {
	var b [1]byte
	_, err := c.Read(b[:])
	return err != nil && !errors.Is(err, net.ErrClosed)
}

// Known addresses enter first. Then sites take turns, however many connections and addresses a site has.
func TestSitesTakeTurns(t *testing.T) {
	e := open(t)
	for _, from := range []string{"127.1.0.1", "127.1.0.2", "127.1.0.3"} {
		e.dial(from, 3)
	}
	e.dial("127.2.0.1", 2)
	e.dial("127.9.0.1", 2)
	e.arrived(14)
	e.shut.Unlock()
	entered := e.has(14)
	e.end()
	var got []string
	for _, a := range entered[1:7] {
		got = append(got, a.String())
	}
	if want := []string{"127.9.0.1", "127.9.0.1", "127.1.0.1", "127.2.0.1", "127.1.0.1", "127.2.0.1"}; !slices.Equal(got, want) {
		t.Errorf("%v enter first, want %v", got, want)
	}
}

// A listener counts the calls of Accept.
type listener struct {
	net.Listener
	calls atomic.Int64
}

func (l *listener) Accept() (net.Conn, error) {
	l.calls.Add(1)
	return l.Listener.Accept()
}

// arrived waits until n connections have arrived: the Door then waits for one more.
func (e *entrance) arrived(n int64) {
	e.t.Helper()
	await.Until(e.t, "all are accepted", func() bool { return e.l.calls.Load() > n })
}

// A connection that the peer has closed does not enter, whether that happened before it was accepted or
// while it waited.
func TestClosedConnectionsDoNotEnter(t *testing.T) {
	e := open(t)
	leave := e.dial("127.1.0.1", 12)
	e.dial("127.1.0.1", 1)
	for _, c := range leave {
		c.Close()
	}
	e.dial("127.2.0.1", 1)
	e.arrived(15)
	e.shut.Unlock()
	e.has(3)
	if n := len(e.end()); n != 3 {
		t.Errorf("%d connections enter, and 3 are open", n)
	}
}

// While Most connections wait, the Door accepts no more, and turns none away: all enter in the end.
func TestWaitingIsBounded(t *testing.T) {
	e := open(t)
	for i := range 4 {
		e.dial(fmt.Sprintf("127.%d.0.1", 1+i), doorway.Most)
	}
	e.arrived(doorway.Most)
	if n := e.l.calls.Load(); n > doorway.Most+1 {
		t.Errorf("%d connections are accepted", n)
	}
	e.shut.Unlock()
	e.has(1 + 4*doorway.Most)
	e.end()
}

// Connections of known addresses, however many, leave each fifth turn to others.
func TestKnownAddressesLeaveTurns(t *testing.T) {
	e := open(t)
	e.dial("127.9.0.1", doorway.Most-3)
	e.dial("127.2.0.1", 2)
	e.arrived(doorway.Most)
	e.shut.Unlock()
	entered := e.has(doorway.Most)
	e.end()
	for i, a := range entered[1:11] {
		if known := a.As4()[1] == 9; known != (i%5 != 4) {
			t.Errorf("turn %d is that of %v", i, a)
		}
	}
}

// When Serve has returned, each connection that it has accepted has entered or is closed.
func TestNoConnectionIsLeft(t *testing.T) {
	e := open(t)
	waiting := e.dial("127.1.0.1", 5)
	e.arrived(6)
	e.l.Close()
	e.shut.Unlock()
	entered := len(e.end())
	closed := 0
	for _, c := range waiting {
		if isClosed(c) {
			closed++
		}
	}
	if closed != len(waiting) {
		t.Errorf("%d of %d connections are closed, %d have entered", closed, len(waiting), entered)
	}
}

func TestProtocolOf(t *testing.T) {
	for head, want := range map[string]doorway.Protocol{
		"": doorway.Unknown, "MPA ID Req Frame\x40\x02\x00\x14": doorway.MPA, "MPA ID Rep Frame\x40\x02\x00\x14": doorway.Unknown,
		"GET / HTTP/1.1\r\nHost:": doorway.HTTP, "PRI * HTTP/2.0\r\n\r\nSM": doorway.HTTP, "SSH-2.0-OpenSSH_9.2\r": doorway.SSH,
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03": doorway.TLS, "\x16\x03\x01\x02\x00\x02": doorway.Unknown,
		"\x80\x00\x00\x28\x12\x34\x56\x78\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01\x86\xa3": doorway.RPC,
		"\x80\x00\x00\x28\x12\x34\x56\x78\x00\x00\x00\x01\x00\x00\x00\x02\x00\x01\x86\xa3": doorway.Unknown, // a reply
	} {
		if got := doorway.ProtocolOf([]byte(head)); got != want {
			t.Errorf("%q: %v, want %v", head, got, want)
		}
	}
}
