package tcp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// from connects to the fixture, from an address of the loopback network.
func (f *fixture) from(host string) net.Conn {
	f.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	c, err := d.Dial("tcp", f.addr)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	return c
}

// bump makes a call by which the peer becomes known, and reports whether it was answered.
func bump(c net.Conn, xid uint32) error {
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write(fragments(rpctest.Message(xid, rpctest.BUMP, u32(0)))); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 4+24+8))
	return err
}

// If MaxConns connections of peers that are not known are idle, a newcomer takes the seat of the
// oldest of them.
func TestIdleConnectionsKeepNoClientOut(t *testing.T) {
	const most = 50
	f := start(t, Config{MaxConns: most})
	var idle []net.Conn
	for range most {
		idle = append(idle, f.from("127.0.0.2"))
	}
	// The test waits until all connections have seats, so that the newcomers find none free.
	await.Until(t, "all have seats", func() bool { return f.Stats().Connections == most })
	for i := range uint32(5) {
		if err := bump(f.from("127.0.0.3"), i); err != nil {
			t.Fatalf("newcomer %d: %v", i, err)
		}
	}
	for _, c := range idle[:5] {
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%d bytes on a connection that is to end", n)
		}
	}
	if s := f.cfg.Census.Stats(); s.Count[census.Evicted] != 5 || s.Seats[census.Known] != 5 {
		t.Errorf("%+v", s)
	}
}

