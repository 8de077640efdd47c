package iwarp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/internal/turns"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

// from connects a raw peer from the given address of the loopback network.
func from(t testing.TB, l rdmacm.Listener, address string) (*rawpeer.Peer, *side) {
	t.Helper()
	raw := rawpeer.New(t, silent(t, l.Addr(), address, 1)[0])
	raw, s, _ := passiveTo(t, raw, l, rawpeer.LinuxRequest(), func(p *rdmacm.ConnParam) { p.Receives = 1 << 20 })
	return raw, s
}

// hold takes the only ring of a provider.
func hold(t testing.TB, p *Provider) *ring {
	t.Helper()
	await.Until(t, "the ring is free", func() bool {
		rings, lent := p.rings.Count()
		return rings == 1 && lent == 0
	})
	r, _ := p.rings.Borrow(new(turns.Borrower[*ring]))
	return r
}

func ringsLent(p *Provider) int {
	_, lent := p.rings.Count()
	return lent
}

// waits returns when the connection's receiver waits for a ring.
func waits(t testing.TB, s *side) {
	t.Helper()
	await.Until(t, "the connection waits for a ring", func() bool {
		return s.p.rings.Waits(&s.rx.lent)
	})
}

// IW-113, IW-117: peers that send without a pause do not stop another connection, even if they
// are more than there are rings: it still gets a ring. Abort still ends it at once. The peers
// send small RDMA Writes, which complete no message.
func TestFloodingPeersPassTheRingsOn(t *testing.T) {
	for _, flooders := range []int{1, 12} {
		t.Run(fmt.Sprint(flooders), func(t *testing.T) {
			l := listen(t, provider(t, Config{}))
			honest, s := from(t, l, "127.0.0.1")
			s.on(func(r *rdmacm.Recv) {
				b := bytes.Clone(r.Bytes)
				r.Release()
				s.Post(&rdmacm.Chain{Work: []rdmacm.Work{send(b)}, Done: func(*rdmacm.Chain, error, int) {}})
			})
			honest.WriteFPDU(rawpeer.Ready())
			ping := func() {
				t.Helper()
				honest.WriteFPDU(honest.Send([]byte("ping")))
				if m := honest.ReadOp(wire.Send); string(m.Payload) != "ping" {
					t.Fatalf("answer %q", m.Payload)
				}
			}
			ping()
			var taken []func() uint64
			for range flooders {
				raw, f := from(t, l, "127.0.0.2")
				r := f.expose(make([]byte, 64), rdmacm.RemoteWrite)
				one := raw.Bytes(rawpeer.Tagged(wire.Tagged{Op: wire.Write, Last: true, STag: r.STag(), Offset: r.Offset()}, make([]byte, 64)))
				go flood(raw.Conn, bytes.Repeat(one, (1<<20)/len(one)))
				taken = append(taken, f.rx.arrived.Load)
			}
			await.Until(t, "each flooder has had a turn", func() bool {
				return !slices.ContainsFunc(taken, func(arrived func() uint64) bool { return arrived() < turnSize })
			})
			for range 10 {
				ping()
			}
			s.Abort(nil)
			s.ended()
		})
	}
}

