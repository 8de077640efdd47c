package iwarp

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

// tester is a Handler that sends a copy of each message to received, and the error of Closed to
// closed.
type tester struct {
	received chan []byte
	closed   chan error
	hook     atomic.Pointer[func(r *rdmacm.Recv)]
}

func newTester() *tester {
	return &tester{received: make(chan []byte, 1000), closed: make(chan error, 1)}
}

func (h *tester) Received(r *rdmacm.Recv) {
	if f := h.hook.Load(); f != nil {
		(*f)(r)
		return
	}
	h.received <- bytes.Clone(r.Bytes)
	r.Release()
}

// on makes f receive the messages instead.
func (h *tester) on(f func(r *rdmacm.Recv)) { h.hook.Store(&f) }

func (h *tester) Closed(err error) { h.closed <- err }

type result struct {
	err    error
	failed int
}

// post posts work and returns the channel of its result.
func post(c rdmacm.Conn, work ...rdmacm.Work) <-chan result {
	ch := make(chan result, 1)
	c.Post(&rdmacm.Chain{Work: work, Done: func(_ *rdmacm.Chain, err error, failed int) { ch <- result{err, failed} }})
	return ch
}

const hang = 20 * time.Second // only a guard against a hang

func wait[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(hang):
		t.Fatal("nothing happened")
		panic("unreachable")
	}
}

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// pair connects two Conns of a new Provider.
func pair(t testing.TB, cfg Config, a, b rdmacm.Handler) (active, passive rdmacm.Conn) {
	t.Helper()
	return pairOf(t, provider(t, cfg), a, b)
}

// pairOf connects two Conns of a Provider.
func pairOf(t testing.TB, p *Provider, a, b rdmacm.Handler) (active, passive rdmacm.Conn) {
	t.Helper()
	l, err := p.Listen(loopback)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type accepted struct {
		c   rdmacm.Conn
		err error
	}
	ch := make(chan accepted, 1)
	go func() {
		r, err := l.Accept()
		if err != nil {
			ch <- accepted{nil, err}
			return
		}
		c, err := r.Accept(rdmacm.ConnParam{Handler: b, Receives: 128, ReceiveSize: 4096, InboundReads: 16, OutboundReads: 16})
		ch <- accepted{c, err}
	}()
	active, err = p.Dial(context.Background(), l.Addr(), rdmacm.ConnParam{Handler: a, Receives: 128, ReceiveSize: 4096, InboundReads: 16, OutboundReads: 16})
	if err != nil {
		t.Fatal(err)
	}
	r := wait(t, ch)
	if r.err != nil {
		t.Fatal(r.err)
	}
	return active, r.c
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}

func TestBasic(t *testing.T) {
	for _, cfg := range []Config{{}, {CRC: CRCOff}, {CRC: CRCOff, MaxFPDU: FPDUMSS}, {MaxFPDU: 1448}, {ClientServer: true}, {RTR: 4}, {RTR: 1}, {Revision: 1}} {
		ha, hb := newTester(), newTester()
		a, b := pair(t, cfg, ha, hb)
		ok := func(ch <-chan result) {
			t.Helper()
			if r := wait(t, ch); r.err != nil || r.failed != -1 {
				t.Fatal(r)
			}
		}
		sa := post(a, rdmacm.Work{Op: rdmacm.OpSend, Local: [][]byte{[]byte("hello "), []byte("there")}})
		if got := wait(t, hb.received); string(got) != "hello there" {
			t.Fatalf("%q", got)
		}
		ok(sa)
		big := randomBytes(3<<20 + 5)
		sink := make([]byte, len(big))
		ra, err := a.Register(big, rdmacm.RemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		rd := post(b, rdmacm.Work{Op: rdmacm.OpRead, Local: [][]byte{sink[:100], nil, sink[100:70000], sink[70000:]}, Remote: rdmacm.Remote{STag: ra.STag(), Offset: ra.Offset()}})
		ok(rd)
		if !bytes.Equal(big, sink) {
			t.Fatal("RDMA Read brought something else")
		}
		if err := ra.Deregister(); err != nil {
			t.Fatal(err)
		}
		clear(sink)
		rw, _ := a.Register(sink, rdmacm.RemoteWrite)
		w := post(b, rdmacm.Work{Op: rdmacm.OpWrite, Local: [][]byte{big[:10], big[10:]}, Remote: rdmacm.Remote{STag: rw.STag(), Offset: rw.Offset()}},
			rdmacm.Work{Op: rdmacm.OpSendInvalidate, Local: [][]byte{[]byte("done")}, Invalidate: rw.STag()})
		if got := wait(t, ha.received); string(got) != "done" {
			t.Fatalf("%q", got)
		}
		ok(w)
		if !bytes.Equal(big, sink) {
			t.Fatal("RDMA Write brought something else")
		}
		b.Disconnect()
		if err := wait(t, ha.closed); err != nil {
			t.Fatal(err)
		}
		if err := wait(t, hb.closed); err != nil {
			t.Fatal(err)
		}
		wait(t, a.Done())
		wait(t, b.Done())
	}
}