// If known peers of one address have all seats, the server refuses further connections from there,
// and reports an event. When one of the peers leaves, its seat is free.
func TestSeatsOfKnownPeers(t *testing.T) {
	events := make(chan Event, 100)
	f := start(t, Config{MaxConns: 2, Event: func(e Event) { events <- e }})
	one, two := f.raw(), f.raw()
	for i, c := range []net.Conn{one, two} {
		if err := bump(c, uint32(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := bump(f.raw(), 3); err == nil {
		t.Error("a third was served")
	}
	for e := range events {
		if e.Kind == EventRefused {
			if !errors.Is(e.Err, census.AddressFull) || e.Peer.Addr() != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("%+v", e)
			}
			break
		}
	}
	if n := f.Stats().Refused; n != 1 {
		t.Errorf("%d refused", n)
	}
	one.Close()
	await.Until(t, "the seat is free", func() bool { s := f.cfg.Census.Stats(); return s.Total() == 1 })
	if err := bump(f.raw(), 4); err != nil {
		t.Error(err)
	}
}

// A connection has a limited time until its first whole record, and until a call that makes its
// peer known; NULL is no such call. A known peer may be idle.
func TestDeadlinesOfStrangers(t *testing.T) {
	null := fragments(rpctest.Message(1, rpctest.NULL, nil))
	for _, c := range []struct {
		name  string
		sends []byte
		ends  int // seconds until it ends; 0: never
	}{
		{"nothing", nil, 10},
		{"half a record", null[:20], 10},
		{"NULL", null, 60},
		{"a call", fragments(rpctest.Message(1, rpctest.BUMP, u32(0))), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			limits := census.Config{FirstTimeout: 10 * time.Second, CallTimeout: time.Minute}
			bubbleWith(t, limits, func(t *testing.T, f *fixture, connect func() net.Conn) {
				p := connect()
				go io.Copy(io.Discard, p)
				if _, err := p.Write(c.sends); err != nil {
					t.Fatal(err)
				}
				if c.ends == 0 {
					time.Sleep(time.Hour)
					synctest.Wait()
					if f.Stats().Connections != 1 {
						t.Error("the connection of a known peer ended")
					}
					return
				}
				time.Sleep(time.Duration(c.ends)*time.Second - time.Second)
				synctest.Wait()
				if f.Stats().Connections != 1 {
					t.Error("it ended early")
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if n := f.Stats().Connections; n != 0 {
					t.Error("it did not end")
				}
			})
		})
	}
}

// A peer that is not known keeps its connection while the server works on its call, however long. A
// peer that only repeats NULL loses its connection after CallTimeout.
func TestCallOfAStrangerMayTakeLong(t *testing.T) {
	limits := census.Config{FirstTimeout: 10 * time.Second, CallTimeout: time.Minute}
	bubbleWith(t, limits, func(t *testing.T, f *fixture, connect func() net.Conn) {
		f.program.Judging = nil // no peer becomes known
		stalled, pings := connect(), connect()
		go io.Copy(io.Discard, stalled)
		go io.Copy(io.Discard, pings)
		if _, err := stalled.Write(fragments(rpctest.Message(1, rpctest.STALL, u32(1)))); err != nil {
			t.Fatal(err)
		}
		<-f.program.Arrived(1)
		for range 11 {
			if _, err := pings.Write(fragments(rpctest.Message(2, rpctest.NULL, nil))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
		}
		synctest.Wait()
		if n := f.Stats().Connections; n != 2 {
			t.Errorf("%d connections before the minute is over", n)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := f.Stats().Connections; n != 1 {
			t.Errorf("%d connections after a minute of NULL", n)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := f.Stats().Connections; n != 1 {
			t.Error("the one whose call is under way ended")
		}
		f.program.Release(1)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := f.Stats().Connections; n != 0 {
			t.Error("it lasts, although its call was answered and it is not known")
		}
	})
}

// exhausted is the listener of a process that has no descriptors left.
type exhausted struct {
	net.Listener
	accepts atomic.Int64
}

func (l *exhausted) Accept() (net.Conn, error) {
	l.accepts.Add(1)
	return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
}

func (l *exhausted) Close() error   { return nil }
func (l *exhausted) Addr() net.Addr { return &net.TCPAddr{} }

// If the process has no descriptors left, the listener does not spin, and the server ends the
// connection of a peer that is not known, to free a descriptor for the backlog.
func TestOutOfDescriptors(t *testing.T) {
	bubbleWith(t, census.Config{}, func(t *testing.T, f *fixture, connect func() net.Conn) {
		known, stranger := connect(), connect()
		if err := bump(known, 1); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		l := new(exhausted)
		go func() { ended <- f.Serve(l) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := l.accepts.Load(); n < 10 || n > 100 {
			t.Errorf("%d attempts to accept in a minute", n)
		}
		if !gone(stranger) || gone(known) {
			t.Error("the stranger stays, or the known peer went")
		}
		f.Server.Close()
		if err := <-ended; err != ErrServerClosed {
			t.Error(err)
		}
	})
}

// If the Census evicts a client's connection, the client's calls end with rpc.ErrCallLost.
func TestEvictedClient(t *testing.T) {
	f := start(t, Config{MaxConns: 1})
	c := f.dial(DialConfig{})
	if err := rpc.Do(context.Background(), c, exchange(rpctest.NULL, nil), nil); err != nil {
		t.Fatal(err)
	}
	if err := bump(f.raw(), 1); err != nil {
		t.Fatal(err)
	}
	if err := rpc.Do(context.Background(), c, exchange(rpctest.NULL, nil), nil); !errors.Is(err, rpc.ErrCallLost) {
		t.Errorf("%v", err)
	}
}

// If a record is incomplete and its peer is not known, the server keeps only the bytes that it
// needs to judge the record. A known peer's record is kept until it is whole, up to ringRecord
// bytes.
func TestHalfRecordsOfStrangers(t *testing.T) {
	long := fragments(rpctest.Message(1, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(make([]byte, 16<<10)) }))
	// A record of this length stays in the ring if the peer is known.
	short := fragments(rpctest.Message(1, rpctest.ECHO, func(w *xdr.Writer) { w.Opaque(make([]byte, 6<<10)) }))
	wrong := fragments(append(rpctest.Message(2, rpctest.NULL, nil), make([]byte, 30<<10)...))
	for _, c := range []struct {
		name   string
		known  bool
		record []byte
		most   int
	}{
		{"a stranger's call that is served", false, long, keptStash},
		{"a stranger's shorter call", false, short, keptStash},
		{"a stranger's call that is not", false, wrong, keptStash},
		{"a stranger's prefix", false, long[:rpc.AdmitPrefix], 2 * rpc.AdmitPrefix},
		{"a known peer's", true, long, 24 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, f *fixture, connect func() net.Conn) {
				p := connect()
				if c.known {
					if err := bump(p, 9); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := p.Write(c.record[:len(c.record)*15/16]); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // the connection waits within the record
				f.mu.Lock()
				defer f.mu.Unlock()
				if len(f.conns) != 1 {
					t.Fatalf("%d connections", len(f.conns))
				}
				for k := range f.conns {
					if doing, n := k.doing.Load(), cap(k.stash); doing != insideRec || n > c.most {
						t.Errorf("in state %d, %d bytes are kept of a record of %d", doing, n, len(c.record))
					}
				}
			})
		})
	}
}
