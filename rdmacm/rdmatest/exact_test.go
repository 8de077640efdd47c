package rdmatest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
)

var anywhere = netip.MustParseAddrPort("192.0.2.1:20049")

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

// If code breaks a rule of rdmacm, it gets an error or a panic.
func TestMisuseIsNoticed(t *testing.T) {
	param := common()
	kept := make(chan *rdmacm.Recv, 1)
	param.Received = func(_ *Peer, r *rdmacm.Recv) { kept <- r }
	s, a, b, _ := connected(t, Config{MaxSend: 4000, MaxLocal: 2}, param)
	c := a.Conn()
	done := func(*rdmacm.Chain, error, int) {}
	mustPanic(t, "a Send before the end of its chain", func() {
		c.Post(&rdmacm.Chain{Work: []rdmacm.Work{SendOf(), SendOf()}, Done: done})
	})
	mustPanic(t, "work of no kind", func() { c.Post(&rdmacm.Chain{Work: make([]rdmacm.Work, 1), Done: done}) })
	mustPanic(t, "no Done", func() { c.Post(&rdmacm.Chain{}) })
	mustPanic(t, "smaller receives", func() { c.Provide(1, 4095) })
	mustPanic(t, "no Handler", func() {
		s.provider.Dial(t.Context(), anywhere, rdmacm.ConnParam{})
	})

	var length *rdmacm.LengthError
	if o := a.Do(WriteOf(rdmacm.Remote{}), SendOf(make([]byte, 4001))); !errors.As(o.Err, &length) || o.Failed != 1 {
		t.Errorf("a Send longer than MaxSend: %+v", o)
	}
	if o := a.Do(SendOf(nil, nil, nil)); o.Err == nil || o.Failed != 0 {
		t.Errorf("more pieces than MaxLocal: %+v", o)
	}

	s.noError(a.Send([]byte("message")))
	r := within(t, "the message arrives", kept)
	if messages, _ := b.Conn().(*Conn).Held(); messages != 1 {
		t.Errorf("%d messages held", messages)
	}
	r.Release()
	if strings.Contains(string(r.Bytes), "mess") {
		t.Error("a released message is still readable")
	}
	mustPanic(t, "Release twice", r.Release)
	if messages, _ := b.Conn().(*Conn).Held(); messages != 0 {
		t.Errorf("%d messages held", messages)
	}
}

// A chain whose Reads exceed ReadDepth fails, and no other chain does (conformance row V1-12).
func TestReadDepthIsKeptToTheRead(t *testing.T) {
	s, a, b, f := connected(t, Config{MaxReads: 2}, common())
	if d := a.Conn().ReadDepth(); d != 2 {
		t.Fatalf("ReadDepth is %d", d)
	}
	release := f.HoldReads()
	region := b.Expose(make([]byte, 1), rdmacm.RemoteRead)
	read := func(n int) (w []rdmacm.Work) {
		for range n {
			w = append(w, ReadOf(At(region, 0), make([]byte, 1)))
		}
		return w
	}
	first := a.Post(read(1)...)
	excess := a.Post(append(read(2), SendOf([]byte("never")))...)
	second := a.Post(read(1)...)
	release()
	s.ok(a.await(first))
	if o := a.await(excess); !errors.Is(o.Err, rdmacm.ErrReadDepth) || o.Failed != 1 {
		t.Fatal(o)
	}
	s.ok(a.await(second))
	s.ok(a.Do(read(2)...))
	if len(b.Messages()) != 0 {
		t.Fatal("the failed chain was carried out in part")
	}
	s.lives(a, b)
}

// Posts from within the handler's methods wait until the handler has got all messages that arrived.
func TestPostsOfTheHandlerGoTogether(t *testing.T) {
	echo := common()
	echo.Received = func(p *Peer, r *rdmacm.Recv) {
		r.Release()
		p.Post(SendOf([]byte("answer")))
	}
	p := New()
	s := &suite{T: t, provider: p, Options: Options{Listen: anywhere}}
	a, b := s.pair(common(), echo)
	s.noError(a.Send(nil))
	a.Receive()
	id := b.Conn().(*Conn).ID()
	p.Log().Order(t, Is(KindReceived, id), IsPost(rdmacm.OpSend, id), Is(KindServed, id), Is(KindCarried, id))
}

// Disconnect ends the connection after Config.Patience even if the peer does nothing.
func TestDisconnectLosesPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, a, b, f := connected(t, Config{Patience: 7 * time.Second}, common())
		f.HoldReads()
		region := b.Expose(make([]byte, 1), rdmacm.RemoteRead)
		out := a.Post(ReadOf(At(region, 0), make([]byte, 1)))
		a.Conn().Disconnect()
		if err := a.End(); !errors.Is(err, rdmacm.ErrTimeout) {
			t.Fatal(err)
		}
		if o := a.await(out); !errors.Is(o.Err, rdmacm.ErrFlushed) {
			t.Fatal(o)
		}
		if time.Since(begin) != 7*time.Second {
			t.Fatalf("it took %v", time.Since(begin))
		}
	})
}