// flood writes until the connection ends.
func flood(c *net.TCPConn, b []byte) {
	for {
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// IW-117: among connections that wait for a ring, client addresses take turns. So a connection
// waits for one connection of each other address, not for all of them.
func TestRingsGoFromAddressToAddress(t *testing.T) {
	l := listen(t, provider(t, Config{Rings: 1}))
	order := make(chan string, 10)
	var sides []*side
	var raws []*rawpeer.Peer
	for i, address := range []string{"127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.3"} {
		raw, s := from(t, l, address)
		raw.WriteFPDU(rawpeer.Ready())
		name := fmt.Sprintf("%s, connection %d", address, i)
		s.on(func(r *rdmacm.Recv) {
			r.Release()
			order <- name
		})
		await.Until(t, "the ready-to-receive message is taken in", func() bool { return s.rx.arrived.Load() > 0 })
		sides, raws = append(sides, s), append(raws, raw)
	}
	p := sides[0].p
	held := hold(t, p)
	for i, raw := range raws {
		raw.WriteFPDU(raw.Send([]byte("hello")))
		waits(t, sides[i])
	}
	p.rings.GiveBack(held)
	for _, want := range []string{
		"127.0.0.2, connection 0", "127.0.0.3, connection 3", "127.0.0.2, connection 1", "127.0.0.2, connection 2",
	} {
		if got := wait(t, order); got != want {
			t.Errorf("%s has the ring, want %s", got, want)
		}
	}
}

// A connection that waits for a ring ends at once by Abort. The ring goes to the next connection.
func TestWaitingForARingEndsWithTheConnection(t *testing.T) {
	l := listen(t, provider(t, Config{Rings: 1}))
	first, a := from(t, l, "127.0.0.1")
	second, b := from(t, l, "127.0.0.1")
	for _, raw := range []*rawpeer.Peer{first, second} {
		raw.WriteFPDU(rawpeer.Ready())
	}
	for _, s := range []*side{a, b} {
		await.Until(t, "the ready-to-receive message is taken in", func() bool { return s.rx.arrived.Load() > 0 })
	}
	held := hold(t, a.p)
	first.WriteFPDU(first.Send([]byte("never")))
	waits(t, a)
	second.WriteFPDU(second.Send([]byte("hello")))
	waits(t, b)
	a.Abort(nil)
	if err := a.ended(); !errors.Is(err, rdmacm.ErrAborted) {
		t.Errorf("ended by %v", err)
	}
	a.p.rings.GiveBack(held)
	if m := wait(t, b.received); string(m) != "hello" {
		t.Errorf("%q", m)
	}
	if n, _ := b.p.rings.Count(); n != 1 {
		t.Errorf("%d rings were made", n)
	}
}

// FPDUs that carry no byte and complete no message are counted, and mostEmpty of them end the
// connection. A message resets the count; a byte of a message does not.
func TestEmptyFPDUsAreBounded(t *testing.T) {
	for name, empty := range map[string]func(p *rawpeer.Peer) []byte{
		"RDMA Writes":             func(*rawpeer.Peer) []byte { return rawpeer.Ready() },
		"segments of RDMA Writes": func(*rawpeer.Peer) []byte { return rawpeer.Tagged(wire.Tagged{Op: wire.Write}, nil) },
		"segments of a Send": func(p *rawpeer.Peer) []byte {
			return rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: p.MSN[wire.QueueSend] + 1}, nil)
		},
		"RDMA Reads": func(p *rawpeer.Peer) []byte { return p.ReadRequest(wire.Read{SinkSTag: 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			raw, s := passive(t, Config{})
			raw.WriteFPDU(rawpeer.Ready())
			for range 2 {
				raw.WriteFPDU(raw.Send([]byte("a byte")))
				wait(t, s.received)
				for range mostEmpty - 1 {
					raw.WriteFPDU(empty(raw))
					if name == "RDMA Reads" {
						raw.ReadOp(wire.ReadResponse)
					}
				}
			}
			if name == "segments of a Send" {
				raw.WriteFPDU(rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: raw.MSN[wire.QueueSend] + 1}, []byte("a byte")))
				raw.WriteFPDU(rawpeer.Untagged(wire.Untagged{Op: wire.Send, MSN: raw.MSN[wire.QueueSend] + 1, Offset: 6}, nil))
			} else {
				raw.WriteFPDU(empty(raw))
			}
			if err := s.ended(); !errors.Is(err, ErrEmpty) {
				t.Errorf("ended by %v", err)
			}
			if ends := s.p.counters.emptyEnds.Load(); s.rx.empty != mostEmpty || ends != 1 {
				t.Errorf("%d empty FPDUs counted, want %d; %d connections ended", s.rx.empty, mostEmpty, ends)
			}
		})
	}
}

// If handlers block while they have all rings, other connections still get a ring.
func TestStuckHandlersDoNotStopOthers(t *testing.T) {
	p := provider(t, Config{Rings: 1})
	p.rings.Patience = ringPatience
	l := listen(t, p)
	stuck, s := from(t, l, "127.0.0.1")
	other, o := from(t, l, "127.0.0.2")
	block, blocks := make(chan struct{}), make(chan struct{})
	s.on(func(r *rdmacm.Recv) {
		r.Release()
		close(blocks)
		<-block
	})
	for _, raw := range []*rawpeer.Peer{stuck, other} {
		raw.WriteFPDU(rawpeer.Ready())
	}
	stuck.WriteFPDU(stuck.Send([]byte("first")))
	wait(t, blocks)
	other.WriteFPDU(other.Send([]byte("hello")))
	if m := wait(t, o.received); string(m) != "hello" {
		t.Errorf("%q", m)
	}
	close(block)
}