func TestAddressesAreAPrivateNameSpace(t *testing.T) {
	p, q := New(), New()
	for _, addr := range []string{"0.0.0.0:20049", "[::]:20050", "192.0.2.7:0"} {
		l, err := p.Listen(netip.MustParseAddrPort(addr))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if _, err := p.Listen(l.Addr()); err == nil {
			t.Errorf("two listeners at %v", l.Addr())
		}
		to := l.Addr()
		if to.Addr().IsUnspecified() {
			to = netip.AddrPortFrom(netip.MustParseAddr("192.0.2.99"), to.Port())
		}
		param := common()
		newPeer(t, &param)
		if _, err := q.Dial(t.Context(), to, param.ConnParam); err == nil {
			t.Error("another provider's listener answers")
		}
		s := &suite{T: t, provider: p}
		dialed := s.dial(to, common())
		b := AcceptPeer(t, l, common())
		s.lives(dialed(), b)
	}
}

// When a listener is closed, Dial fails for the requests that were not accepted.
func TestClosedListenerRefusesWaitingRequests(t *testing.T) {
	p := New()
	l, err := p.Listen(anywhere)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	param := common()
	newPeer(t, &param)
	for range 3 {
		go func() {
			_, err := p.Dial(context.Background(), anywhere, param.ConnParam)
			failed <- err
		}()
	}
	l.Close()
	for range 3 {
		if err := within(t, "Dial returns", failed); err == nil {
			t.Error("a connection without a listener")
		}
	}
}

func TestConnHookComesFirst(t *testing.T) {
	var hooked []bool
	cfg := Config{Conn: func(c *Conn) {
		hooked = append(hooked, c.Accepted())
		if !c.Accepted() {
			c.Faults().LoseAt(0, Before)
		}
	}}
	s, a, b, _ := connected(t, cfg, common())
	if fmt.Sprint(hooked) != "[false true]" {
		t.Fatal(hooked)
	}
	a.Post(SendOf())
	s.killed(a, b)
	if n := b.Conn().(*Conn).Promised(); n != 16 {
		t.Fatalf("%d receives left", n)
	}
	if b.Conn().(*Conn).Other() != a.Conn() {
		t.Fatal("Other is another")
	}
}

// failing is a testing.TB that records the text of the last Errorf.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper()                        {}
func (f *failing) Errorf(format string, a ...any) { f.said = fmt.Sprintf(format, a...) }

// The log shows the order of events on which the tests of conformance rows V1-8, V1-9, V1-16,
// V1-43 and V1-92 rely.
func TestLogKeepsTheOrder(t *testing.T) {
	s, a, b, _ := connected(t, Config{}, common())
	log := s.provider.(*Provider).Log()
	log.Mark("marshalled")
	region := a.Expose(make([]byte, 10), rdmacm.RemoteWrite)
	s.noError(a.Send([]byte("call")))
	b.Receive()
	s.noError(b.Write(At(region, 0), []byte("reply")))
	b.Promise(1)
	s.noError(b.Send([]byte("reply")))
	a.Receive()
	s.noError(region.Deregister())
	log.Mark("consumer wakes")
	idA, idB := a.Conn().(*Conn).ID(), b.Conn().(*Conn).ID()
	good := []func(Event) bool{
		IsMark("marshalled"), Is(KindRegister, idA), IsPost(rdmacm.OpSend, idA), Is(KindReceived, idB),
		IsPost(rdmacm.OpWrite, idB), Is(KindProvide, idB), IsPost(rdmacm.OpSend, idB), Is(KindReceived, idA),
		Is(KindDeregister, idA), IsMark("consumer wakes"),
	}
	log.Order(t, good...)
	bad := &failing{TB: t}
	log.Order(bad, good[2], good[1])
	if !strings.Contains(bad.said, "Send") || !strings.Contains(bad.said, "mark consumer wakes") {
		t.Errorf("a wrong order is told as %q", bad.said)
	}
	if seen := a.Seen(); len(seen) != 2 || seen[0].Op != rdmacm.OpWrite || seen[1].Op != rdmacm.OpSend {
		t.Errorf("seen at a: %v", seen)
	}
	for _, e := range log.Events() {
		if strings.Contains(e.String(), "?") {
			t.Errorf("an event without a name: %v", e)
		}
	}
}

func TestLogWait(t *testing.T) {
	log := newLog(false)
	go log.Mark("here")
	if e, err := log.Wait(t.Context(), IsMark("here")); err != nil || e.Text != "here" {
		t.Fatal(e, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err := log.Wait(ctx, IsMark("never")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
